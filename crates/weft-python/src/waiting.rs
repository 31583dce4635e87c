//! Calls that wait: without the interpreter's lock, and until a signal says otherwise.

use std::pin::pin;
use std::time::Duration;

use pyo3::prelude::*;
use weft_client::Error;

use crate::errors::{client_error, exception};

/// How often a wait looks for signals, such as that of ctrl-C.
const SIGNALS_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a call to its end on the caller's thread, without the interpreter's lock. A signal whose
/// handler raises ends the call: it is dropped, with what that means for the call.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    file: Option<&str>,
    call: impl Future<Output = Result<T, Error>> + Send,
) -> PyResult<T> {
    let runtime = weft_ffi::runtime().map_err(|failure| exception(&failure, file))?;
    let mut call = pin!(call);
    loop {
        let ended = py.detach(|| {
            let call = &mut call;
            runtime.block_on(async { tokio::time::timeout(SIGNALS_INTERVAL, call).await })
        });
        match ended {
            Ok(ended) => return ended.map_err(|error| client_error(error, file)),
            Err(_) => py.check_signals()?,
        }
    }
}
