//! Blocks and pages of forks: placed, emptied, removed. Touches forks, allocator and cache at once.

use std::ops::Range;

use crate::cache::Chunk;
use crate::record::Place;
use crate::space::Extent;

/// The block at a place.
pub(crate) fn extent(place: Place) -> Extent {
    Extent {
        start: place.0,
        blocks: 1,
    }
}

/// Drops what a chunk's pages have of some blocks: bytes of memory, dirty blocks and promises that
/// went with them.
pub(super) fn forget_pages(chunk: &mut Chunk, blocks: &Range<u32>) -> (u64, u32, u32) {
    let (mut cached, mut dirty, mut promises) = (0, 0, 0);
    for (slot, place) in (0_u32..).zip(&mut chunk.pages) {
        let first = slot * 16;
        let mask =
            below(blocks.end.saturating_sub(first)) & !below(blocks.start.saturating_sub(first));
        if mask == 0 {
            continue;
        }
        let Some(page) = place else { continue };
        dirty += (page.dirty & mask).count_ones();
        promises += page.forget(mask);
        if page.valid == 0 {
            cached += page.bytes();
            *place = None;
        }
    }
    (cached, dirty, promises)
}

/// The mask of a slot's first `blocks` blocks.
fn below(blocks: u32) -> u16 {
    if blocks >= 16 {
        u16::MAX
    } else {
        (1 << blocks) - 1
    }
}
