//! Checkpoints of files and trees.

use pyo3::prelude::*;
use weft_client::CheckpointInfo;

use crate::names::path_of;
use crate::volume::Volume;
use crate::waiting::wait;

/// See `_weft.pyi`.
#[pyclass(frozen, get_all, module = "weft._weft")]
pub(crate) struct Checkpoint {
    name: String,
    number: u64,
    made_ns: i64,
    size: u64,
}

impl From<CheckpointInfo> for Checkpoint {
    fn from(found: CheckpointInfo) -> Checkpoint {
        Checkpoint {
            name: found.name,
            number: found.number,
            made_ns: found.made,
            size: found.size,
        }
    }
}

#[pymethods]
impl Checkpoint {
    fn __repr__(&self) -> String {
        format!("<weft.Checkpoint {:?}>", self.name)
    }
}

#[pymethods]
impl Volume {
    fn make_checkpoint(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: &str,
    ) -> PyResult<Checkpoint> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let made = wait(py, Some(&shown), volume.make_checkpoint(path, name))?;
        Ok(made.into())
    }

    fn checkpoints(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Vec<Checkpoint>> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        let found = wait(py, Some(&shown), volume.checkpoints(path))?;
        Ok(found.into_iter().map(Into::into).collect())
    }

    fn remove_checkpoint(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: &str,
    ) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        wait(py, Some(&shown), volume.remove_checkpoint(path, name))
    }

    fn roll_back(&self, py: Python<'_>, path: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        let (path, shown) = path_of(path)?;
        wait(py, Some(&shown), volume.roll_back(path, name)).map(drop)
    }
}
