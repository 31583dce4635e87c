//! One chunk in memory: the places of its blocks, and its cached or dirty pages.
//!
//! A *slot* is 16 blocks of the chunk; its page is a buffer of 1, 4 or 16 blocks that grows to
//! cover what is cached, so that a cold read of one block costs one block of memory. Readers and
//! writes in flight share buffers: a shared page is copied before it changes, so no reader ever
//! sees a buffer change.

use std::ops::Range;

use super::page::{Page, bit, slot_of};
use crate::pool::BUFFER_BLOCKS_MAX;
use crate::record::{Place, RunRecord, RunsRecord};

/// A chunk's entry differs from the index.
const CHANGED: u8 = 1;
/// A chunk's entry is on its way to the index.
const APPLYING: u8 = 2;

/// One chunk of one fork.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    places: Vec<Place>,
    crcs: Vec<u32>,
    /// Which places belong to a fork that this one derives from; empty: none.
    inherited: Vec<bool>,
    /// Some of its places may be lost.
    lacks: bool,
    /// The fork has no entry of this chunk: its parent's shows.
    through: bool,
    pages: Vec<Option<Page>>,
    /// [`CHANGED`] and [`APPLYING`]; the chunk is evicted only at 0.
    marks: u8,
    /// Memory counted for it in the cache.
    cost: u64,
}

/// What dropping blocks from pages released.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forgotten {
    /// Bytes of memory.
    pub(crate) bytes: u64,
    /// Dirty blocks.
    pub(crate) dirty: u32,
    /// Promises of the allocator for them.
    pub(crate) promises: u32,
}

impl Chunk {
    /// The chunk of a stored entry.
    pub(crate) fn from_runs(runs: &RunsRecord) -> Self {
        let mut chunk = Self::default();
        let mut crcs = runs.crcs.iter();
        for run in &runs.runs {
            for i in 0..run.blocks {
                let crc = *crcs.next().expect("the decoder counted the checksums");
                chunk.set(run.first + i, run.place.plus(i), crc);
                if run.inherited {
                    chunk.inherit(run.first + i, true);
                }
            }
        }
        chunk
    }

    /// The entry to be stored.
    pub(crate) fn to_runs(&self) -> RunsRecord {
        let mut out = RunsRecord::default();
        for (block, (&place, &crc)) in (0_u32..).zip(self.places.iter().zip(&self.crcs)) {
            if place == Place::NONE {
                continue;
            }
            push_block(&mut out, block, place, crc, self.is_inherited(block));
        }
        out
    }

    /// A chunk without a stored entry.
    pub(crate) fn absent(through: bool) -> Self {
        Self {
            through,
            ..Self::default()
        }
    }

    /// The chunk of a fork that derives from this one's: all blocks, all inherited.
    pub(crate) fn derived(&self) -> Self {
        Self {
            places: self.places.clone(),
            crcs: self.crcs.clone(),
            inherited: self.places.iter().map(|p| *p != Place::NONE).collect(),
            lacks: self.lacks,
            ..Self::default()
        }
    }

    /// Gives all places away as they are; then the chunk is empty, or `through`: its parent's
    /// shows.
    pub(crate) fn give_places(&mut self, through: bool) -> Self {
        self.through = through;
        self.marks |= CHANGED;
        Self {
            places: std::mem::take(&mut self.places),
            crcs: std::mem::take(&mut self.crcs),
            inherited: std::mem::take(&mut self.inherited),
            lacks: self.lacks,
            ..Self::default()
        }
    }

    /// Takes over places that another chunk gave.
    pub(crate) fn set_places(&mut self, given: Self) {
        self.places = given.places;
        self.crcs = given.crcs;
        self.inherited = given.inherited;
        self.lacks = given.lacks;
        self.through = false;
    }

    /// Whether a block's place belongs to another fork.
    pub(crate) fn is_inherited(&self, block: u32) -> bool {
        self.inherited.get(block as usize).copied().unwrap_or(false)
    }

