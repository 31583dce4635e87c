//! Which forks the frames of a log touched, said again in later frames: so what a frame that cannot
//! be read any more may have done is bounded (`docs/design/0024-losses.md`).
//!
//! Each `Synced` frame says it of the frames since the last one, and so does a frame of its own
//! after 32 KiB of others. The first one in a new segment says it once more of all frames since the
//! one before that: damage in one place does not take both. Touched is a fork whose bytes, length
//! or being changed as its readers see it. What moves bytes (flushes, checkpoints, merges) touches
//! nothing.

use std::collections::BTreeSet;

use crate::key::{ADDRESSED, ForkKey};
use crate::record::ForkId;

/// Bytes of frames after which it is said without a sync. The fewer frames one is about, the fewer
/// files are in doubt for one that is damaged; of 60 bytes each, these are a five-hundredth of the
/// log.
const REPORT_BYTES: u64 = 32 << 10;
/// Forks of one window that are remembered; of more it says "any".
const FORKS_MAX: usize = 65_536;

/// Frames from one on, and the forks that they touched.
#[derive(Debug, Default)]
pub(crate) struct TouchedSpan {
    /// The first frame.
    from: u64,
    forks: BTreeSet<ForkId>,
    /// Names whose forks went.
    gone: BTreeSet<ForkKey>,
    any: bool,
}

impl TouchedSpan {
    /// The first frame of the window.
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
        if self.forks.len() + self.gone.len() >= FORKS_MAX {
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

/// What was touched since it was last said.
#[derive(Debug, Default)]
pub(crate) struct Touches {
    recent: TouchedSpan,
    /// Since the last frame that said it of a segment.
    wide: TouchedSpan,
    /// That frame's segment.
    segment: u64,
    /// Bytes of frames since it was last said.
    bytes: u64,
}

impl Touches {
    /// Frames from this one on are noted.
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

    /// A name has no fork any more.
    pub(crate) fn gone(&mut self, key: &ForkKey) {
        if key.file != ADDRESSED {
            self.recent.gone(key);
            self.wide.gone(key);
        }
    }

    /// A frame of so many bytes was queued; whether it is time to say what was touched.
    pub(crate) fn frame(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        self.bytes > REPORT_BYTES
    }

    /// Takes what the frames before `next` touched, one window or two; `segment`: where frame
    /// `next` goes, if that is known.
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
        // Frame `next` touches nothing, and cannot say so itself if it is the damaged one.
        self.recent.begin(next);
        self.segment = segment.unwrap_or(self.segment);
        self.bytes = 0;
        said
    }
}
