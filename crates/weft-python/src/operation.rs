//! Operations in the background.

use std::mem::forget;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weft_ffi::{Failure, Posted, Process};

use crate::buffer::Buffer;
use crate::errors::{closed, exception};

/// See `_weft.pyi`.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct Operation {
    /// The operation, and the memory that is exported for it.
    posted: Mutex<Option<(Posted, Option<Buffer>)>>,
    process: Process,
    path: String,
}

impl Operation {
    pub(crate) fn new(posted: Posted, buffer: Option<Buffer>, path: &str) -> Operation {
        Operation {
            posted: Mutex::new(Some((posted, buffer))),
            process: Process::current(),
            path: path.to_owned(),
        }
    }

    fn failed(&self, failure: &Failure) -> PyErr {
        exception(failure, Some(&self.path))
    }

    fn with<T>(&self, ask: impl FnOnce(&Posted) -> Result<T, Failure>) -> PyResult<T> {
        let posted = self.posted.lock();
        let (posted, _) = posted.as_ref().ok_or_else(|| self.ended())?;
        self.here()?;
        ask(posted).map_err(|failure| self.failed(&failure))
    }

    fn take(&self) -> PyResult<(Posted, Option<Buffer>)> {
        self.here()?;
        self.posted.lock().take().ok_or_else(|| self.ended())
    }

    fn ended(&self) -> PyErr {
        closed("operation", &self.path)
    }

    fn here(&self) -> PyResult<()> {
        if self.process == Process::current() {
            return Ok(());
        }
        let reason = "the operation belongs to the process that posted it";
        Err(self.failed(&Failure::new(libc::EBADF, reason)))
    }
}

#[pymethods]
impl Operation {
    /// Whether it has ended. Never waits.
    fn done(&self) -> PyResult<bool> {
        self.with(Posted::has_ended)
    }

    /// Waits until it has ended, and returns the bytes moved.
    fn wait(&self, py: Python<'_>) -> PyResult<i64> {
        // Waits for the end where signals are seen, and takes it afterwards.
        while !self.done()? {
            let limit = Some(Duration::from_millis(100));
            let ended = py.detach(|| {
                let posted = self.posted.lock();
                let (posted, _) = posted.as_ref()?;
                Posted::wait_any(&[posted], limit).ok()
            });
            if ended.is_none() {
                py.check_signals()?;
            }
        }
        let (posted, buffer) = self.take()?;
        let ended = py.detach(|| posted.wait());
        drop(buffer);
        ended.map_err(|failure| self.failed(&failure))
    }

    /// Has it end early, and gives its memory back.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let Some((posted, buffer)) = self.posted.lock().take() else {
            return Ok(());
        };
        let cancelled = py.detach(|| posted.cancel());
        drop(buffer);
        cancelled.map_err(|failure| self.failed(&failure))
    }

    /// A descriptor that becomes readable when it has ended; it belongs to the operation.
    fn fileno(&self) -> PyResult<i32> {
        self.with(Posted::descriptor)
    }

    fn __repr__(&self) -> String {
        format!("<weft.Operation on {:?}>", self.path)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let Some((posted, buffer)) = self.posted.get_mut().take() else {
            return;
        };
        if self.process == Process::current() {
            // Its memory may be gone after this.
            Python::attach(|py| py.detach(|| posted.cancel()).ok());
            drop(buffer);
        } else {
            forget((posted, buffer));
        }
    }
}

/// Waits until one of several operations has ended, and returns its index.
#[pyfunction]
#[pyo3(signature = (operations, timeout=None))]
pub(crate) fn wait_any(
    py: Python<'_>,
    operations: Vec<PyRef<'_, Operation>>,
    timeout: Option<f64>,
) -> PyResult<usize> {
    let limit = timeout.map(Duration::try_from_secs_f64).transpose();
    let limit = limit.map_err(|e| PyValueError::new_err(e.to_string()))?;
    let began = std::time::Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        let turn = left
            .unwrap_or(Duration::MAX)
            .min(Duration::from_millis(100));
        // Handlers of signals, which run between two turns, may use the operations.
        let held: Vec<_> = operations.iter().map(|o| o.posted.lock()).collect();
        let posted = held.iter().zip(&operations).map(|(held, operation)| {
            operation.here()?;
            let posted = held.as_ref().map(|(posted, _)| posted);
            posted.ok_or_else(|| operation.ended())
        });
        let posted = posted.collect::<PyResult<Vec<&Posted>>>()?;
        let ended = py.detach(|| Posted::wait_any(&posted, Some(turn)));
        drop(held);
        match ended {
            Ok(index) => return Ok(index),
            Err(failure) if failure.errno() != libc::ETIMEDOUT => {
                return Err(exception(&failure, None));
            }
            Err(_) if left == Some(turn) => {
                let message = format!("none has ended in {} s", timeout.unwrap_or_default());
                return Err(exception(&Failure::new(libc::ETIMEDOUT, message), None));
            }
            Err(_) => py.check_signals()?,
        }
    }
}
