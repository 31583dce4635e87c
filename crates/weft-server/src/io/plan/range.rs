//! Ranges of cells, and the one place that merges them.

use weft_layout::{CellIndex, Piece};

use crate::limits::READ_GAP_MAX;

/// Bytes of one cell that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) struct CellRange {
    pub(in crate::io) cell: CellIndex,
    pub(in crate::io) start: u64,
    pub(in crate::io) end: u64,
}

impl From<&Piece> for CellRange {
    fn from(piece: &Piece) -> CellRange {
        CellRange {
            cell: piece.cell,
            start: piece.offset.0,
            end: piece.offset.0 + piece.length,
        }
    }
}

/// Merges ranges that overlap or lie within [`READ_GAP_MAX`] of each other, as long as the result
/// has at most `longest` bytes. Input and output ascend by cell and start; the output is disjoint.
pub(in crate::io) fn merge(
    sorted: impl IntoIterator<Item = CellRange>,
    longest: u64,
) -> Vec<CellRange> {
    let mut ranges: Vec<CellRange> = Vec::new();
    for next in sorted {
        match ranges.last_mut() {
            Some(range)
                if range.cell == next.cell
                    && next.start <= range.end + READ_GAP_MAX
                    && (next.end <= range.end || next.end - range.start <= longest) =>
            {
                range.end = range.end.max(next.end);
            }
            _ => ranges.push(next),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(cell: u32, start: u64, end: u64) -> CellRange {
        CellRange {
            cell: CellIndex(cell),
            start,
            end,
        }
    }

    #[test]
    fn nearby_ranges_of_one_cell_are_merged_up_to_the_longest_range() {
        let far = 10 + READ_GAP_MAX;
        let sorted = [
            range(0, 0, 10),
            range(0, 5, 8),
            range(0, far, far + 1),
            range(0, 2 * far + 2, 2 * far + 3),
            range(1, 0, 1),
        ];
        let apart = [range(0, 2 * far + 2, 2 * far + 3), range(1, 0, 1)];
        let merged = merge(sorted, u64::MAX);
        assert_eq!(merged[0], range(0, 0, far + 1));
        assert_eq!(merged[1..], apart);
        let bounded = merge(sorted, far);
        assert_eq!(bounded[..2], [range(0, 0, 10), range(0, far, far + 1)]);
        assert_eq!(bounded[2..], apart);
    }
}
