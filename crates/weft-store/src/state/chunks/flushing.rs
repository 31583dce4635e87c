//! Write-behind in the state: dirty blocks get places, and are mapped once they are written.
//!
//! A round marks the blocks it takes as *flushing*. A write meanwhile marks them *redirtied*; a
//! truncation or a direct write clears the marks. At its end the round maps the blocks that still
//! have its mark; redirtied ones stay dirty, because the round did not write the frames after
//! `as_of`.

use std::ops::{Bound, RangeInclusive};

use super::blocks::extent;
use crate::pages::{Operations, Page, push_block, slot_of};
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, Place, RunsRecord, checksum, new_body};
use crate::space::Extent;
use crate::state::StoreState;

/// A block on its way to the disk.
pub(crate) struct FlushedBlock {
    id: ForkId,
    chunk: u64,
    block: u32,
    place: Place,
    crc: u32,
}

/// The blocks of one round, and where it stopped.
pub(crate) struct FlushRound {
    flush: u64,
    as_of: u64,
    blocks: Vec<FlushedBlock>,
    operations: Operations,
    next: Option<(ForkId, u64)>,
    which: FlushScope,
    runs: u64,
    corrupted: Option<(ForkId, u64, u32)>,
}

/// Which dirty pages a round takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushScope {
    All,
    /// Those of slots that are dirty as a whole: they rarely change again.
    Full,
}

impl FlushRound {
    /// Takes the disk writes.
    pub(crate) fn take_operations(&mut self) -> Operations {
        std::mem::take(&mut self.operations)
    }

    /// The last chunk of the round, if more may follow.
    pub(crate) fn next(&self) -> Option<(ForkId, u64)> {
        self.next
    }

    /// Blocks of the round, and runs that they begin on the disk.
    pub(crate) fn placed(&self) -> (u64, u64) {
        (self.blocks.len() as u64, self.runs)
    }

    /// A block of the round whose bytes changed in memory: fork, chunk, block.
    pub(crate) fn corrupted(&self) -> Option<(ForkId, u64, u32)> {
        self.corrupted
    }
}

/// How many runs the extents begin, if the last one ended at `goal`.
pub(crate) fn count_runs(extents: &[Extent], goal: u64) -> u64 {
    let first = extents.first().map_or(goal, |e| e.start);
    extents.len() as u64 - u64::from(first == goal)
}

impl StoreState {
    /// Takes dirty blocks of `chunks` after `from`, whole chunks until there are `most` blocks, and
    /// gives them places.
    pub(crate) fn begin_flush(
        &mut self,
        from: Bound<(ForkId, u64)>,
        chunks: &RangeInclusive<(ForkId, u64)>,
        which: FlushScope,
        most: u64,
    ) -> FlushRound {
        let mut round = FlushRound {
            flush: self.dirty.next_flush(),
            as_of: self.sequence(),
            blocks: Vec::new(),
            operations: Operations::default(),
            next: None,
            which,
            runs: 0,
            corrupted: None,
        };
        let mut at = from;
        while (round.blocks.len() as u64) < most {
            let Some((id, n)) = self.dirty.next(at, chunks) else {
                round.next = None;
                break;
            };
            self.flush_chunk(id, n, &mut round);
            round.next = Some((id, n));
            at = Bound::Excluded((id, n));
        }
        round
    }

