//! Which forks the frames of a log touched, said again in later frames: so what a frame that cannot be read any more may have done is
//! bounded (`docs/design/0024-losses.md`).
//!
//! Each `Synced` frame says it of the frames since the last one, and so does a frame of its own after 32 KiB of others. The first
//! one in a new segment says it once more of all frames since the one before that: damage in one place does not take both.
//! Touched is a fork whose bytes, length or being changed as its readers see it. What moves bytes (flushes, checkpoints, merges)
//! touches nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::addressed::ADDRESSED;
use crate::key::ForkKey;
use crate::record::{ForkId, ItemRecord, TouchedRecord};
use crate::state::State;

/// Bytes of frames after which it is said without a sync. The fewer frames one is about, the fewer files are in doubt for one that is
/// damaged; of 60 bytes each, these are a five-hundredth of the log.
const SAY_AFTER: u64 = 32 << 10;
/// Forks of one window that are remembered; of more it says "any".
const FORKS_MAX: usize = 65_536;

/// Frames from one on, and the forks that they touched.
#[derive(Debug, Default)]
struct Window {
    /// The first frame.
    from: u64,
    forks: BTreeSet<ForkId>,
    /// Names whose forks went.
    gone: BTreeSet<ForkKey>,
    any: bool,
}

impl Window {
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
    recent: Window,
    /// Since the last frame that said it of a segment.
    wide: Window,
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
        self.bytes > SAY_AFTER
    }
}

impl State {
    /// Adds what was touched to the frame of the next sequence; `segment`: where that will be, if that is known.
    pub(crate) fn say_touched(&mut self, segment: Option<u64>, body: &mut Vec<u8>) {
        let next = self.next_sequence();
        let touches = std::mem::take(self.touches());
        self.encode_touched(&touches.recent, body);
        let wide = segment.is_some_and(|segment| segment != touches.segment);
        if wide && touches.wide.from != touches.recent.from {
            self.encode_touched(&touches.wide, body);
        }
        let mut now = Touches {
            segment: segment.unwrap_or(touches.segment),
            ..Touches::default()
        };
        // This frame touches nothing, and cannot say so itself if it is the one that is damaged.
        now.recent.begin(next);
        if wide {
            now.wide.begin(next);
        } else {
            now.wide = touches.wide;
        }
        *self.touches() = now;
    }

    fn encode_touched(&self, window: &Window, body: &mut Vec<u8>) {
        let mut keys: BTreeMap<&ForkKey, u64> = window.gone.iter().map(|key| (key, 0)).collect();
        // One that was removed is among the names that went.
        let forks = window.forks.iter().filter_map(|id| self.forks.get(id));
        keys.extend(forks.map(|fork| (&fork.key, 0)));
        let forks = keys.into_keys().filter(|key| key.file != ADDRESSED);
        let length = |key: &ForkKey| self.find(key).map_or(0, |id| self.forks[&id].length);
        let forks = forks.map(|key| (key.clone(), length(key))).collect();
        let record = TouchedRecord {
            from: window.from,
            any: window.any,
            forks,
        };
        ItemRecord::Touched(record).encode(body);
    }
}
