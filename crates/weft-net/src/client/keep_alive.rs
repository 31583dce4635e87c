//! Sends pings, often while answers are awaited and rarely otherwise, and declares the connection
//! lost after silence.
//!
//! Acknowledged bytes of a large payload are a sign of life, too: behind a slow link the answer to
//! a ping comes after everything that was sent before it.
//!
//! Silence is counted in rounds of this task rather than read off a clock: a process that was
//! stopped or starved for a while receives the answers that came meanwhile before it can declare
//! the peer silent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::call_table::CallTable;
use crate::buffers::BufferPool;
use crate::env::Timing;
use crate::transport::Gauge;

/// Runs until the connection is lost or dropped. `arrived` changes whenever bytes arrive.
pub(super) async fn run(
    weak: Weak<CallTable>,
    arrived: Arc<AtomicU64>,
    gauge: Option<Gauge>,
    timing: Timing,
    pool: BufferPool,
) {
    let (mut seen, mut silent, mut unused) = (0, Duration::ZERO, Duration::ZERO);
    let mut acknowledged = None;
    loop {
        tokio::time::sleep(timing.ping).await;
        pool.trim();
        let Some(calls) = weak.upgrade() else { return };
        let waiting = calls.is_waiting();
        if calls.lost().is_some() {
            return;
        }
        let arrived = arrived.load(Ordering::Relaxed);
        let nothing_arrived = std::mem::replace(&mut seen, arrived) == arrived;
        // Only progress of bytes in flight counts: the machine of a stopped process acknowledges
        // pings.
        let now = gauge.as_ref().and_then(|gauge| gauge());
        let before = std::mem::replace(&mut acknowledged, now);
        let progress = acknowledged.is_some() && acknowledged != before;
        silent = if waiting && nothing_arrived && !progress {
            silent + timing.ping
        } else {
            Duration::ZERO
        };
        // One round more than the bound, because the first may have begun just before its end.
        if silent > timing.silence {
            calls.lose(&format!("no answer for {silent:?}"));
            return;
        }
        unused = if waiting {
            Duration::ZERO
        } else {
            unused + timing.ping
        };
        if waiting || unused > timing.idle / 3 {
            unused = Duration::ZERO;
            calls.ping();
        }
    }
}