    /// Gives a chunk's dirty blocks places and marks them.
    fn flush_chunk(&mut self, id: ForkId, n: u64, round: &mut FlushRound) {
        let Some(fork) = self.forks.get_mut(id) else {
            return;
        };
        let hint = fork.hint(id);
        let Some(chunk) = fork.chunk_mut(n) else {
            return;
        };
        let which = round.which;
        let wanted = |p: &Page| p.is_dirty() && (which == FlushScope::All || p.is_full());
        let pages = chunk.pages().filter(|p| wanted(p));
        let count: u64 = pages.map(|p| u64::from(p.dirty().count_ones())).sum();
        if count == 0 {
            return;
        }
        let Some(extents) = self.space.take_reserved(count, hint) else {
            return;
        };
        round.runs += count_runs(&extents, hint.goal);
        let mut places = extents
            .iter()
            .flat_map(|e| (e.start..e.start + e.blocks).map(Place));
        for (slot, page) in chunk.pages_mut().filter(|(_, p)| wanted(p)) {
            page.begin_flush(round.flush);
            for block in (slot * 16..slot * 16 + 16).filter(|b| page.block_is_dirty(*b)) {
                let place = places.next().expect("as many places as dirty blocks");
                let at = page.at(block % 16);
                let crc = page.sum(block);
                if crc != checksum(&page.buffer()[at..at + BLOCK]) {
                    round.corrupted.get_or_insert((id, n, block));
                }
                round.operations.add(page, block, std::iter::once(place));
                round.blocks.push(FlushedBlock {
                    id,
                    chunk: n,
                    block,
                    place,
                    crc,
                });
            }
        }
        if let Some(last) = extents.last() {
            fork.placed_at(*last);
        }
    }

    /// A disk failed: everything stays dirty, and the next round places it elsewhere.
    pub(crate) fn abandon_flush(&mut self, round: FlushRound) {
        for f in round.blocks {
            let chunk = self.forks.chunk_mut(f.id, f.chunk);
            let page = chunk.and_then(|c| c.page_mut(slot_of(f.block)));
            if let Some(page) = page.filter(|p| p.is_flushing(round.flush, f.block)) {
                let promised = page.abandon_flush(f.block);
                self.space.reserve(u64::from(!promised));
            }
            self.space.free(extent(f.place));
        }
    }

    /// Maps the blocks that the round wrote; returns the frame's sequence.
    pub(crate) fn end_flush(&mut self, round: FlushRound) -> u64 {
        let sequence = self.next_sequence();
        let mut body = new_body(0);
        let mut runs: Option<((ForkId, u64), RunsRecord)> = None;
        let mut finish = |state: &mut StoreState, runs: Option<((ForkId, u64), RunsRecord)>| {
            let Some(((id, chunk), runs)) = runs else {
                return;
            };
            state.mark_changed(id, chunk);
            state.count_entry(id, chunk);
            if state.forks.chunk(id, chunk).is_none_or(|c| !c.is_dirty()) {
                state.dirty.remove_chunk(id, chunk);
            }
            ItemRecord::Map {
                id,
                chunk,
                as_of: round.as_of,
                end: 0,
                runs,
            }
            .encode(&mut body);
        };
        for f in round.blocks {
            if !self.map_flushed(&f, round.flush, round.as_of, sequence) {
                self.space.free(extent(f.place));
                continue;
            }
            if runs.as_ref().is_some_and(|(at, _)| *at != (f.id, f.chunk)) {
                finish(self, runs.take());
            }
            let record = &mut runs
                .get_or_insert_with(|| ((f.id, f.chunk), RunsRecord::default()))
                .1;
            push_block(record, f.block, f.place, f.crc, false);
        }
        finish(self, runs);
        self.log(&body)
    }

    /// Maps one written block, unless a truncation or a direct write replaced it; returns whether
    /// it did.
    fn map_flushed(&mut self, f: &FlushedBlock, flush: u64, as_of: u64, sequence: u64) -> bool {
        let chunk = self.forks.chunk(f.id, f.chunk);
        let page = chunk.and_then(|c| c.page(slot_of(f.block)));
        if !page.is_some_and(|p| p.is_flushing(flush, f.block)) {
            return false;
        }
        self.place_block(f.id, f.chunk, f.block, f.place, f.crc, sequence);
        let chunk = self.forks.chunk_mut(f.id, f.chunk);
        let page = chunk.and_then(|c| c.page_mut(slot_of(f.block)));
        let page = page.expect("the page was found under this lock");
        if page.end_flush(f.block, as_of) {
            self.dirty.remove_blocks(1);
        }
        true
    }
}
