//! Pings while answers are awaited, and now and then otherwise; declares the connection lost after
//! silence.
//!
//! What the peer's machine takes of a large payload is a sign of life, too: behind a slow link the
//! answer to a ping comes after all that was sent before it.
//!
//! Silence is counted in rounds of this task rather than read off a clock: a process that was
//! stopped or starved for a while finds the answers that came meanwhile before it may call the peer
//! silent.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_proto::Kind;

use super::{Connection, Inner};
use crate::env::{Gauge, Timing};
use crate::pool::BufferPool;
use crate::queue::Lane;

pub(super) async fn run(weak: Weak<Inner>, gauge: Option<Gauge>, timing: Timing, pool: BufferPool) {
    let (mut heard, mut silent, mut unused) = (0, Duration::ZERO, Duration::ZERO);
    let mut taken = None;
    loop {
        tokio::time::sleep(timing.ping).await;
        pool.tidy();
        let Some(inner) = weak.upgrade() else { return };
        let connection = Connection(inner);
        let (waiting, lost) = {
            let calls = connection.calls();
            (!calls.open.is_empty(), calls.lost.is_some())
        };
        if lost {
            return;
        }
        let arrived = connection.0.arrived.load(Ordering::Relaxed);
        let quiet = std::mem::replace(&mut heard, arrived) == arrived;
        // While nothing is under way it counts for nothing: the machine of a stopped process takes
        // pings.
        let before = std::mem::replace(&mut taken, gauge.as_ref().and_then(|gauge| gauge()));
        let taking = taken.is_some() && taken != before;
        silent = if waiting && quiet && !taking {
            silent + timing.ping
        } else {
            Duration::ZERO
        };
        // One round more than the bound, because the first may have begun just before its end.
        if silent > timing.silence {
            connection.lose(&format!("no answer for {silent:?}"));
            return;
        }
        unused = if waiting {
            Duration::ZERO
        } else {
            unused + timing.ping
        };
        if waiting || unused > timing.idle / 3 {
            unused = Duration::ZERO;
            // The pong only has to arrive. Numbered like a call, so that no call has its number.
            let id = connection.0.next.fetch_add(1, Ordering::Relaxed);
            connection.0.counters.called(Kind::Ping);
            connection.control(Lane::Urgent, Kind::Ping, id, Vec::new());
        }
    }
}
