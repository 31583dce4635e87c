//! Work that goes on as long as the node does, whatever panics in it: what waits for a worker that
//! has ended would wait for ever.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

/// Pause before work that panicked begins anew.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs `begin`'s work to its end; begins anew where it panics.
pub(crate) async fn tireless<F: Future<Output = ()>>(name: &'static str, begin: impl Fn() -> F) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        tracing::error!(
            work = name,
            "work in the background panicked; it begins anew"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_begins_anew_until_it_ends() {
        let begun = Cell::new(0);
        tireless("test", || async {
            begun.set(begun.get() + 1);
            tokio::task::yield_now().await;
            assert!(begun.get() == 3, "injected");
        })
        .await;
        assert_eq!(begun.get(), 3);
    }
}
