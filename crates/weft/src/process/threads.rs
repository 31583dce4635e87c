//! Runtimes of long-running processes: their indispensable threads start with the runtime.
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

use crate::limits::{
    BLOCKING_THREADS_KEPT, BLOCKING_THREADS_MAX, THREAD_KEEP_ALIVE, THREADS_START_TIMEOUT,
};

/// Builds a runtime whose threads are running.
///
/// # Errors
/// When the system refuses the threads.
pub(crate) fn lasting(builder: &mut Builder) -> Result<Runtime> {
    let runtime = builder
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .build()?;
    let there = Arc::new(AtomicUsize::new(0));
    for _ in 0..BLOCKING_THREADS_KEPT {
        let there = Arc::clone(&there);
        runtime.spawn_blocking(move || {
            // Each waits for the others, so that no thread is counted twice.
            there.fetch_add(1, Ordering::AcqRel);
            wait_for(&there);
        });
    }
    if !wait_for(&there) {
        bail!(
            "cannot start {BLOCKING_THREADS_KEPT} threads within {THREADS_START_TIMEOUT:?}: raise the limit on processes (ulimit -u, pids.max)"
        );
    }
    Ok(runtime)
}

/// Whether all threads started in time.
fn wait_for(there: &AtomicUsize) -> bool {
    let begun = Instant::now();
    while there.load(Ordering::Acquire) < BLOCKING_THREADS_KEPT {
        if begun.elapsed() > THREADS_START_TIMEOUT {
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
    fn blocking_work_runs_on_the_threads_started_with_the_runtime() {
        let runtime = lasting(&mut Builder::new_current_thread()).unwrap();
        // A thread becomes idle a moment after its work has ended; earlier work would start
        // another.
        let idle = || std::thread::sleep(Duration::from_millis(20));
        let mut seen: HashSet<ThreadId> = HashSet::new();
        for _ in 0..20 {
            idle();
            let work = runtime.spawn_blocking(|| std::thread::current().id());
            seen.insert(runtime.block_on(work).unwrap());
        }
        assert!(seen.len() <= BLOCKING_THREADS_KEPT, "{seen:?}");
    }
}
