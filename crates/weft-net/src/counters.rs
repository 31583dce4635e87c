//! Exact counts of calls, frames and bytes; tests of "one request per server per call" rest on
//! them. And the calls that were abandoned, of all connections together.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_proto::Kind;

use crate::abandoned::Abandoned;

/// Counts of one process, or of one client.
#[derive(Debug)]
pub struct Counters {
    calls: [AtomicU64; 256],
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
    frames_sent: AtomicU64,
    frames_received: AtomicU64,
    abandoned: Abandoned,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            calls: std::array::from_fn(|_| AtomicU64::new(0)),
            bytes_sent: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            frames_sent: AtomicU64::new(0),
            frames_received: AtomicU64::new(0),
            abandoned: Abandoned::default(),
        }
    }
}

/// A reading of [`Counters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersSnapshot {
    /// Calls begun, by kind; kinds never called are absent.
    pub calls: Vec<(Kind, u64)>,
    /// Bytes sent, headers and bodies included.
    pub bytes_sent: u64,
    /// Bytes received, headers and bodies included.
    pub bytes_received: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
}

impl Counters {
    pub(crate) fn abandoned(&self) -> &Abandoned {
        &self.abandoned
    }

    /// Waits until the servers have answered all calls that their callers have dropped until now,
    /// or the connections were lost: none of them takes effect any more, except at a server whose
    /// connection was lost.
    pub async fn abandoned_calls_ended(&self) {
        self.abandoned.all_ended().await;
    }

    pub(crate) fn called(&self, kind: Kind) {
        self.calls[usize::from(kind.code())].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.frames_sent.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.frames_received.fetch_add(1, Ordering::Relaxed);
        self.bytes_received
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The current counts.
    pub fn snapshot(&self) -> CountersSnapshot {
        let count = |kind: &Kind| self.calls[usize::from(kind.code())].load(Ordering::Relaxed);
        CountersSnapshot {
            calls: Kind::ALL
                .iter()
                .map(|k| (*k, count(k)))
                .filter(|(_, n)| *n > 0)
                .collect(),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            frames_sent: self.frames_sent.load(Ordering::Relaxed),
            frames_received: self.frames_received.load(Ordering::Relaxed),
        }
    }
}

impl CountersSnapshot {
    /// Calls of this kind.
    pub fn calls_of(&self, kind: Kind) -> u64 {
        self.calls
            .iter()
            .find(|(k, _)| *k == kind)
            .map_or(0, |(_, n)| *n)
    }

    /// All calls, keep-alive excluded.
    pub fn calls_total(&self) -> u64 {
        let keep_alive = [Kind::Ping, Kind::Hello, Kind::Proof, Kind::Credit];
        self.calls
            .iter()
            .filter(|(k, _)| !keep_alive.contains(k))
            .map(|(_, n)| n)
            .sum()
    }
}
