//! The direct way of large writes: whole blocks go to free places, then into the map.

use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::alloc::Extent;
use crate::chunk::{Page, bit, push_block, slot_of};
use crate::counters::Counters;
use crate::error::StoreError;
use crate::evict::set_page;
use crate::load::OPERATION_BLOCKS;
use crate::pool::{BLOCK, Slice};
use crate::read::{ChunkRange, by_chunk};
use crate::record::{ForkId, ItemRecord, Place, RunsRecord, checksum};
use crate::replay::MAP_COST;
use crate::state::State;
use crate::store::Inner;

/// Whole blocks of a write go the direct way from this many bytes on. Below, the log's copy and
/// the later flush in full runs are cheaper than an operation of the disk's own.
pub(crate) const DIRECT_MIN: u64 = 32 << 10;

/// The whole blocks of a range of a chunk: `first..end`.
pub(crate) fn whole_blocks(range: &ChunkRange, size: u32) -> std::ops::Range<u32> {
    let block = BLOCK as u32;
    let first = range.bytes.start.div_ceil(block);
    let end = if range.bytes.end == size {
        size.div_ceil(block)
    } else {
        range.bytes.end / block
    };
    first..end.max(first)
}

/// Blocks of a write that go the direct way; 0 when it is too small.
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

/// Blocks of one slot, in a page that nobody sees yet, with their checksums and their new places.
pub(crate) struct Prepared {
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

/// Why a write to the disks failed.
pub(crate) struct WriteFailed {
    pub(crate) error: StoreError,
    /// Every disk that failed gets no new data any more: it may go better the next time.
    pub(crate) again: bool,
}

/// Slices that go to consecutive places, as operations of the disk.
#[derive(Default)]
pub(crate) struct Operations(Vec<(Place, u32, Vec<Slice>)>);

impl Operations {
    /// Adds the blocks of `page` from `first` on that lie at `places`.
    pub(crate) fn add(&mut self, page: &Page, first: u32, places: impl Iterator<Item = Place>) {
        for (i, place) in (0_u32..).zip(places) {
            let at = page.at((first + i) % 16);
            if let Some((start, blocks, slices)) = self.0.last_mut()
                && *blocks < OPERATION_BLOCKS
                && start.plus(*blocks) == place
            {
                *blocks += 1;
                match slices.last_mut() {
                    Some(last) if last.grows(page.buffer(), at) => last.grow(BLOCK),
                    _ => slices.push(Slice::new(Arc::clone(page.buffer()), at..at + BLOCK)),
                }
                continue;
            }
            let slice = Slice::new(Arc::clone(page.buffer()), at..at + BLOCK);
            self.0.push((place, 1, vec![slice]));
        }
    }
}

impl Inner {
    /// Makes pages of the whole blocks of a write, which are copied at most once, and gives them places. `known` tells the sum of the
    /// block at a place of the data, where that is known: it is the block's, unless it is copied.
    pub(crate) fn prepare(
        &self,
        size: u32,
        offset: u64,
        data: &[u8],
        extents: Vec<Extent>,
        known: impl Fn(usize) -> Option<u32>,
    ) -> Vec<Prepared> {
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
                page.valid = (first..end).fold(0, |valid, block| valid | bit(block));
                let at = page.at(first % 16);
                let memory = page.buffer()[at..].chunks_exact(BLOCK);
                let blocks = (first..end).zip(memory).zip((from..).step_by(BLOCK));
                let blocks = blocks.map(|((_, block), from)| {
                    let place = places.next().expect("the caller took enough blocks");
                    let sum = known(from).filter(|_| copied == 0);
                    (place, sum.unwrap_or_else(|| checksum(block)))
                });
                out.push(Prepared {
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

    /// A page of bytes whose first block is `first` of a slot; the rest of the last block is zeros. It is the memory in which they
    /// were received, where they lie there as in the slot and are half of it at least.
    ///
    /// And how many bytes were copied.
    fn page_of(&self, first: u32, bytes: &[u8]) -> (Page, usize) {
        let whole = bytes.len() >= DIRECT_MIN as usize && bytes.len().is_multiple_of(BLOCK);
        if whole
            && let Some((unit, at)) = self.pool.unit_of(bytes)
            && at == first as usize * BLOCK
        {
            return (Page::filled(0, unit, 0), 0);
        }
        let last = first + (bytes.len().div_ceil(BLOCK) - 1) as u32;
        let mut page = Page::covering(&self.pool, first, last);
        let memory = page.new_blocks(first, last);
        memory[..bytes.len()].copy_from_slice(bytes);
        memory[bytes.len()..].fill(0);
        (page, bytes.len())
    }

    /// Writes prepared blocks to their places and waits for all of them.
    pub(crate) async fn write_prepared(
        &self,
        prepared: impl Iterator<Item = &Prepared>,
    ) -> Result<(), WriteFailed> {
        let mut operations = Operations::default();
        for p in prepared {
            operations.add(&p.page, p.first, p.blocks.iter().map(|b| b.0));
        }
        self.write_operations(operations).await
    }

    /// Writes to the disks and waits for every operation, whatever becomes of the others.
    pub(crate) async fn write_operations(&self, operations: Operations) -> Result<(), WriteFailed> {
        let mut running = FuturesUnordered::new();
        for (place, blocks, slices) in operations.0 {
            Counters::add(&self.counters.disk_writes, 1);
            Counters::add(
                &self.counters.disk_write_bytes,
                u64::from(blocks) * BLOCK as u64,
            );
            let file = self.disks.file(place);
            running.push(async move {
                let done = match file {
                    Ok(file) => file.write_at(place.offset(), slices).await,
                    Err(error) => Err(error),
                };
                (place, done)
            });
        }
        let mut result = Ok(());
        let mut again = true;
        while let Some((place, done)) = running.next().await {
            if let Some(disk) = self.disks.get(place.disk()) {
                disk.written.store(true, Relaxed);
            }
            if let Err(error) = done {
                let reason = format!("write: {error}");
                let alloc = &mut self.lock().disk;
                again &= self.disks.fail(alloc, place.disk(), &reason);
                let error = StoreError::io("write", &self.disks.shown(place), &error);
                result = Err(WriteFailed { error, again });
            }
        }
        result.map_err(|failed| WriteFailed { again, ..failed })
    }

    /// Puts prepared blocks into the map and the cache, and their `Map` items into the frame.
    pub(crate) fn install_prepared(
        &self,
        state: &mut State,
        id: ForkId,
        end: u64,
        prepared: Vec<Prepared>,
        body: &mut Vec<u8>,
    ) {
        let sequence = state.next_sequence();
        let mut runs: Option<(u64, RunsRecord)> = None;
        let mut finish = |state: &mut State, runs: Option<(u64, RunsRecord)>| {
            if let Some((chunk, runs)) = runs {
                state.mark_changed(id, chunk);
                state.count_entry(id, chunk);
                state.logged += MAP_COST + runs.crcs.len() as u64 / 4;
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
            self.install_page(state, id, p);
        }
        finish(state, runs);
    }

    /// Replaces what the cache has of the prepared blocks.
    fn install_page(&self, state: &mut State, id: ForkId, p: Prepared) {
        Counters::add(&self.counters.copied_bytes, p.copied as u64);
        let slot = slot_of(p.first);
        let Some(chunk) = state
            .forks
            .get_mut(&id)
            .and_then(|f| f.chunks.get_mut(&p.chunk))
        else {
            return;
        };
        let bytes = (p.blocks.len() * BLOCK) as u32;
        let Some(old) = chunk.page_mut(slot) else {
            set_page(state, id, p.chunk, slot, p.page);
            state.touch_page(id, p.chunk, slot, bytes);
            return;
        };
        let dirty = (old.dirty & p.page.valid).count_ones();
        let promises = old.forget(p.page.valid);
        let merge = old.valid != 0;
        if merge {
            Counters::add(&self.counters.copied_bytes, u64::from(bytes));
            let before = old.bytes();
            for block in (p.first..).take(p.blocks.len()) {
                let from = p.page.at(block % 16);
                old.block_mut(&self.pool, block % 16)
                    .copy_from_slice(&p.page.buffer()[from..from + BLOCK]);
                // At once: growing for the next block keeps only what is valid.
                old.valid |= bit(block);
            }
            state.cached = state.cached + old.bytes() - before;
        }
        state.dirty_blocks -= u64::from(dirty);
        state.disk.unreserve(u64::from(promises));
        if dirty > 0 && !chunk.is_dirty() {
            state.dirty_chunks.remove(&(id, p.chunk));
        }
        if !merge {
            set_page(state, id, p.chunk, slot, p.page);
        }
        state.touch_page(id, p.chunk, slot, bytes);
    }
}
