//! Direct writes: whole blocks of large writes go to free blocks on the disks, then enter the map.

use crate::counters::Counters;
use crate::engine::Inner;
use crate::forks::{by_chunk, whole_blocks};
use crate::limits::DIRECT_MIN;
use crate::log::MAP_COST;
use crate::pages::{Operations, Page, push_block};
use crate::paging::WriteFailed;
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, Place, RunsRecord, checksum};
use crate::space::Extent;
use crate::state::StoreState;

/// Blocks of a write that are written directly; 0 if it is too small.
pub(crate) fn direct_blocks(size: u32, offset: u64, length: u64) -> u64 {
    if length < DIRECT_MIN {
        return 0;
    }
    let blocks: u64 = by_chunk(size, offset, length)
        .map(|r| whole_blocks(&r, size).len() as u64)
        .sum();
    if blocks * BLOCK as u64 >= DIRECT_MIN {
        blocks
    } else {
        0
    }
}

/// Blocks of one slot in a page that is not in the cache yet, with their checksums and new places.
pub(crate) struct PreparedBlocks {
    pub(crate) chunk: u64,
    pub(crate) first: u32,
    page: Page,
    pub(crate) blocks: Vec<(Place, u32)>,
    /// Bytes that were copied.
    copied: usize,
}

/// Hands out the blocks of extents one by one.
struct Places {
    extents: std::vec::IntoIter<Extent>,
    now: Extent,
}

impl Iterator for Places {
    type Item = Place;
    fn next(&mut self) -> Option<Place> {
        while self.now.blocks == 0 {
            self.now = self.extents.next()?;
        }
        let place = Place(self.now.start);
        self.now.start += 1;
        self.now.blocks -= 1;
        Some(place)
    }
}

impl Inner {
    /// Makes pages of the whole blocks of a write, with at most one copy, and assigns them places.
    /// `known` returns the sum of the block at an offset of the data, if it was computed before; a
    /// block that is copied is summed again.
    pub(crate) fn prepare_blocks(
        &self,
        size: u32,
        offset: u64,
        data: &[u8],
        extents: Vec<Extent>,
        known: impl Fn(usize) -> Option<u32>,
    ) -> Vec<PreparedBlocks> {
        let mut places = Places {
            extents: extents.into_iter(),
            now: Extent {
                start: 0,
                blocks: 0,
            },
        };
        let mut out = Vec::new();
        for range in by_chunk(size, offset, data.len() as u64) {
            let whole = whole_blocks(&range, size);
            let origin = range.chunk * u64::from(size);
            let mut first = whole.start;
            while first < whole.end {
                let end = whole.end.min((first / 16 + 1) * 16);
                let from = (origin + u64::from(first) * BLOCK as u64 - offset) as usize;
                let held = (size.min(end * BLOCK as u32) - first * BLOCK as u32) as usize;
                let (mut page, copied) = self.page_of(first % 16, &data[from..from + held]);
                page.mark_valid(first..end);
                let at = page.at(first % 16);
                let memory = page.buffer()[at..].chunks_exact(BLOCK);
                let blocks = (first..end).zip(memory).zip((from..).step_by(BLOCK));
                let blocks = blocks.map(|((_, block), from)| {
                    let place = places.next().expect("the caller took enough blocks");
                    let sum = known(from).filter(|_| copied == 0);
                    (place, sum.unwrap_or_else(|| checksum(block)))
                });
                out.push(PreparedBlocks {
                    chunk: range.chunk,
                    first,
                    blocks: blocks.collect(),
                    page,
                    copied,
                });
                first = end;
            }
        }
        out
    }

    /// A page of bytes whose first block is `first` of a slot, and how many bytes were copied; the
    /// rest of the last block is zeros. The page is the memory in which the bytes were received if
    /// they are aligned there as in the slot and fill at least half of it.
    fn page_of(&self, first: u32, bytes: &[u8]) -> (Page, usize) {
        let whole = bytes.len() >= DIRECT_MIN as usize && bytes.len().is_multiple_of(BLOCK);
        if whole
            && let Some((unit, at)) = self.pool().unit_of(bytes)
            && at == first as usize * BLOCK
        {
            return (Page::filled(0, unit, 0), 0);
        }
        let last = first + (bytes.len().div_ceil(BLOCK) - 1) as u32;
        let mut page = Page::covering(self.pool(), first, last);
        let memory = page.new_blocks(first, last);
        memory[..bytes.len()].copy_from_slice(bytes);
        memory[bytes.len()..].fill(0);
        (page, bytes.len())
    }

    /// Writes prepared blocks to their places and waits for all of them.
    pub(crate) async fn write_prepared(
        &self,
        prepared: impl Iterator<Item = &PreparedBlocks>,
    ) -> Result<(), WriteFailed> {
        let mut operations = Operations::default();
        for p in prepared {
            operations.add(&p.page, p.first, p.blocks.iter().map(|b| b.0));
        }
        self.write_operations(operations).await
    }

    /// Adds prepared blocks to the map and the cache, and their `Map` items to the frame.
    pub(crate) fn install_prepared(
        &self,
        state: &mut StoreState,
        id: ForkId,
        end: u64,
        prepared: Vec<PreparedBlocks>,
        body: &mut Vec<u8>,
    ) {
        let sequence = state.next_sequence();
        let mut runs: Option<(u64, RunsRecord)> = None;
        let mut finish = |state: &mut StoreState, runs: Option<(u64, RunsRecord)>| {
            if let Some((chunk, runs)) = runs {
                state.mark_changed(id, chunk);
                state.count_entry(id, chunk);
                state.charge_replay(MAP_COST + runs.crcs.len() as u64 / 4);
                ItemRecord::Map {
                    id,
                    chunk,
                    as_of: sequence,
                    end,
                    runs,
                }
                .encode(body);
            }
        };
        for p in prepared {
            if runs.as_ref().is_some_and(|(chunk, _)| *chunk != p.chunk) {
                finish(state, runs.take());
            }
            let record = &mut runs
                .get_or_insert_with(|| (p.chunk, RunsRecord::default()))
                .1;
            for (i, &(place, crc)) in (0_u32..).zip(&p.blocks) {
                push_block(record, p.first + i, place, crc, false);
                state.place_block(id, p.chunk, p.first + i, place, crc, sequence);
            }
            let blocks = p.first..p.first + p.blocks.len() as u32;
            let copied = state.replace_blocks(self.pool(), (id, p.chunk), blocks, p.page);
            Counters::add(&self.counters().copied_bytes, p.copied as u64 + copied);
        }
        finish(state, runs);
    }
}
