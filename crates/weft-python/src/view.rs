//! Views of attached files, and contiguous access.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weft_client::OpenView;
use weft_ffi::{Loan, Loans, data_of};
use weft_layout::view_text;

use crate::buffer::{Buffer, offset_of};
use crate::errors::{client_error, exception};
use crate::file::{File, Opened};
use crate::per_process::PerProcess;
use crate::waiting::wait;

/// See `_weft.pyi`.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct View {
    file: Arc<Opened>,
    text: Option<String>,
    fork: Option<String>,
    checkpoint: Option<u64>,
    opened: PerProcess<Arc<OpenView>>,
}

/// Whether the memory of writes may be lent: policies may keep bytes beyond the call.
pub(crate) fn lends(view: &OpenView) -> bool {
    view.file().policy().is_none()
}

impl View {
    fn of_checkpoint_number(
        py: Python<'_>,
        file: Arc<Opened>,
        text: Option<String>,
        fork: Option<String>,
        checkpoint: Option<u64>,
    ) -> PyResult<View> {
        let view = opened(py, &file, text.as_deref(), fork.as_deref(), checkpoint)?;
        Ok(View {
            file,
            text,
            fork,
            checkpoint,
            opened: PerProcess::new(view),
        })
    }

    /// A view that each process opens at its first use.
    pub(crate) fn again(
        file: Arc<Opened>,
        text: Option<String>,
        fork: Option<String>,
        checkpoint: Option<u64>,
    ) -> View {
        View {
            file,
            text,
            fork,
            checkpoint,
            opened: PerProcess::empty(),
        }
    }

    /// This process's view, unless the file is closed.
    pub(crate) fn here(&self, py: Python<'_>) -> PyResult<Arc<OpenView>> {
        self.file.file(py)?;
        self.opened.get_or(|| {
            let (text, fork) = (self.text.as_deref(), self.fork.as_deref());
            opened(py, &self.file, text, fork, self.checkpoint)
        })
    }

    pub(crate) fn path(&self) -> &str {
        self.file.path()
    }
}

fn opened(
    py: Python<'_>,
    opened: &Opened,
    text: Option<&str>,
    fork: Option<&str>,
    checkpoint: Option<u64>,
) -> PyResult<Arc<OpenView>> {
    let file = opened.file(py)?;
    let view = match (text, fork) {
        (None, None) => file.canonical(),
        (None, Some(fork)) => file.view_of_fork(weft_layout::View::canonical(), fork),
        (Some(text), fork) => {
            let named = view_text::view(text).map_err(PyValueError::new_err)?;
            if fork.is_some() && text.contains('@') {
                return Err(PyValueError::new_err("the fork is named twice"));
            }
            file.view_of_fork(named.0, fork.unwrap_or(&named.1))
        }
    };
    let view = view.map_err(|error| client_error(error, Some(opened.path())))?;
    let view = match checkpoint {
        None => view,
        Some(number) => view.of_checkpoint_number(number),
    };
    Ok(Arc::new(view.zeroed()))
}

#[pymethods]
impl File {
    /// A view: None is the whole file in its order; else as the command line writes it.
    #[pyo3(signature = (view=None, *, fork=None))]
    fn view(&self, py: Python<'_>, view: Option<&str>, fork: Option<String>) -> PyResult<View> {
        View::of_checkpoint_number(py, self.0.clone(), view.map(str::to_owned), fork, None)
    }

    /// A view that was pickled.
    #[pyo3(signature = (view, fork, checkpoint))]
    fn _view(&self, view: Option<String>, fork: Option<String>, checkpoint: Option<u64>) -> View {
        View::again(self.0.clone(), view, fork, checkpoint)
    }
}

