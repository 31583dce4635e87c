//! The chunks and blocks that a range of a fork's bytes touches. Arithmetic only.

use std::ops::Range;

use crate::pool::BLOCK;

/// Consecutive bytes of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRange {
    pub(crate) chunk: u64,
    pub(crate) bytes: Range<u32>,
}

/// Splits a range of a fork at chunk boundaries.
pub(crate) fn by_chunk(size: u32, offset: u64, length: u64) -> impl Iterator<Item = ChunkRange> {
    let (size, end) = (u64::from(size), offset + length);
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let chunk = at / size;
            let stop = end.min((chunk + 1) * size);
            let bytes = (at - chunk * size) as u32..(stop - chunk * size) as u32;
            at = stop;
            ChunkRange { chunk, bytes }
        })
    })
}

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

/// Numbers of the chunks that a range touches.
pub(crate) fn numbers(size: u32, range: &Range<u64>) -> Range<u64> {
    range.start / u64::from(size)..range.end.div_ceil(u64::from(size))
}

/// The segment of a range in chunk `n`, which it touches.
pub(crate) fn within(size: u32, range: &Range<u64>, n: u64) -> ChunkRange {
    let origin = n * u64::from(size);
    let start = range.start.max(origin);
    let end = range.end.min(origin + u64::from(size));
    let mut touched = by_chunk(size, start, end - start);
    touched.next().expect("the range touches the chunk")
}

/// The bytes of a chunk's range outside of whole blocks, each range within one block.
pub(crate) fn edges(range: &ChunkRange, size: u32) -> impl Iterator<Item = Range<u32>> {
    let (whole, block) = (whole_blocks(range, size), BLOCK as u32);
    let bytes = range.bytes.clone();
    let (head, tail) = if whole.is_empty() {
        // Within one block, or on both sides of a boundary between two.
        let border = bytes.end.min((bytes.start / block + 1) * block);
        (bytes.start..border, border..bytes.end)
    } else {
        let end = (whole.end * block).min(bytes.end);
        (bytes.start..whole.start * block, end..bytes.end)
    };
    [head, tail].into_iter().filter(|part| !part.is_empty())
}

/// The block that a truncation from `old` to `length` divides.
pub(crate) fn edge(size: u32, old: u64, length: u64) -> Option<(u64, u32)> {
    if size == 0 || length >= old {
        return None;
    }
    let (n, inside) = (length / u64::from(size), length % u64::from(size));
    let divided = !inside.is_multiple_of(BLOCK as u64);
    divided.then_some((n, (inside / BLOCK as u64) as u32))
}

/// The end of a clear up to `end` in a fork of this length: bytes beyond the length are zeros, so
/// its last block is cleared as a whole.
pub(crate) fn up_to(end: u64, length: u64, size: u32) -> u64 {
    if end < length {
        return end;
    }
    let first = length / u64::from(size) * u64::from(size);
    let block_end = (length - first).next_multiple_of(BLOCK as u64);
    (first + block_end.min(u64::from(size))).min(weft_layout::OFFSET_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range of chunk 0 as a clear splits it: whole blocks, and ranges of other blocks.
    fn split(size: u32, range: Range<u64>) -> (Range<u32>, Vec<(u32, u32)>) {
        let touched = within(size, &range, 0);
        let edges = edges(&touched, size).map(|e| (e.start, e.end));
        (whole_blocks(&touched, size), edges.collect())
    }

    #[test]
    fn a_range_splits_into_whole_blocks_and_its_edges() {
        assert_eq!(split(65536, 0..65536), (0..16, vec![]));
        assert_eq!(split(65536, 10..20), (1..1, vec![(10, 20)]));
        let two = vec![(4000, 4096), (4096, 5000)];
        assert_eq!(split(65536, 4000..5000), (1..1, two));
        let apart = vec![(4000, 4096), (8192, 9000)];
        assert_eq!(split(65536, 4000..9000), (1..2, apart));
        assert_eq!(split(65536, 4096..8192), (1..2, vec![]));
        // The last block of an odd chunk is whole at the chunk's end.
        assert_eq!(split(5000, 10..5000), (1..2, vec![(10, 4096)]));
        let both = vec![(10, 4096), (4096, 4999)];
        assert_eq!(split(5000, 10..4999), (1..1, both));
    }

    #[test]
    fn clearing_to_the_end_of_a_fork_clears_its_last_block_whole() {
        assert_eq!(up_to(100, 1000, 65536), 100);
        assert_eq!(up_to(1000, 1000, 65536), 4096);
        assert_eq!(up_to(u64::MAX / 2, 70_000, 65536), 65536 + 8192);
        assert_eq!(up_to(9999, 4999, 5000), 5000);
        assert_eq!(up_to(9999, 8192, 65536), 8192);
    }
}
