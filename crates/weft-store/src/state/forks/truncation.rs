//! The atomic step of a truncation: the new length, and the chunks whose emptying is deferred.

use std::ops::Range;

use crate::log::MAP_COST;
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, new_body};
use crate::state::StoreState;

impl StoreState {
    /// Sets a shorter length. Empties the rest of the chunk that this divides, which is in memory,
    /// and defers emptying later chunks. The caller zeroes the rest of the last block.
    pub(crate) fn truncate_deferred(
        &mut self,
        id: ForkId,
        length: u64,
        modified: i64,
        sequence: u64,
    ) {
        let Some(size) = self.forks.get(id).map(|f| u64::from(f.chunk().max(1))) else {
            return;
        };
        self.doubts_mut().prove(id, &(length..u64::MAX));
        let (first, inside) = (length / size, length % size);
        if inside > 0 {
            let keep = inside.div_ceil(BLOCK as u64) as u32;
            self.empty(id, first, keep..u32::MAX, sequence);
        }
        self.touch(id, length, modified);
        let end = first + u64::from(inside > 0);
        self.forks.inherit_below(id, end);
        self.forks.defer_truncation(id, end);
    }

    /// Empties chunks in memory; returns how many had entries.
    pub(crate) fn empty_chunks(&mut self, id: ForkId, chunks: Range<u64>, sequence: u64) -> u64 {
        let Some(fork) = self.forks.get(id) else {
            return 0;
        };
        let numbers: Vec<u64> = fork.chunks().range(chunks).map(|(n, _)| *n).collect();
        for n in &numbers {
            self.empty(id, *n, 0..u32::MAX, sequence);
        }
        numbers.len() as u64
    }

    /// Continues a deferred truncation: empties a range of chunks, all in memory, with one frame of
    /// the log. A range up to [`u64::MAX`] ends it.
    pub(crate) fn continue_truncation(&mut self, id: ForkId, chunks: Range<u64>) -> u64 {
        let Range { start, end } = chunks;
        let sequence = self.next_sequence();
        let emptied = self.empty_chunks(id, chunks, sequence);
        self.forks.end_deferred_truncation(id);
        if end != u64::MAX {
            self.forks.defer_truncation(id, end);
        }
        if emptied == 0 {
            return self.sequence();
        }
        let mut body = new_body(0);
        ItemRecord::Empty {
            id,
            from: start,
            to: end,
        }
        .encode(&mut body);
        self.charge_replay(emptied * MAP_COST);
        self.log(&body)
    }
}