#[pymethods]
impl View {
    #[getter]
    fn file(&self) -> File {
        File(self.file.clone())
    }

    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        let view = self.here(py)?;
        wait(py, Some(self.path()), view.size())
    }

    /// Fills a buffer from byte `offset` on. Returns how many bytes the file has of them.
    #[pyo3(signature = (buffer, offset=0))]
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<u64> {
        let view = self.here(py)?;
        let buffer = Buffer::writable(buffer)?;
        let loans = Arc::new(Loans::default());
        // SAFETY: it is exported until this returns.
        let loan = unsafe { Loan::new(buffer.start(), buffer.length(), &loans) };
        let mut loan = loan.map_err(|failure| exception(&failure, Some(self.path())))?;
        let at = offset_of(offset)?;
        wait(py, Some(self.path()), view.read_at(at, loan.as_mut()))
    }

    /// Reads at the view's pointer.
    fn read_next_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<u64> {
        let view = self.here(py)?;
        let buffer = Buffer::writable(buffer)?;
        let loans = Arc::new(Loans::default());
        // SAFETY: it is exported until this returns.
        let loan = unsafe { Loan::new(buffer.start(), buffer.length(), &loans) };
        let mut loan = loan.map_err(|failure| exception(&failure, Some(self.path())))?;
        wait(py, Some(self.path()), view.read(loan.as_mut()))
    }

    /// Writes from byte `offset` on. Returns how many bytes were moved.
    #[pyo3(signature = (data, offset=0, *, synced=false))]
    fn write(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        synced: bool,
    ) -> PyResult<u64> {
        let view = self.here(py)?;
        let buffer = Buffer::readable(data)?;
        let at = offset_of(offset)?;
        let loans = Arc::new(Loans::default());
        // SAFETY: it is exported until the loans have ended.
        let data = unsafe { data_of(buffer.start(), buffer.length(), lends(&view), &loans) };
        let data = data.map_err(|failure| exception(&failure, Some(self.path())))?;
        let written = wait(py, Some(self.path()), async {
            if synced {
                view.write_at_synced(at, data).await
            } else {
                view.write_at(at, data).await
            }
        });
        py.detach(|| loans.wait());
        written
    }

    /// Writes at the view's pointer.
    fn write_next(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let view = self.here(py)?;
        let buffer = Buffer::readable(data)?;
        let loans = Arc::new(Loans::default());
        // SAFETY: it is exported until the loans have ended.
        let data = unsafe { data_of(buffer.start(), buffer.length(), lends(&view), &loans) };
        let data = data.map_err(|failure| exception(&failure, Some(self.path())))?;
        let written = wait(py, Some(self.path()), view.write(data));
        py.detach(|| loans.wait());
        written
    }

    fn seek(&self, py: Python<'_>, offset: u64) -> PyResult<()> {
        self.here(py)?.seek(offset_of(offset)?);
        Ok(())
    }

    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.here(py)?.position().0)
    }

    /// Has the servers read bytes into their memory. Returns how many.
    fn prefetch(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<u64> {
        let view = self.here(py)?;
        wait(
            py,
            Some(self.path()),
            view.prefetch(offset_of(offset)?, length),
        )
    }

    /// Tells the servers that bytes will not be used soon.
    fn release(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<()> {
        let view = self.here(py)?;
        wait(
            py,
            Some(self.path()),
            view.release(offset_of(offset)?, length),
        )
    }

    /// Makes bytes a hole.
    fn clear(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<()> {
        let view = self.here(py)?;
        wait(
            py,
            Some(self.path()),
            view.clear(offset_of(offset)?, length),
        )
    }

    /// The same view of a checkpoint, by its number.
    fn of_checkpoint(&self, py: Python<'_>, number: u64) -> PyResult<View> {
        let (file, text, fork) = (self.file.clone(), self.text.clone(), self.fork.clone());
        View::of_checkpoint_number(py, file, text, fork, Some(number))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let reopen = slf.py().import("weft._pickle")?.getattr("view")?;
        let view = slf.get();
        let how = (view.text.clone(), view.fork.clone(), view.checkpoint);
        Ok((reopen, (view.file(), how.0, how.1, how.2)))
    }

    fn __repr__(&self) -> String {
        let text = self.text.as_deref().unwrap_or("all bytes");
        format!("<weft.View of {:?}: {text}>", self.path())
    }
}

type Reduced<'py> = (
    Bound<'py, PyAny>,
    (File, Option<String>, Option<String>, Option<u64>),
);
