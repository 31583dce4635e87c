//! The forks that the frames of a log touched, reported in later frames: this bounds what an
//! unreadable frame may have changed (`docs/design/0024-losses.md`).
//!
//! Each `Synced` frame reports on the frames since the last report, and so does a separate frame
//! after 32 KiB of others. The first report in a new segment covers all frames since the first
//! report of the segment before, so damage in one place does not destroy both. A fork is touched if
//! its bytes, its length or its existence changed for readers. Moving bytes (flushes, checkpoints,
//! merges) touches nothing.

use std::collections::BTreeSet;

use crate::key::{ADDRESSED, ForkKey};
use crate::limits::{TOUCHED_FORKS_MAX, TOUCHED_INTERVAL};
use crate::record::ForkId;

/// A span of frames, and the forks that they touched.
#[derive(Debug, Default)]
pub(crate) struct TouchedSpan {
    /// The first frame.
    from: u64,
    forks: BTreeSet<ForkId>,
    /// Names whose forks were removed.
    gone: BTreeSet<ForkKey>,
    any: bool,
}

impl TouchedSpan {
    /// The first frame of the span.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    /// Whether the frames may have touched any fork.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// The forks that the frames touched.
    pub(crate) fn forks(&self) -> impl Iterator<Item = ForkId> {
        self.forks.iter().copied()
    }

    /// The names whose forks the frames removed.
    pub(crate) fn gone_names(&self) -> impl Iterator<Item = &ForkKey> {
        self.gone.iter()
    }

    fn is_full(&mut self) -> bool {
        if self.forks.len() + self.gone.len() >= TOUCHED_FORKS_MAX {
            self.any = true;
            self.forks.clear();
            self.gone.clear();
        }
        self.any
    }

    fn touch(&mut self, id: ForkId) {
        if !self.forks.contains(&id) && !self.is_full() {
            self.forks.insert(id);
        }
    }

    fn gone(&mut self, key: &ForkKey) {
        if !self.is_full() {
            self.gone.insert(key.clone());
        }
    }

    fn begin(&mut self, from: u64) {
        *self = Self {
            from,
            ..Self::default()
        };
    }
}

/// The forks touched since the last reports.
#[derive(Debug, Default)]
pub(crate) struct TouchedForks {
    recent: TouchedSpan,
    /// Since the last report that began a segment.
    wide: TouchedSpan,
    /// The segment of the last report.
    segment: u64,
    /// Bytes of frames since the last report.
    bytes: u64,
}

impl TouchedForks {
    /// Begins at this frame.
    pub(crate) fn begin(&mut self, from: u64) {
        self.recent.begin(from);
        self.wide.begin(from);
    }

    /// A fork's bytes or length changed.
    pub(crate) fn touch(&mut self, id: ForkId) {
        self.recent.touch(id);
        self.wide.touch(id);
    }

    /// Any fork may have changed.
    pub(crate) fn any(&mut self) {
        for window in [&mut self.recent, &mut self.wide] {
            window.any = true;
            window.forks.clear();
            window.gone.clear();
        }
    }

    /// A name lost its fork.
    pub(crate) fn gone(&mut self, key: &ForkKey) {
        if key.file != ADDRESSED {
            self.recent.gone(key);
            self.wide.gone(key);
        }
    }

    /// A frame was queued; returns whether a report is due.
    pub(crate) fn frame(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        self.bytes > TOUCHED_INTERVAL
    }

    /// Takes the reports on the frames before `next`, one or two; `segment`: where frame `next`
    /// will be, if known.
    pub(crate) fn take(&mut self, segment: Option<u64>, next: u64) -> Vec<TouchedSpan> {
        let wide = segment.is_some_and(|segment| segment != self.segment);
        let recent = std::mem::take(&mut self.recent);
        let mut said = vec![recent];
        if wide {
            let wide = std::mem::take(&mut self.wide);
            if wide.from != said[0].from {
                said.push(wide);
            }
            self.wide.begin(next);
        }
        // Frame `next` is the report itself: it touches nothing, but a later report must cover it
        // in case it is damaged.
        self.recent.begin(next);
        self.segment = segment.unwrap_or(self.segment);
        self.bytes = 0;
        said
    }
}
