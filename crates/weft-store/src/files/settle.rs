//! What a cut of many chunks leaves behind for a while: the *tail*, chunks beyond a fork's length
//! that still have entries.
//!
//! The cut itself is one item of the log and one moment for everybody: it sets the length, empties
//! the chunk that it divides and says that nothing from there on is inherited. The rest is owed: it
//! is emptied some chunks at a time, in the background, each part an item of its own. Invariants:
//! 1. Nobody sees a tail: it lies beyond the length, and forks that derive from this one do not
//!    inherit it.
//! 2. A fork does not grow while it has one: whoever makes it longer empties the tail first.
//! 3. Nothing says durably that there is one but the entries beyond the length; an opening finds
//!    them where it counts blocks.

use crate::engine::{Inner, Room, whole};
use crate::error::StoreError;
use crate::pool::BLOCK;
use crate::record::ForkId;

/// Blocks of the chunks of one part.
const PART_BLOCKS: u32 = 16 << 10;

impl Inner {
    /// Chunks of this size that one part is about.
    pub(crate) fn part_of(&self, size: u32) -> usize {
        let blocks = size.div_ceil(BLOCK as u32).max(1);
        (PART_BLOCKS / blocks).clamp(1, self.bounds.cut) as usize
    }

    /// Empties a fork's tail.
    pub(crate) async fn settle(&self, id: ForkId) -> Result<(), StoreError> {
        while self.settle_part(id)? {
            if self.log_is_long(&self.lock()) {
                // Apart from the caller, who may go away: what was taken for the index must come to
                // it.
                let me = self.me();
                whole(async move { me.apply_in(Room::Last).await }).await?;
            } else {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Empties all tails.
    pub(crate) async fn settle_all(&self) -> Result<(), StoreError> {
        loop {
            let Some(id) = self.lock().forks().first_tail() else {
                return Ok(());
            };
            self.settle(id).await?;
        }
    }

    /// Empties the next part of a fork's tail; whether there is more.
    pub(crate) fn settle_part(&self, id: ForkId) -> Result<bool, StoreError> {
        let mut most = usize::MAX;
        // Not again below: that could evict what was just loaded, for ever.
        self.lock().evict(self.bounds.cache);
        loop {
            let (from, size) = {
                let mut state = self.lock();
                state.check_writable()?;
                let fork = state.forks().get(id);
                let Some(tail) = fork.and_then(|f| Some((f.tail()?, f.chunk()))) else {
                    state.forks_mut().set_tail(id, None);
                    return Ok(false);
                };
                tail
            };
            most = most.min(self.part_of(size));
            let (evictions, reached) = self.load_entries(id, from, most)?;
            let mut state = self.lock();
            state.check_writable()?;
            if state.cache().evictions() != evictions {
                // Others evict what was just loaded: less of it may stay.
                most = (most / 2).max(1);
                continue;
            }
            if state.forks().get(id).is_none_or(|f| f.tail() != Some(from)) {
                continue;
            }
            let chunks = state.forks()[id].chunks().range(from..reached);
            let end = chunks.map(|(n, _)| *n).nth(most).unwrap_or(reached);
            let sequence = state.take_part(id, from..end);
            let more = state.forks().has_tail(id);
            drop(state);
            self.append(sequence)?;
            return Ok(more);
        }
    }
}
