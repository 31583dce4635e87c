//! The bytes that an operation claims.

use std::collections::BTreeMap;
use std::ops::Range;

use weft_layout::{CellIndex, StridedPieces};
use weft_store::ForkName;

use crate::limits::CLAIM_SPANS;

/// Pieces of equal length at equal distances in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    offset: u64,
    length: u64,
    count: u64,
    stride: u64,
}

impl Span {
    fn end(&self) -> u64 {
        self.offset + (self.count - 1) * self.stride + self.length
    }

    /// The bytes from the first to the last.
    fn hull(&self, other: &Span) -> Span {
        let offset = self.offset.min(other.offset);
        let length = self.end().max(other.end()) - offset;
        Span {
            offset,
            length,
            count: 1,
            stride: length,
        }
    }

    /// Whether the bytes from `offset` to `end` touch a piece.
    fn touches(&self, offset: u64, end: u64) -> bool {
        if end <= self.offset || self.end() <= offset {
            return false;
        }
        let from = offset.max(self.offset) - self.offset;
        let piece = from / self.stride;
        // In a piece, or from a gap into the next piece.
        from % self.stride < self.length
            || piece + 1 < self.count && self.offset + (piece + 1) * self.stride < end
    }

    /// Whether two spans share a byte; may say so of spans with different strides that do not.
    fn overlaps(&self, other: &Span) -> bool {
        if other.count == 1 {
            return self.touches(other.offset, other.end());
        }
        if self.count == 1 {
            return other.touches(self.offset, self.end());
        }
        if self.end() <= other.offset || other.end() <= self.offset {
            return false;
        }
        if self.stride != other.stride {
            return true;
        }
        let stride = i128::from(self.stride);
        let apart = i128::from(other.offset) - i128::from(self.offset);
        let apart = apart.rem_euclid(stride) as u64;
        apart < self.length || self.stride - apart < other.length
    }
}

/// Bytes of a file on this server.
#[derive(Clone, Debug)]
pub(in crate::io) enum Extents {
    /// All bytes of all forks.
    Whole,
    /// Bytes of one fork.
    Some(ForkExtents),
}

/// Bytes of one fork in some cells: at most [`CLAIM_SPANS`] spans in each.
#[derive(Clone, Debug)]
pub(in crate::io) struct ForkExtents {
    fork: ForkName,
    cells: BTreeMap<CellIndex, Vec<Span>>,
}

impl ForkExtents {
    /// No bytes yet.
    pub(in crate::io) fn new(fork: ForkName) -> ForkExtents {
        let cells = BTreeMap::new();
        ForkExtents { fork, cells }
    }

    /// Adds pieces. If there are too many, neighbours are joined with the bytes between them.
    pub(in crate::io) fn add(&mut self, pieces: &StridedPieces) {
        let contiguous = pieces.count == 1 || pieces.stride == pieces.length;
        let mut span = Span {
            offset: pieces.offset.0,
            length: pieces.length,
            count: pieces.count,
            stride: pieces.stride.max(pieces.length),
        };
        if contiguous {
            span.length *= span.count;
            (span.count, span.stride) = (1, span.length);
        }
        let spans = self.cells.entry(pieces.cell).or_default();
        if let Some(last) = spans.last_mut()
            && last.count == 1
            && span.count == 1
            && last.end() == span.offset
        {
            *last = last.hull(&span);
            return;
        }
        spans.push(span);
        if spans.len() > 2 * CLAIM_SPANS {
            coarsen(spans);
        }
    }

    /// The fork.
    pub(in crate::io) fn fork(&self) -> &ForkName {
        &self.fork
    }

    /// Ranges of each cell that hold all the bytes, ascending; they may hold others, too.
    pub(in crate::io) fn ranges(&self) -> impl Iterator<Item = (CellIndex, Vec<Range<u64>>)> {
        self.cells.iter().map(|(cell, spans)| {
            let mut spans: Vec<_> = spans.iter().map(|span| span.offset..span.end()).collect();
            spans.sort_unstable_by_key(|span| span.start);
            let mut ranges: Vec<Range<u64>> = Vec::with_capacity(spans.len());
            for span in spans {
                match ranges.last_mut() {
                    Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                    _ => ranges.push(span),
                }
            }
            (*cell, ranges)
        })
    }

    fn overlaps(&self, other: &ForkExtents) -> bool {
        self.fork == other.fork
            && self.cells.iter().any(|(cell, spans)| {
                let others = other.cells.get(cell).map_or(&[][..], Vec::as_slice);
                let overlaps = |span: &Span| others.iter().any(|other| span.overlaps(other));
                spans.iter().any(overlaps)
            })
    }
}

/// Joins each two neighbours.
fn coarsen(spans: &mut Vec<Span>) {
    spans.sort_unstable_by_key(|span| span.offset);
    let joined = spans.chunks(2).map(|pair| match pair {
        [one, other] => one.hull(other),
        one => one[0],
    });
    *spans = joined.collect();
}

impl Extents {
    /// Whether two operations touch a byte that both have.
    pub(super) fn overlaps(&self, other: &Extents) -> bool {
        match (self, other) {
            (Extents::Some(one), Extents::Some(another)) => one.overlaps(another),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::CellOffset;

    fn span(offset: u64, length: u64, count: u64, stride: u64) -> Span {
        Span {
            offset,
            length,
            count,
            stride,
        }
    }

    fn bytes(span: &Span) -> Vec<u64> {
        let starts = (0..span.count).map(|n| span.offset + n * span.stride);
        starts.flat_map(|at| at..at + span.length).collect()
    }

    #[test]
    fn spans_that_share_a_byte_overlap_and_spans_of_one_stride_only_then() {
        let mut spans = Vec::new();
        for offset in 0..9 {
            for (length, count, stride) in [(1, 1, 1), (3, 1, 3), (2, 3, 5), (1, 4, 4), (4, 2, 5)] {
                spans.push(span(offset, length, count, stride));
            }
        }
        for a in &spans {
            for b in &spans {
                let theirs = bytes(b);
                let shared = bytes(a).iter().any(|byte| theirs.contains(byte));
                assert!(a.overlaps(b) || !shared, "{a:?} {b:?}");
                let exact = a.count == 1 || b.count == 1;
                assert!(shared || !a.overlaps(b) || !exact, "{a:?} {b:?}");
            }
        }
        // Records of two writers, interleaved without end.
        let (even, odd) = (span(0, 64, 1000, 128), span(64, 64, 1000, 128));
        assert!(!even.overlaps(&odd) && even.overlaps(&even));
    }

    #[test]
    fn many_spans_are_joined_and_lose_no_byte() {
        let of = |offset| StridedPieces {
            cell: CellIndex(3),
            offset: CellOffset(offset),
            length: 1,
            memory: 0,
            count: 1,
            stride: 1,
            memory_stride: 0,
        };
        let mut many = ForkExtents::new(ForkName::data());
        for n in 0..10_000_u64 {
            many.add(&of(n * 7919 % 10_007 * 10));
        }
        assert!(many.cells[&CellIndex(3)].len() <= 2 * CLAIM_SPANS);
        for n in 0..10_000_u64 {
            let mut one = ForkExtents::new(ForkName::data());
            one.add(&of(n * 7919 % 10_007 * 10));
            assert!(many.overlaps(&one));
        }
    }
}
