//! Quotas of users, groups and trees.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weft_client::{NewBounds, Payer, QuotaKind};

use crate::names::path_of;
use crate::volume::Volume;
use crate::waiting::wait;

/// See `_weft.pyi`.
#[pyclass(frozen, get_all, module = "weft._weft")]
pub(crate) struct Quota {
    kind: &'static str,
    id: u64,
    path: OsString,
    bytes: u64,
    files: u64,
    bytes_max: Option<u64>,
    files_max: Option<u64>,
}

impl From<weft_client::Quota> for Quota {
    fn from(found: weft_client::Quota) -> Quota {
        Quota {
            kind: match found.kind {
                QuotaKind::User => "user",
                QuotaKind::Group => "group",
                _ => "tree",
            },
            id: found.id,
            path: OsString::from_vec(found.path),
            bytes: found.bytes,
            files: found.files,
            bytes_max: found.bytes_max,
            files_max: found.files_max,
        }
    }
}

#[pymethods]
impl Quota {
    fn __repr__(&self) -> String {
        format!("<weft.Quota of {} {}>", self.kind, self.id)
    }
}

fn payer_of(
    user: Option<u32>,
    group: Option<u32>,
    tree: Option<&Bound<'_, PyAny>>,
) -> PyResult<Payer> {
    match (user, group, tree) {
        (Some(user), None, None) => Ok(Payer::User(user)),
        (None, Some(group), None) => Ok(Payer::Group(group)),
        (None, None, Some(tree)) => Ok(Payer::Tree(path_of(tree)?.0.into())),
        _ => Err(PyValueError::new_err(
            "a quota is that of a user, a group or a tree: name one of them",
        )),
    }
}

#[pymethods]
impl Volume {
    /// Bounds what a user, a group or a tree may use; a bound that is None is lifted.
    #[pyo3(signature = (*, user=None, group=None, tree=None, bytes_max=None, files_max=None))]
    fn set_quota(
        &self,
        py: Python<'_>,
        user: Option<u32>,
        group: Option<u32>,
        tree: Option<&Bound<'_, PyAny>>,
        bytes_max: Option<u64>,
        files_max: Option<u64>,
    ) -> PyResult<Quota> {
        let payer = payer_of(user, group, tree)?;
        let bounds = NewBounds {
            bytes: Some(bytes_max),
            files: Some(files_max),
        };
        let volume = self.0.volume(py)?;
        Ok(wait(py, None, volume.set_quota(&payer, bounds))?.into())
    }

    #[pyo3(signature = (*, user=None, group=None, tree=None))]
    fn clear_quota(
        &self,
        py: Python<'_>,
        user: Option<u32>,
        group: Option<u32>,
        tree: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let payer = payer_of(user, group, tree)?;
        let volume = self.0.volume(py)?;
        wait(py, None, volume.clear_quota(&payer)).map(drop)
    }

    fn quotas(&self, py: Python<'_>) -> PyResult<Vec<Quota>> {
        let volume = self.0.volume(py)?;
        let found = wait(py, None, volume.quotas())?;
        Ok(found.into_iter().map(Into::into).collect())
    }
}
