//! What a cut of many chunks leaves behind for a while: the *tail*, chunks beyond a fork's length that still have entries.
//!
//! The cut itself is one item of the log and one moment for everybody: it sets the length, empties the chunk that it divides and
//! says that nothing from there on is inherited. The rest is owed: it is emptied some chunks at a time, in the background, each
//! part an item of its own. Invariants:
//! 1. Nobody sees a tail: it lies beyond the length, and forks that derive from this one do not inherit it.
//! 2. A fork does not grow while it has one: whoever makes it longer empties the tail first.
//! 3. Nothing says durably that there is one but the entries beyond the length; an opening finds them where it counts blocks.

use std::ops::Range;

use crate::error::StoreError;
use crate::index_room::Room;
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, new_body};
use crate::replay::MAP_COST;
use crate::state::{Fork, State};
use crate::store::Inner;
use crate::write::whole;

/// Blocks of the chunks of one part.
const PART_BLOCKS: u32 = 16 << 10;

impl Fork {
    /// The first chunk that lies beyond its length wholly.
    pub(crate) fn end_chunk(&self) -> u64 {
        self.length.div_ceil(u64::from(self.chunk.max(1)))
    }
}

impl State {
    /// Sets a shorter length. What lies beyond in the chunk that this divides, which is in memory, goes; other chunks become the
    /// fork's tail. The caller zeroes the rest of the last block.
    pub(crate) fn cut_off(&mut self, id: ForkId, length: u64, modified: i64, sequence: u64) {
        let Some(size) = self.forks.get(&id).map(|f| u64::from(f.chunk.max(1))) else {
            return;
        };
        self.doubts().prove(id, &(length..u64::MAX));
        let (first, inside) = (length / size, length % size);
        if inside > 0 {
            let keep = inside.div_ceil(BLOCK as u64) as u32;
            self.empty(id, first, keep..u32::MAX, sequence);
        }
        self.touch(id, length, modified);
        let end = first + u64::from(inside > 0);
        self.inherit_below(id, end);
        self.set_tail(id, Some(end));
    }

    /// Whether a fork has a tail that must go before the fork is this long.
    pub(crate) fn must_settle(&self, id: ForkId, length: u64) -> bool {
        let fork = &self.forks[&id];
        fork.tail.is_some() && length > fork.length
    }

    /// A fork's tail begins here, or earlier if it has one; `None`: it has none any more.
    pub(crate) fn set_tail(&mut self, id: ForkId, from: Option<u64>) {
        let Some(fork) = self.forks.get_mut(&id) else {
            self.tails.remove(&id);
            return;
        };
        if let Some(from) = from {
            fork.tail = Some(fork.tail.map_or(from, |tail| tail.min(from)));
            self.tails.insert(id);
        } else {
            fork.tail = None;
            self.tails.remove(&id);
        }
    }

    /// Makes holes of chunks that are in memory; how many had entries.
    pub(crate) fn empty_chunks(&mut self, id: ForkId, chunks: Range<u64>, sequence: u64) -> u64 {
        let Some(fork) = self.forks.get(&id) else {
            return 0;
        };
        let numbers: Vec<u64> = fork.chunks.range(chunks).map(|(n, _)| *n).collect();
        for n in &numbers {
            self.empty(id, *n, 0..u32::MAX, sequence);
        }
        numbers.len() as u64
    }

    /// Empties chunks of a tail, all of which are in memory, as one frame of the log; to [`u64::MAX`]: there are no more.
    fn take_part(&mut self, id: ForkId, chunks: Range<u64>) -> u64 {
        let Range { start, end } = chunks;
        let sequence = self.next_sequence();
        let emptied = self.empty_chunks(id, chunks, sequence);
        self.set_tail(id, None);
        if end != u64::MAX {
            self.set_tail(id, Some(end));
        }
        if emptied == 0 {
            return self.sequence;
        }
        let mut body = new_body(0);
        ItemRecord::Empty {
            id,
            from: start,
            to: end,
        }
        .encode(&mut body);
        self.logged += emptied * MAP_COST;
        self.log(&body)
    }
}

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
                // Apart from the caller, who may go away: what was taken for the index must come to it.
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
            let Some(id) = self.lock().tails.first().copied() else {
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
                let fork = state.forks.get(&id);
                let Some(tail) = fork.and_then(|f| Some((f.tail?, f.chunk))) else {
                    state.set_tail(id, None);
                    return Ok(false);
                };
                tail
            };
            most = most.min(self.part_of(size));
            let (evictions, reached) = self.load_entries(id, from, most)?;
            let mut state = self.lock();
            state.check_writable()?;
            if state.evictions != evictions {
                // Others evict what was just loaded: less of it may stay.
                most = (most / 2).max(1);
                continue;
            }
            if state.forks.get(&id).is_none_or(|f| f.tail != Some(from)) {
                continue;
            }
            let chunks = state.forks[&id].chunks.range(from..reached);
            let end = chunks.map(|(n, _)| *n).nth(most).unwrap_or(reached);
            let sequence = state.take_part(id, from..end);
            let more = state.tails.contains(&id);
            drop(state);
            self.append(sequence)?;
            return Ok(more);
        }
    }
}
