//! Runtimes of long-running processes, whose indispensable threads start with the runtime.
//!
//! A runtime starts threads for blocking work (resolving a name, waiting for the kernel) on demand,
//! and ends them when they have been idle for a while. If the system refuses a thread at that
//! moment, the work waits until one is granted, or panics. So a few threads start at once and stay:
//! blocking work always finds one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::runtime::{Builder, Runtime};

/// Threads for blocking work: how many start at once, and the most at a time.
const KEPT: usize = 2;
const BLOCKING_MAX: usize = 64;
/// Longer than any process runs.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);
/// How long the threads may take to start.
const START: Duration = Duration::from_secs(10);

/// Builds a runtime whose threads are running.
///
/// # Errors
/// When the system refuses the threads.
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
            // Each waits for the others, so that no thread is counted twice.
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

/// Whether all threads started in time.
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
        // A thread is idle a moment after its work has ended; work that comes before starts another
        // one.
        let idle = || std::thread::sleep(Duration::from_millis(20));
        let mut seen: HashSet<ThreadId> = HashSet::new();
        for _ in 0..20 {
            idle();
            let work = runtime.spawn_blocking(|| std::thread::current().id());
            seen.insert(runtime.block_on(work).unwrap());
        }
        assert!(seen.len() <= KEPT, "{seen:?}");
    }
}