    /// Sets whether a block's place belongs to another fork.
    pub(crate) fn inherit(&mut self, block: u32, inherited: bool) {
        let at = block as usize;
        if at >= self.inherited.len() && inherited {
            self.inherited.resize(at + 1, false);
        }
        if let Some(mark) = self.inherited.get_mut(at) {
            *mark = inherited;
        }
    }

    /// The place of a block, and its checksum.
    pub(crate) fn place(&self, block: u32) -> Option<(Place, u32)> {
        let place = *self.places.get(block as usize)?;
        (place != Place::NONE).then(|| (place, self.crcs[block as usize]))
    }

    /// Sets the place of a block, which the fork owns from now on; returns the old place, if there
    /// was one, and whether it was inherited.
    pub(crate) fn set(&mut self, block: u32, place: Place, crc: u32) -> Option<(Place, bool)> {
        let at = block as usize;
        let inherited = self.is_inherited(block);
        self.inherit(block, false);
        self.lacks |= place.is_lost();
        if at >= self.places.len() {
            self.places.resize(at + 1, Place::NONE);
            self.crcs.resize(at + 1, 0);
        }
        self.crcs[at] = crc;
        let old = std::mem::replace(&mut self.places[at], place);
        (old != Place::NONE).then_some((old, inherited))
    }

    /// Makes holes of blocks; calls `freed` with each place and whether it was inherited.
    pub(crate) fn empty(&mut self, blocks: Range<u32>, mut freed: impl FnMut(Place, bool)) {
        let count = self.places.len();
        let (first, end) = (blocks.start as usize, (blocks.end as usize).min(count));
        if first >= end {
            return;
        }
        for at in first..end {
            let place = std::mem::replace(&mut self.places[at], Place::NONE);
            if place != Place::NONE {
                freed(place, self.is_inherited(at as u32));
                self.inherit(at as u32, false);
            }
        }
        if end == count {
            self.places.truncate(first);
            self.crcs.truncate(first);
        }
    }

    /// Blocks that are lost, ascending.
    pub(crate) fn lost(&self) -> impl Iterator<Item = u32> + '_ {
        let count = if self.lacks { self.places.len() } else { 0 };
        let blocks = (0_u32..).zip(self.places[..count].iter());
        let lost = blocks.filter(|(_, place)| **place != Place::NONE && place.is_lost());
        lost.map(|(block, _)| block)
    }

    /// Whether any block is coded.
    pub(crate) fn has_coded(&self) -> bool {
        let mut placed = self.places.iter().filter(|place| **place != Place::NONE);
        placed.any(|place| place.is_coded())
    }

    /// Whether any block may be lost.
    pub(crate) fn may_have_lost(&self) -> bool {
        self.lacks
    }

    /// Every block that the fork owns, with its place.
    pub(crate) fn owned_blocks(&self) -> impl Iterator<Item = (u32, Place)> + '_ {
        let blocks = (0_u32..).zip(self.places.iter().copied());
        blocks.filter(|(block, place)| *place != Place::NONE && !self.is_inherited(*block))
    }

    /// The places of the blocks that the fork owns.
    pub(crate) fn owned_places(&self) -> impl Iterator<Item = Place> + '_ {
        self.owned_blocks().map(|(_, place)| place)
    }

    /// Whether the fork has no entry of this chunk, and its parent's shows.
    pub(crate) fn shows_parent(&self) -> bool {
        self.through
    }

    /// The fork has its own entry from now on, and the parent's does not show.
    pub(crate) fn hide_parent(&mut self) {
        self.through = false;
    }
}

/// The entry's way to the index, and its share of the cache.
impl Chunk {
    /// The entry differs from the index.
    pub(crate) fn mark_changed(&mut self) {
        self.marks |= CHANGED;
    }

    /// An application of the log copies the entry: the chunk stays in memory until it ends.
    pub(crate) fn begin_application(&mut self) {
        self.marks = (self.marks & !CHANGED) | APPLYING;
    }

