//! Blocks whose bytes no disk of the store has: they are lost, or coded.

use std::collections::BTreeMap;

use super::blocks::extent;
use crate::log::OpenFrame;
use crate::pages::{WantedBlock, push_block};
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, Place, RunsRecord, new_body};
use crate::state::StoreState;

impl StoreState {
    /// Marks a block lost. If the fork owned its place, that is freed after a sync of frame
    /// `freed`; without `freed` it stays taken until the store is reopened.
    pub(crate) fn lose_block(&mut self, id: ForkId, chunk: u64, block: u32, freed: Option<u64>) {
        let Some(fork) = self.forks.get_mut(id) else {
            return;
        };
        let (lost, own) = fork.unplace(chunk, block, Place::LOST.plus(block), 0);
        if !lost {
            return;
        }
        let own = own.filter(|place| !place.is_absent());
        if let (Some(place), Some(sequence)) = (own, freed) {
            self.space.free_after(sequence, extent(place));
        }
        self.mark_changed(id, chunk);
    }

    /// Marks a clean block coded: its bytes must have the checksum `crc`. If the fork owned its
    /// place, that is freed after a sync of frame `freed`.
    pub(crate) fn code_block(&mut self, id: ForkId, chunk: u64, block: u32, crc: u32, freed: u64) {
        let Some(fork) = self.forks.get_mut(id) else {
            return;
        };
        let (coded, own) = fork.unplace(chunk, block, Place::CODED.plus(block), crc);
        if !coded {
            return;
        }
        let file = fork.key().file;
        self.note_coded(file);
        if let Some(place) = own.filter(|place| !place.is_absent()) {
            self.space.free_after(freed, extent(place));
        }
        // A page would let a part of the block be written, over bytes that the log has not got.
        self.forget_pages(id, chunk, &(block..block + 1));
        self.mark_changed(id, chunk);
    }

    /// Marks blocks lost that are still at these places and not in memory; returns the frame's
    /// sequence.
    pub(crate) fn mark_lost(&mut self, wanted: &[WantedBlock]) -> u64 {
        let (as_of, sequence) = (self.sequence(), self.next_sequence());
        let mut lost: BTreeMap<(ForkId, u64), RunsRecord> = BTreeMap::new();
        for w in wanted {
            let chunk = self.forks.get(w.id).and_then(|f| f.chunks().get(&w.chunk));
            let still = chunk.is_some_and(|c| {
                c.place(w.block).is_some_and(|(at, _)| at == w.place)
                    && c.valid_page(w.block).is_none()
            });
            if !still {
                continue;
            }
            self.lose_block(w.id, w.chunk, w.block, Some(sequence));
            let runs = lost.entry((w.id, w.chunk)).or_default();
            push_block(runs, w.block, Place::LOST.plus(w.block), 0, true);
        }
        if lost.is_empty() {
            return self.sequence();
        }
        let mut body = new_body(0);
        for ((id, chunk), runs) in lost {
            ItemRecord::Map {
                id,
                chunk,
                as_of,
                end: 0,
                runs,
            }
            .encode(&mut body);
        }
        self.log(&body)
    }

    /// Empties a block that the frame will fill as a whole; the block was found under this lock.
    pub(crate) fn clear_for_frame(&mut self, block: &WantedBlock, frame: &mut OpenFrame) {
        let (sequence, size) = (self.next_sequence(), self.forks[block.id].chunk());
        let start = block.block * BLOCK as u32;
        ItemRecord::Clear {
            id: block.id,
            offset: block.chunk * u64::from(size) + u64::from(start),
            length: u64::from((size - start).min(BLOCK as u32)),
        }
        .encode(frame.items());
        self.empty(
            block.id,
            block.chunk,
            block.block..block.block + 1,
            sequence,
        );
    }
}
