//! The opens of a file: what each has read ahead, written and been told.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use super::failures::Reported;
use super::prefetch::PrefetchedRange;
use super::streams::{Advice, Streams};

/// The opens by their numbers.
#[derive(Default)]
pub(super) struct Opens {
    open: BTreeMap<u64, Open>,
    /// The number of the latest open.
    last: u64,
    /// When any open last wrote, in nanoseconds since the epoch; 0: never. A time that is set by
    /// hand afterwards must win, whenever the bytes are sent.
    written: i64,
    /// When the time of modification was last set by hand, with bytes still unsent; 0: never.
    time_set: i64,
}

struct Open {
    streams: Streams,
    prefetched: BTreeMap<u64, Arc<PrefetchedRange>>,
    reported: Reported,
    /// One past the last byte it wrote, and when it last wrote.
    wrote: Option<(u64, i64)>,
}

impl Opens {
    /// Adds an open with the largest window of its read-ahead; returns its number.
    pub(super) fn add(&mut self, read_ahead: u64, reported: Reported) -> u64 {
        self.last += 1;
        let open = Open {
            streams: Streams::new(read_ahead),
            prefetched: BTreeMap::new(),
            reported,
            wrote: None,
        };
        self.open.insert(self.last, open);
        self.last
    }

    /// Removes an open; returns one past the last byte it wrote, and when it last wrote.
    pub(super) fn remove(&mut self, open: u64) -> Option<(u64, i64)> {
        self.open.remove(&open)?.wrote
    }

    pub(super) fn has(&self, open: u64) -> bool {
        self.open.contains_key(&open)
    }

    /// How many opens there have been.
    pub(super) fn count(&self) -> u64 {
        self.last
    }

    pub(super) fn written(&self) -> i64 {
        self.written
    }

    /// The file's time of modification is being set by hand.
    pub(super) fn set_time(&mut self) {
        self.time_set = now();
    }

    /// When any open last wrote, if the time of modification was set since.
    pub(super) fn written_before_set(&self) -> Option<i64> {
        (self.written != 0 && self.written <= self.time_set).then_some(self.written)
    }

    pub(super) fn reported(&mut self, open: u64) -> Option<&mut Reported> {
        self.open.get_mut(&open).map(|open| &mut open.reported)
    }

    /// An open has written up to `end`.
    pub(super) fn note_write(&mut self, open: u64, end: u64) {
        self.written = now();
        if let Some(open) = self.open.get_mut(&open) {
            let before = open.wrote.map_or(0, |(end, _)| end);
            open.wrote = Some((before.max(end), self.written));
        }
    }

    /// The file ends here now: no open's close reports a write beyond.
    pub(super) fn truncated(&mut self, size: u64) {
        let wrote = self.open.values_mut().filter_map(|o| o.wrote.as_mut());
        for (end, _) in wrote {
            *end = size.min(*end);
        }
    }

    /// Drops bytes read ahead in this range.
    pub(super) fn drop_prefetched(&mut self, range: &Range<u64>) {
        for open in self.open.values_mut() {
            open.prefetched
                .retain(|_, bytes| bytes.end() <= range.start || bytes.start() >= range.end);
        }
    }

    /// A read of an open: the bytes that were read ahead of it, ascending, and what to read ahead
    /// now.
    pub(super) fn read(
        &mut self,
        open: u64,
        range: &Range<u64>,
        end: Option<u64>,
    ) -> Option<(Vec<Arc<PrefetchedRange>>, Advice)> {
        let open = self.open.get_mut(&open)?;
        let ready = open
            .prefetched
            .values()
            .filter(|bytes| bytes.start() < range.end && bytes.end() > range.start);
        let ready: Vec<_> = ready.cloned().collect();
        let advice = open.streams.read(range, end);
        open.prefetched.retain(|_, bytes| {
            Some(bytes.stream()) != advice.forgotten
                && (bytes.stream() != advice.stream || bytes.end() > advice.read_to)
        });
        Some((ready, advice))
    }

    /// Bytes are being read ahead for an open.
    pub(super) fn add_prefetched(&mut self, open: u64, bytes: Arc<PrefetchedRange>) {
        if let Some(open) = self.open.get_mut(&open) {
            open.prefetched.insert(bytes.start(), bytes);
        }
    }
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as i64)
}