    /// The index has the entry as it was copied.
    pub(crate) fn end_application(&mut self) {
        self.marks &= !APPLYING;
    }

    /// Whether the index has the entry as it is.
    pub(crate) fn is_indexed(&self) -> bool {
        self.marks == 0
    }

    /// Memory of the entry that the cache has counted; 0: the cache does not know the chunk.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.cost
    }

    /// Counts the memory of the entry anew; returns what was counted before, and what is now.
    pub(crate) fn recount(&mut self) -> (u64, u64) {
        let now = self.entry_bytes();
        (std::mem::replace(&mut self.cost, now), now)
    }
}

/// Its pages.
impl Chunk {
    /// The pages in memory.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &Page> {
        self.pages.iter().flatten()
    }

    /// The pages in memory with their slots, to be changed.
    pub(crate) fn pages_mut(&mut self) -> impl Iterator<Item = (u32, &mut Page)> {
        let slots = (0_u32..).zip(&mut self.pages);
        slots.filter_map(|(slot, page)| Some((slot, page.as_mut()?)))
    }

    /// Whether any page is in memory.
    pub(crate) fn has_pages(&self) -> bool {
        self.pages().next().is_some()
    }

    /// The page that holds a block, where the block is valid.
    pub(crate) fn valid_page(&self, block: u32) -> Option<&Page> {
        self.page(slot_of(block)).filter(|page| page.has(block))
    }

    /// The checksum that a valid block's bytes must have.
    pub(crate) fn sum(&self, block: u32) -> u32 {
        match self.valid_page(block) {
            Some(page) if page.block_is_dirty(block) => page.sum(block),
            _ => self.place(block).map_or(0, |(_, crc)| crc),
        }
    }

    /// Whether zeroing a part of a block dirties it anew.
    pub(crate) fn needs_promise(&self, block: u32) -> bool {
        match self.valid_page(block) {
            Some(page) => page.promised() & bit(block) == 0,
            None => self.place(block).is_some(),
        }
    }

    /// The slot's page.
    pub(crate) fn page(&self, slot: usize) -> Option<&Page> {
        self.pages.get(slot)?.as_ref()
    }

    /// The slot's page, to be changed.
    pub(crate) fn page_mut(&mut self, slot: usize) -> Option<&mut Page> {
        self.pages.get_mut(slot)?.as_mut()
    }

    /// Takes the slot's page out.
    pub(crate) fn take_page(&mut self, slot: usize) -> Option<Page> {
        self.pages.get_mut(slot)?.take()
    }

    /// Takes all pages out.
    pub(crate) fn take_pages(&mut self) -> impl Iterator<Item = Page> + use<> {
        std::mem::take(&mut self.pages).into_iter().flatten()
    }

    /// Puts a page into a slot; returns the one that was there.
    pub(crate) fn insert_page(&mut self, slot: usize, page: Page) -> Option<Page> {
        if slot >= self.pages.len() {
            if slot == 0 {
                // Small chunks have one slot, and there are many of them.
                self.pages.reserve_exact(1);
            }
            self.pages.resize_with(slot + 1, || None);
        }
        self.pages[slot].replace(page)
    }

    /// Drops the pages' copies of some blocks, dirty or not, and pages that have no other.
    pub(crate) fn forget_blocks(&mut self, blocks: &Range<u32>) -> Forgotten {
        let mut gone = Forgotten::default();
        for (slot, place) in (0_u32..).zip(&mut self.pages) {
            let first = slot * 16;
            let mask = below(blocks.end.saturating_sub(first))
                & !below(blocks.start.saturating_sub(first));
            if mask == 0 {
                continue;
            }
            let Some(page) = place else { continue };
            gone.dirty += (page.dirty() & mask).count_ones();
            gone.promises += page.forget(mask);
            if page.valid() == 0 {
                gone.bytes += page.bytes();
                *place = None;
            }
        }
        gone
    }

    /// How many of some blocks are dirty and have no place.
    pub(crate) fn unplaced(&self, wanted: &Range<u32>) -> u64 {
        let mut count = 0;
        for (slot, page) in (0_u32..).zip(&self.pages) {
            let Some(page) = page.as_ref().filter(|p| p.is_dirty()) else {
                continue;
            };
            let blocks = (slot * 16..slot * 16 + 16)
                .filter(|b| wanted.contains(b) && page.block_is_dirty(*b));
            count += blocks.filter(|b| self.place(*b).is_none()).count() as u64;
        }
        count
    }

    /// Whether a block is dirty.
    pub(crate) fn block_is_dirty(&self, block: u32) -> bool {
        self.pages
            .get(slot_of(block))
            .and_then(Option::as_ref)
            .is_some_and(|p| p.block_is_dirty(block))
    }

    /// The blocks with data, on the disk or dirty in memory, ascending.
    pub(crate) fn data_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let blocks = self.places.len().max(self.pages.len() * BUFFER_BLOCKS_MAX);
        (0..blocks as u32).filter(|b| self.place(*b).is_some() || self.block_is_dirty(*b))
    }

    /// Whether any page is dirty.
    pub(crate) fn is_dirty(&self) -> bool {
        self.pages().any(Page::is_dirty)
    }

    /// Memory of the entry without its pages.
    fn entry_bytes(&self) -> u64 {
        (256 + self.places.capacity() * 12
            + self.inherited.capacity()
            + self.pages.capacity() * size_of::<Option<Page>>()) as u64
    }
}

