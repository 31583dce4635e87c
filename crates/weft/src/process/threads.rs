//! Runtimes of processes that run for long: the threads that they cannot do without are there from the beginning.
//!
//! A runtime starts threads for work that blocks (looking up a name, waiting for the kernel) when there is some, and ends them when
//! there is none for a while. Where the system refuses a thread at that moment, the work waits until another thread is granted, or
//! panics. So a few are started at once and kept: with those there is always one that comes to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::runtime::{Builder, Runtime};

/// Threads for blocking work that are there from the beginning, and the most there are.
const KEPT: usize = 2;
const BLOCKING_MAX: usize = 64;
/// Longer than any process runs.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);
/// How long the threads may take to come.
const START: Duration = Duration::from_secs(10);

/// Builds a runtime whose threads run already.
///
/// # Errors
/// Where the system does not grant the threads.
pub(crate) fn lasting(builder: &mut Builder) -> Result<Runtime> {
    let runtime = builder
        .enable_all()
        .max_blocking_threads(BLOCKING_MAX)
        .thread_keep_alive(FOR_EVER)
        .build()?;
    let there = Arc::new(AtomicUsize::new(0));
    for _ in 0..KEPT {
        let there = Arc::clone(&there);
        runtime.spawn_blocking(move || {
            // Each waits for the others, so that none does the work of two.
            there.fetch_add(1, Ordering::AcqRel);
            wait_for(&there);
        });
    }
    if !wait_for(&there) {
        bail!(
            "cannot start {KEPT} threads within {START:?}: see the limits of processes (ulimit -u, pids.max)"
        );
    }
    Ok(runtime)
}

/// Whether all came in time.
fn wait_for(there: &AtomicUsize) -> bool {
    let begun = Instant::now();
    while there.load(Ordering::Acquire) < KEPT {
        if begun.elapsed() > START {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread::ThreadId;

    use super::*;

    #[test]
    fn blocking_work_is_done_by_threads_that_were_there_from_the_beginning() {
        let runtime = lasting(&mut Builder::new_current_thread()).unwrap();
        let mut seen: HashSet<ThreadId> = HashSet::new();
        for _ in 0..20 {
            let work = runtime.spawn_blocking(|| std::thread::current().id());
            seen.insert(runtime.block_on(work).unwrap());
        }
        assert!(seen.len() <= KEPT, "{seen:?}");
    }
}
