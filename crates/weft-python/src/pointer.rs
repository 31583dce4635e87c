//! Shared pointers.

use std::sync::Arc;

use pyo3::prelude::*;
use weft_ffi::{Failure, Loan, Loans, Process, data_of};

use crate::buffer::{Buffer, offset_of};
use crate::errors::{client_error, exception};
use crate::group::Group;
use crate::view::{View, lends};
use crate::waiting::wait;

/// See `_weft.pyi`.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct SharedPointer {
    pointer: std::mem::ManuallyDrop<weft_client::SharedPointer>,
    process: Process,
    path: String,
}

impl SharedPointer {
    fn new(pointer: weft_client::SharedPointer, path: &str) -> SharedPointer {
        SharedPointer {
            pointer: std::mem::ManuallyDrop::new(pointer),
            process: Process::current(),
            path: path.to_owned(),
        }
    }

    fn here(&self) -> PyResult<&weft_client::SharedPointer> {
        if self.process == Process::current() {
            return Ok(&self.pointer);
        }
        let reason = "the pointer belongs to the process that opened it: open it again here";
        Err(self.failed(&Failure::new(libc::EBADF, reason)))
    }

    fn failed(&self, failure: &Failure) -> PyErr {
        exception(failure, Some(&self.path))
    }
}

impl Drop for SharedPointer {
    fn drop(&mut self) {
        if self.process == Process::current() {
            // SAFETY: it is dropped once, here.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.pointer) };
        }
    }
}

#[pymethods]
impl View {
    /// This view with the shared pointer of a name.
    fn shared_pointer(&self, py: Python<'_>, name: &str) -> PyResult<SharedPointer> {
        let pointer = self.here(py)?.another().shared_pointer(name);
        let pointer = pointer.map_err(|error| client_error(error, Some(self.path())))?;
        Ok(SharedPointer::new(pointer, self.path()))
    }
}

#[pymethods]
impl SharedPointer {
    /// Takes the next bytes for this caller, and returns where they begin.
    #[pyo3(signature = (length, *, group=None))]
    fn take(&self, py: Python<'_>, length: u64, group: Option<&Group>) -> PyResult<u64> {
        let pointer = self.here()?;
        let taken = wait(py, Some(&self.path), async {
            match group {
                None => pointer.take(length).await,
                Some(group) => pointer.ordered(&group.0).take(length).await,
            }
        })?;
        Ok(taken.0)
    }

    /// Takes and reads as many bytes as the buffer has.
    #[pyo3(signature = (buffer, *, group=None))]
    fn read_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        group: Option<&Group>,
    ) -> PyResult<u64> {
        let pointer = self.here()?;
        let buffer = Buffer::writable(buffer)?;
        let loans = Arc::new(Loans::default());
        // SAFETY: it is exported until this returns.
        let loan = unsafe { Loan::new(buffer.start(), buffer.length(), &loans) };
        let mut loan = loan.map_err(|failure| self.failed(&failure))?;
        wait(py, Some(&self.path), async {
            match group {
                None => pointer.read(loan.as_mut()).await,
                Some(group) => pointer.ordered(&group.0).read(loan.as_mut()).await,
            }
        })
    }

    /// Takes and writes as many bytes as there are.
    #[pyo3(signature = (data, *, group=None))]
    fn write(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        group: Option<&Group>,
    ) -> PyResult<u64> {
        let pointer = self.here()?;
        let buffer = Buffer::readable(data)?;
        let loans = Arc::new(Loans::default());
        let lend = lends(pointer.view());
        // SAFETY: it is exported until the loans have ended.
        let data = unsafe { data_of(buffer.start(), buffer.length(), lend, &loans) };
        let data = data.map_err(|failure| self.failed(&failure))?;
        let written = wait(py, Some(&self.path), async {
            match group {
                None => pointer.write(data).await,
                Some(group) => pointer.ordered(&group.0).write(data).await,
            }
        });
        py.detach(|| loans.wait());
        written
    }

    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        let pointer = self.here()?;
        Ok(wait(py, Some(&self.path), pointer.position())?.0)
    }

    fn seek(&self, py: Python<'_>, offset: u64) -> PyResult<()> {
        let pointer = self.here()?;
        wait(py, Some(&self.path), pointer.seek(offset_of(offset)?))
    }

    /// Has the server forget the pointer.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        let pointer = self.here()?;
        wait(py, Some(&self.path), pointer.remove())
    }
}
