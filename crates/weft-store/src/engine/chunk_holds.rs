//! The names of chunks that calls in progress may put into a recipe: the cleaner leaves these
//! chunks alone. And of damaged ones: a put writes these anew.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::key::ChunkName;
use crate::limits::{DAMAGED_CHUNKS_MAX, VAIN_PASS_PAUSE};

/// The names that are held, and those that were held at any time since a cleaning pass began.
#[derive(Default)]
pub(crate) struct ChunkHolds(Mutex<Holds>);

#[derive(Default)]
struct Holds {
    counts: HashMap<ChunkName, u32>,
    /// `None` unless a pass runs.
    since_pass_began: Option<HashSet<ChunkName>>,
    /// Counts what gives a recipe another place, such as rollbacks.
    moves: u64,
    /// Passes that have begun.
    passes: u64,
    /// When a pass for space freed nothing.
    vain: Option<Instant>,
    /// Chunks of which a read found damage: they count as missing until they are put again.
    damaged: HashSet<ChunkName>,
}

/// Names that one call, or one client, holds until it is dropped.
pub struct HeldChunks {
    holds: Arc<ChunkHolds>,
    names: Vec<ChunkName>,
}

impl ChunkHolds {
    /// Holds nothing yet.
    pub(crate) fn none(self: &Arc<Self>) -> HeldChunks {
        HeldChunks {
            holds: Arc::clone(self),
            names: Vec::new(),
        }
    }

    /// Begins a cleaning pass; returns the count of moves at that time.
    pub(crate) fn begin_pass(&self) -> u64 {
        let mut holds = self.0.lock();
        holds.passes += 1;
        holds.since_pass_began = Some(holds.counts.keys().copied().collect());
        holds.moves
    }

    /// How many passes have begun.
    pub(crate) fn passes(&self) -> u64 {
        self.0.lock().passes
    }

    /// Whether another pass for space may free any.
    pub(crate) fn may_pay(&self) -> bool {
        let vain = self.0.lock().vain;
        vain.is_none_or(|at| at.elapsed() >= VAIN_PASS_PAUSE)
    }

    /// A pass for space has freed nothing.
    pub(crate) fn note_vain_pass(&self) {
        self.0.lock().vain = Some(Instant::now());
    }

    /// Ends a pass.
    pub(crate) fn end_pass(&self) {
        self.0.lock().since_pass_began = None;
    }

    /// Whether a chunk was held since the pass began.
    pub(crate) fn was_held(&self, name: &ChunkName) -> bool {
        let holds = self.0.lock();
        holds
            .since_pass_began
            .as_ref()
            .is_some_and(|held| held.contains(name))
    }

    /// A read, a scrub or a check found a chunk damaged.
    pub(crate) fn note_damaged(&self, name: ChunkName) {
        let mut holds = self.0.lock();
        if holds.damaged.len() < DAMAGED_CHUNKS_MAX {
            holds.damaged.insert(name);
        }
    }

    /// Whether a read found a chunk damaged since it was put.
    pub(crate) fn is_damaged(&self, name: &ChunkName) -> bool {
        self.0.lock().damaged.contains(name)
    }

    /// A chunk was put anew.
    pub(crate) fn note_put(&self, name: &ChunkName) {
        self.0.lock().damaged.remove(name);
    }

    /// A recipe got another place: a pass that has read a part of the recipes may miss it.
    pub(crate) fn recipe_moved(&self) {
        self.0.lock().moves += 1;
    }

    /// Whether no recipe got another place since the count was `moves`.
    pub(crate) fn unmoved_since(&self, moves: u64) -> bool {
        self.0.lock().moves == moves
    }
}

impl HeldChunks {
    /// Holds a further chunk. The caller checks only then whether it exists.
    pub(crate) fn add(&mut self, name: ChunkName) {
        let mut holds = self.holds.0.lock();
        *holds.counts.entry(name).or_default() += 1;
        if let Some(held) = &mut holds.since_pass_began {
            held.insert(name);
        }
        drop(holds);
        self.names.push(name);
    }

    /// How many chunks are held.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Drop for HeldChunks {
    fn drop(&mut self) {
        let mut holds = self.holds.0.lock();
        for name in self.names.drain(..) {
            if let Some(count) = holds.counts.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    holds.counts.remove(&name);
                }
            }
        }
    }
}
