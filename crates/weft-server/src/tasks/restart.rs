//! Background work that survives panics: callers that wait for a dead worker would wait forever.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::limits::RESTART_BACKOFF;

/// Runs `begin`'s work to its end, and starts it again whenever it panics.
pub(crate) async fn restart_on_panic<F: Future<Output = ()>>(
    name: &'static str,
    begin: impl Fn() -> F,
) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        tracing::error!(work = name, "background work panicked and is restarted");
        tokio::time::sleep(RESTART_BACKOFF).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_is_restarted_until_it_ends() {
        let begun = Cell::new(0);
        restart_on_panic("test", || async {
            begun.set(begun.get() + 1);
            tokio::task::yield_now().await;
            assert!(begun.get() == 3, "injected");
        })
        .await;
        assert_eq!(begun.get(), 3);
    }
}
