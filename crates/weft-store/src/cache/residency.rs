//! The memory that the cache counts, and its evictions.
//!
//! Pages that were read or written as a whole are evicted first, in order (`docs/caching.md`); then
//! a clock's hand turns over pages and chunk entries. Dirty pages, and entries that the index does
//! not have yet, stay.

use std::collections::VecDeque;
use std::ops::Range;

use super::history::{AccessHistories, PrefetchBounds};
use crate::config::CacheRules;
use crate::forks::Forks;
use crate::limits::{QUEUES_PURGED_MIN, SCAN_INTERVAL, SCAN_MAX};
use crate::pages::{Chunk, Page, SLOT};
use crate::pool::BLOCK;
use crate::record::ForkId;

/// The clock's mark for a chunk's entry instead of a page.
const ENTRY: u32 = u32::MAX;

/// The pages and entries in memory, in order of eviction.
#[derive(Debug, Default)]
pub(crate) struct Residency {
    /// Bytes of pages and entries in memory.
    cached: u64,
    /// No eviction scans before the cache has this many bytes, because the last one found nothing.
    scan_at: u64,
    /// The hold queue, a clock: every page and entry.
    clock: VecDeque<(ForkId, u64, u32)>,
    /// The replace queue: pages of slots that were read or written as a whole. They go first.
    replace: VecDeque<(ForkId, u64, u32)>,
    rules: CacheRules,
    history: AccessHistories,
    prefetched_unused: u64,
    evictions: u64,
    /// Dead entries are dropped from the queues when these have so many entries together.
    purge_at: usize,
}

impl Residency {
    /// An empty cache with these rules.
    pub(crate) fn new(rules: CacheRules) -> Self {
        Self {
            rules,
            purge_at: QUEUES_PURGED_MIN,
            ..Self::default()
        }
    }

    /// Counts a chunk's entry in the cache after it was loaded or grew.
    pub(crate) fn count_entry(&mut self, forks: &mut Forks, id: ForkId, n: u64) {
        let Some(chunk) = forks.chunk_mut(id, n) else {
            return;
        };
        let (before, now) = chunk.recount();
        if before == 0 {
            self.clock.push_back((id, n, ENTRY));
        }
        self.cached = self.cached + now - before;
    }

    /// Bytes accessed after which a page is evicted first.
    pub(crate) fn held_below(&self) -> u32 {
        if self.rules.hold {
            SLOT as u32
        } else {
            u32::MAX
        }
    }

    /// Bytes of a slot were written: see [`Page::touch`].
    pub(crate) fn touch_page(
        &mut self,
        forks: &mut Forks,
        id: ForkId,
        n: u64,
        slot: usize,
        bytes: u32,
    ) {
        let held = self.held_below();
        let chunk = forks.chunk_mut(id, n);
        let page = chunk.and_then(|c| c.page_mut(slot));
        if page.is_some_and(|page| page.touch(bytes, held)) {
            self.replace.push_back((id, n, slot as u32));
        }
    }

    /// Evicts pages of the replace queue until `limit` holds.
    fn evict_spent(&mut self, forks: &mut Forks, limit: u64, most: usize) {
        if self.replace.len() as u64 > self.cached / BLOCK as u64 + 1024 {
            // Drop queue entries whose pages are gone.
            self.replace.retain(|(id, n, slot)| {
                let chunk = forks.chunk(*id, *n);
                let page = chunk.and_then(|c| c.page(*slot as usize));
                page.is_some_and(Page::is_listed)
            });
        }
        let mut left = most.min(self.replace.len());
        while self.cached > limit && left > 0 {
            left -= 1;
            let Some((id, n, slot)) = self.replace.pop_front() else {
                return;
            };
            let Some(chunk) = forks.chunk_mut(id, n) else {
                continue;
            };
            match chunk.page_mut(slot as usize) {
                Some(page) if page.is_evict_first() && page.is_dirty() => {
                    self.replace.push_back((id, n, slot));
                }
                Some(page) if page.is_evict_first() => {
                    self.drop_page(chunk, slot);
                    left = most.min(self.replace.len());
                }
                // It was touched again and is held.
                Some(page) => page.unlist(),
                None => {}
            }
        }
    }

    /// Evicts clean pages, and entries that the index has, until `limit` holds.
    ///
    /// Cost: scans at most [`SCAN_MAX`] in a row that must stay, and as many more for each
    /// [`SCAN_INTERVAL`] by which the cache grew since the last scan without success; the next call
    /// continues there. So the hand turns faster than the clock grows, however large a batch is.
    pub(crate) fn evict(&mut self, forks: &mut Forks, limit: u64) {
        if self.cached <= limit {
            self.scan_at = 0;
            return;
        }
        if self.cached < self.scan_at {
            return;
        }
        let scanned_at = self.scan_at.saturating_sub(SCAN_INTERVAL).max(limit);
        let grown = self.cached.saturating_sub(scanned_at);
        let most = SCAN_MAX.max((grown / SCAN_INTERVAL) as usize * SCAN_MAX);
        self.evict_spent(forks, limit, most);
        self.turn_clock(forks, limit, most);
        self.scan_at = if self.cached > limit {
            self.cached + SCAN_INTERVAL
        } else {
            0
        };
    }

