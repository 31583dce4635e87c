//! Work that runs to its end although its caller has gone.

use std::future::Future;

use crate::error::StoreError;

/// Runs a future to its end even when the caller gives up: the disk would go on anyway.
pub(crate) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closed),
    }
}
