//! Work that ends although its caller is dropped.

use std::future::Future;

use tokio::task::JoinError;

use crate::error::StoreError;

/// Runs a future as a task and waits for it. A dropped caller does not cancel it: the disk would go
/// on anyway.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    ended(tokio::spawn(work).await)
}

/// What a task returned; its panic is the caller's.
pub(crate) fn ended<T>(task: Result<Result<T, StoreError>, JoinError>) -> Result<T, StoreError> {
    match task {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closed),
    }
}
