//! Work that ends although its caller is dropped.

use std::future::Future;

use crate::error::StoreError;

/// Runs a future as a task and waits for it. A dropped caller does not cancel it: the disk would go
/// on anyway.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closed),
    }
}
