//! Blocking work of an asynchronous command, and tasks that panic.

use std::io;

use anyhow::anyhow;

/// Runs blocking work on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(io::Error::other(e)),
    }
}

/// The error of a task that panicked, which is a bug in weft.
pub(crate) fn panicked(error: &tokio::task::JoinError) -> anyhow::Error {
    anyhow!("internal error: a task panicked: {error}; please report this")
}