/// The mask of a slot's first `blocks` blocks.
fn below(blocks: u32) -> u16 {
    if blocks >= 16 {
        u16::MAX
    } else {
        (1 << blocks) - 1
    }
}

/// Adds a block to runs; extends the last run if the block continues it.
pub(crate) fn push_block(
    out: &mut RunsRecord,
    block: u32,
    place: Place,
    crc: u32,
    inherited: bool,
) {
    match out.runs.last_mut() {
        Some(run)
            if run.first + run.blocks == block
                && run.place.plus(run.blocks) == place
                && run.inherited == inherited =>
        {
            run.blocks += 1;
        }
        _ => out.runs.push(RunRecord {
            first: block,
            blocks: 1,
            place,
            inherited,
        }),
    }
    out.crcs.push(crc);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pool::{BLOCK, Pool};

    #[test]
    fn an_entry_round_trips_through_its_encoding() {
        let mut chunk = Chunk::default();
        for (block, place) in [(0, 10), (1, 11), (2, 20), (9, 21), (10, 22)] {
            chunk.set(block, Place(place), block * 7);
        }
        let runs = chunk.to_runs();
        assert_eq!(runs.runs.len(), 3);
        assert_eq!(Chunk::from_runs(&runs).to_runs(), runs);
        let mut derived = Chunk::from_runs(&runs).derived();
        assert_eq!(derived.owned_places().count(), 0);
        assert_eq!(derived.set(1, Place(30), 5), Some((Place(11), true)));
        assert_eq!(derived.set(1, Place(31), 5), Some((Place(30), false)));
        let own: Vec<_> = derived.owned_blocks().collect();
        assert_eq!(own, [(1, Place(31))]);
        let runs = derived.to_runs();
        assert_eq!(runs.runs.len(), 4);
        assert_eq!(Chunk::from_runs(&runs).to_runs(), runs);
    }

    #[test]
    fn a_shared_page_is_copied_before_it_changes() {
        let pool = Pool::new();
        let mut page = Page::covering(&pool, 3, 3);
        page.copy_block(&pool, 3, &[1; BLOCK]);
        let reader = Arc::clone(page.buffer());
        page.block_mut(&pool, 3)[0] = 2;
        assert_eq!(reader[0], 1);
        page.copy_block(&pool, 14, &[9; BLOCK]);
        assert_eq!(page.buffer()[page.at(3)], 2);
        assert_eq!(page.bytes(), 16 * BLOCK as u64);
    }
}
