//! The names of chunks that calls in progress may put into a recipe: the cleaner leaves these
//! chunks alone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::key::ChunkName;

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
        holds.since_pass_began = Some(holds.counts.keys().copied().collect());
        holds.moves
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
