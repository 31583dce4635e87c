//! What is asked of a volume by path: names, attributes, extended attributes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weft_client::{Changes, NewMode, Time, XattrMode};

use crate::buffer::path_bytes;
use crate::stat::{Entry, Stat};
use crate::volume::{Volume, layout_of};
use crate::waiting::wait;

/// The bytes of a path, and what messages call it.
pub(crate) fn path_of(path: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, String)> {
    let bytes = path_bytes(path)?;
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    Ok((bytes, shown))
}

#[pymethods]
impl Volume {
    #[pyo3(signature = (path, *, follow=true))]
    fn stat(&self, py: Python<'_>, path: &Bound<'_, PyAny>, follow: bool) -> PyResult<Stat> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let found = wait(py, Some(&shown), async {
            if follow {
                volume.stat(path).await
            } else {
                volume.stat_link(path).await
            }
        })?;
        Ok(Stat::from(&found))
    }

    /// All names of a directory.
    fn list(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Vec<Entry>> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let listed = wait(py, Some(&shown), volume.list(path).all())?;
        let entries = listed.into_iter().map(|listed| Entry {
            name: OsString::from_vec(listed.name.to_vec()),
            stat: Stat::from(&listed.attributes),
        });
        Ok(entries.collect())
    }

    #[pyo3(signature = (path, *, permissions=0o755))]
    fn mkdir(&self, py: Python<'_>, path: &Bound<'_, PyAny>, permissions: u32) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let made = volume.make_directory(path, NewMode::from(permissions));
        wait(py, Some(&shown), made).map(drop)
    }

    fn rmdir(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        wait(py, Some(&shown), volume.remove_directory(path)).map(drop)
    }

    fn unlink(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        wait(py, Some(&shown), volume.unlink(path)).map(drop)
    }

    /// Renames; what has the new name is replaced, unless `replace` is false.
    #[pyo3(signature = (old, new, *, replace=true))]
    fn rename(
        &self,
        py: Python<'_>,
        old: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
        replace: bool,
    ) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let ((old, shown), (new, _)) = (path_of(old)?, path_of(new)?);
        wait(py, Some(&shown), async {
            if replace {
                volume.rename(old, new).await
            } else {
                volume.rename_new(old, new).await
            }
        })
        .map(drop)
    }

    /// Exchanges two names.
    fn exchange(
        &self,
        py: Python<'_>,
        one: &Bound<'_, PyAny>,
        other: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let ((one, shown), (other, _)) = (path_of(one)?, path_of(other)?);
        wait(py, Some(&shown), volume.exchange(one, other)).map(drop)
    }

    fn link(
        &self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let ((file, _), (name, shown)) = (path_of(file)?, path_of(name)?);
        wait(py, Some(&shown), volume.link(file, name)).map(drop)
    }

    fn symlink(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        path: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let ((target, _), (path, shown)) = (path_of(target)?, path_of(path)?);
        wait(py, Some(&shown), volume.make_link(path, target)).map(drop)
    }

    fn readlink(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<OsString> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let target = wait(py, Some(&shown), volume.read_link(path))?;
        Ok(OsString::from_vec(target.to_vec()))
    }

    /// Changes attributes; what is None stays.
    #[pyo3(signature = (path, *, permissions=None, uid=None, gid=None, accessed_ns=None,
        modified_ns=None, layout=None, policy=None, follow=true))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn set_attributes(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        permissions: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        accessed_ns: Option<i64>,
        modified_ns: Option<i64>,
        layout: Option<&Bound<'_, PyDict>>,
        policy: Option<&str>,
        follow: bool,
    ) -> PyResult<Stat> {
        let volume = self.0.volume(py)?;
        let policy = match policy {
            None => None,
            Some("") => Some(None),
            Some(name) => {
                let found = volume.policies().find(name);
                Some(Some(
                    found.map_err(|e| PyValueError::new_err(e.to_string()))?,
                ))
            }
        };
        let changes = Changes {
            mode: permissions,
            uid,
            gid,
            accessed: accessed_ns.map(Time::Nanos),
            modified: modified_ns.map(Time::Nanos),
            layout: layout.map(|layout| layout_of(Some(layout))).transpose()?,
            policy,
            no_follow: !follow,
            ..Changes::default()
        };
        let (path, shown) = path_of(path)?;
        let attributes = wait(py, Some(&shown), volume.set_attributes(path, &changes))?;
        Ok(Stat::from(&attributes))
    }

    fn truncate(&self, py: Python<'_>, path: &Bound<'_, PyAny>, size: u64) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        wait(py, Some(&shown), volume.truncate(path, size)).map(drop)
    }

    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'_, PyAny>,
        name: String,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let value = wait(py, Some(&shown), volume.get_xattr(path, &name))?;
        Ok(PyBytes::new(py, &value))
    }

    #[pyo3(signature = (path, name, value, *, create=false, replace=false))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn setxattr(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: String,
        value: Vec<u8>,
        create: bool,
        replace: bool,
    ) -> PyResult<()> {
        let mode = match (create, replace) {
            (false, false) => XattrMode::Either,
            (true, false) => XattrMode::Create,
            (false, true) => XattrMode::Replace,
            (true, true) => return Err(PyValueError::new_err("create or replace, not both")),
        };
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        wait(
            py,
            Some(&shown),
            volume.set_xattr_with(path, &name, value, mode),
        )
    }

    fn listxattr(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Vec<OsString>> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let names = wait(py, Some(&shown), volume.list_xattr(path))?;
        let names = names
            .into_iter()
            .map(|name| OsString::from_vec(name.to_vec()));
        Ok(names.collect())
    }

    fn removexattr(&self, py: Python<'_>, path: &Bound<'_, PyAny>, name: String) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        wait(py, Some(&shown), volume.remove_xattr(path, &name))
    }
}