    /// Pages or entries that had to stay can be evicted now: the next eviction scans.
    pub(crate) fn scan_again(&mut self) {
        self.scan_at = 0;
    }

    /// Evicts everything that can be evicted.
    pub(crate) fn evict_all(&mut self, forks: &mut Forks) {
        self.scan_again();
        self.evict_spent(forks, 0, self.replace.len());
        // The hand passes twice: once to clear the mark of use, once to evict.
        self.turn_clock(forks, 0, self.clock.len() * 2);
    }

    fn turn_clock(&mut self, forks: &mut Forks, limit: u64, most: usize) {
        let mut left = most.min(self.clock.len() * 2);
        while self.cached > limit && left > 0 {
            left -= 1;
            let Some((id, n, slot)) = self.clock.pop_front() else {
                return;
            };
            let Some(chunk) = forks.chunk_mut(id, n) else {
                continue;
            };
            if slot == ENTRY {
                if chunk.is_indexed() && !chunk.has_pages() {
                    self.cached -= chunk.counted_bytes();
                    forks.drop_chunk(id, n);
                    self.evictions += 1;
                    left = most;
                } else {
                    self.clock.push_back((id, n, slot));
                }
                continue;
            }
            match chunk.page_mut(slot as usize) {
                Some(page) if page.is_dirty() || page.is_used() => {
                    // Clearing a mark of use is progress.
                    left += usize::from(page.is_used() && !page.is_dirty());
                    page.clear_used();
                    self.clock.push_back((id, n, slot));
                }
                Some(_) => {
                    self.drop_page(chunk, slot);
                    left = most;
                }
                None => {}
            }
        }
    }

    fn drop_page(&mut self, chunk: &mut Chunk, slot: u32) {
        if let Some(page) = chunk.take_page(slot as usize) {
            self.cached -= page.bytes();
            self.prefetched_unused += u64::from(page.prefetched_unread());
        }
    }

    /// Puts a page into a slot and counts it.
    pub(crate) fn set_page(
        &mut self,
        forks: &mut Forks,
        id: ForkId,
        n: u64,
        slot: usize,
        mut page: Page,
    ) {
        let Some(chunk) = forks.chunk_mut(id, n) else {
            return;
        };
        let before = chunk.take_page(slot);
        if page.take_slot(before.as_ref()) {
            self.clock.push_back((id, n, slot as u32));
        }
        self.cached = self.cached + page.bytes() - before.map_or(0, |page| page.bytes());
        chunk.insert_page(slot, page);
    }

    /// Drops the clean pages of a chunk, and makes its dirty ones the first to be evicted.
    pub(crate) fn discard(&mut self, forks: &mut Forks, id: ForkId, n: u64) {
        let Some(chunk) = forks.chunk_mut(id, n) else {
            return;
        };
        let mut clean = Vec::new();
        for (slot, page) in chunk.pages_mut() {
            if !page.is_dirty() {
                clean.push(slot);
            } else if page.mark_evict_first() {
                self.replace.push_back((id, n, slot));
            }
        }
        for slot in clean {
            self.drop_page(chunk, slot);
        }
        // Below the limit no eviction drops what is left in the queues.
        if self.clock.len() + self.replace.len() > self.purge_at {
            self.purge(forks);
        }
    }

    /// Drops queue entries whose pages or chunks are gone.
    fn purge(&mut self, forks: &Forks) {
        let page = |id: &ForkId, n: &u64, slot: &u32| {
            let chunk = forks.chunk(*id, *n)?;
            chunk.page(*slot as usize)
        };
        self.replace
            .retain(|(id, n, slot)| page(id, n, slot).is_some_and(Page::is_listed));
        self.clock.retain(|(id, n, slot)| {
            if *slot == ENTRY {
                forks.chunk(*id, *n).is_some()
            } else {
                page(id, n, slot).is_some()
            }
        });
        self.purge_at = 2 * (self.clock.len() + self.replace.len()) + QUEUES_PURGED_MIN;
    }

    /// The page of a slot is spent: it is among the first to be evicted.
    pub(crate) fn mark_evict_first(&mut self, id: ForkId, n: u64, slot: usize) {
        self.replace.push_back((id, n, slot as u32));
    }

    /// A page in memory changed its size.
    pub(crate) fn resized(&mut self, before: u64, after: u64) {
        self.cached = self.cached + after - before;
    }

    /// Pages and entries of this many bytes were dropped outside of an eviction.
    pub(crate) fn uncount(&mut self, bytes: u64) {
        self.cached -= bytes;
    }

    /// Entries were dropped outside of an eviction: entries loaded from the index meanwhile must
    /// not be used.
    pub(crate) fn entries_removed(&mut self) {
        self.evictions += 1;
    }

    /// Counts evicted entries, so that a load from the index can tell that an eviction overtook it.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Blocks that were prefetched and evicted unread.
    pub(crate) fn prefetched_unused(&self) -> u64 {
        self.prefetched_unused
    }

    /// Records a read of slots and returns the slots to prefetch. `reach` computes the bounds from
    /// the number of forks that are read sequentially.
    pub(crate) fn predict(
        &mut self,
        id: ForkId,
        slots: Range<u64>,
        reach: impl FnOnce(u64) -> PrefetchBounds,
    ) -> Option<Range<u64>> {
        let reach = reach(self.history.sequential_forks());
        self.history.read(id, slots, reach)
    }
}
