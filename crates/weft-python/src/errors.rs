//! Failures as exceptions of Python.

use pyo3::PyErr;
use pyo3::exceptions::PyOSError;
use weft_client::Error;
use weft_ffi::Failure;

/// An `OSError` of the class that belongs to the errno: Python makes it a `FileNotFoundError`, a
/// `PermissionError` and so on by itself.
pub(crate) fn exception(failure: &Failure, file: Option<&str>) -> PyErr {
    let (errno, reason) = (failure.errno(), failure.message().to_owned());
    match file {
        Some(file) => PyOSError::new_err((errno, reason, file.to_owned())),
        None => PyOSError::new_err((errno, reason)),
    }
}

/// As [`exception`], of an error of the client.
pub(crate) fn client_error(error: Error, file: Option<&str>) -> PyErr {
    exception(&Failure::from(error), file)
}

/// As [`exception`], of a handle that was closed.
pub(crate) fn closed(what: &str, file: &str) -> PyErr {
    let failure = Failure::new(libc::EBADF, format!("the {what} is closed"));
    exception(&failure, Some(file))
}
