//! Patterns: which bytes, relative to a place.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::Buffer;

/// See `_weft.pyi`.
#[pyclass(frozen, eq, hash, module = "weft._weft")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pattern(pub(crate) weft_layout::Pattern);

impl Pattern {
    /// A pattern within the limits of depth, parts and bytes.
    fn legal(pattern: weft_layout::Pattern) -> PyResult<Pattern> {
        let length = pattern.length();
        length.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Pattern(pattern))
    }
}

#[pymethods]
impl Pattern {
    #[staticmethod]
    fn bytes(length: u64) -> PyResult<Pattern> {
        Pattern::legal(weft_layout::Pattern::bytes(length))
    }

    fn repeat(&self, stride: i64, times: u64) -> PyResult<Pattern> {
        Pattern::legal(self.0.clone().every(stride).times(times))
    }

    #[staticmethod]
    fn sequence(members: Vec<(i64, PyRef<'_, Pattern>)>) -> PyResult<Pattern> {
        let members = members
            .into_iter()
            .map(|(at, member)| (at, member.0.clone()));
        Pattern::legal(weft_layout::Pattern::Sequence(members.collect()))
    }

    #[staticmethod]
    fn runs(runs: Vec<(i64, u64)>) -> PyResult<Pattern> {
        Pattern::legal(weft_layout::Pattern::list(runs))
    }

    /// Runs whose displacements and lengths are in two buffers of 64-bit integers.
    #[staticmethod]
    fn runs_of(displacements: &Bound<'_, PyAny>, lengths: &Bound<'_, PyAny>) -> PyResult<Pattern> {
        let (displacements, lengths) =
            (Buffer::readable(displacements)?, Buffer::readable(lengths)?);
        let (at, lengths) = (displacements.as_slice::<i64>()?, lengths.as_slice::<u64>()?);
        if at.len() != lengths.len() {
            return Err(PyValueError::new_err(
                "each run has a displacement and a length",
            ));
        }
        let runs = at.iter().copied().zip(lengths.iter().copied());
        Pattern::legal(weft_layout::Pattern::list(runs))
    }

    fn __len__(&self) -> PyResult<usize> {
        let length = self.0.length();
        let length = length.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn __repr__(&self) -> String {
        format!("<weft.Pattern {:?}>", self.0)
    }
}
