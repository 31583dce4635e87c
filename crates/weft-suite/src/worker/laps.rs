//! The clock of a client, and how long its calls took.

use rustix::time::{ClockId, clock_gettime};

use crate::latency::Latencies;

/// Times calls that follow each other: the end of one is the begin of the next, so that a call
/// costs one look at the clock.
pub(super) struct Laps {
    timed: bool,
    last: u64,
    latencies: Latencies,
}

impl Laps {
    /// The first call begins now. Without `timed` nothing is noted.
    pub(super) fn begin(timed: bool) -> Laps {
        Laps {
            timed,
            last: now(),
            latencies: Latencies::default(),
        }
    }

    /// A call has ended.
    pub(super) fn lap(&mut self) {
        if self.timed {
            let ended = now();
            self.latencies.add(ended - self.last);
            self.last = ended;
        }
    }

    pub(super) fn latencies(self) -> Latencies {
        self.latencies
    }
}

/// Nanoseconds of a clock that all processes of the machine share.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
