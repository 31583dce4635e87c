//! The byte ranges of each cell that a request touches.
//!
//! A contiguous request touches one range of each cell, however many BSUs it spans. For the
//! canonical order and for a single cell that range is computed without a walk, so a hole of a
//! terabyte costs no more than one of a kilobyte.

use std::collections::BTreeMap;
use std::ops::Range;

use weft_layout::{CellIndex, OFFSET_MAX, Piece, Request, View};
use weft_proto::Failure;
use weft_store::ForkKey;

use super::Job;
use crate::limits::CLEAR_BATCH_RANGES;

impl Job {
    pub(in crate::io) fn range(&self, piece: &Piece) -> (ForkKey, Range<u64>) {
        let start = piece.offset.0;
        (self.key(piece.cell), start..start + piece.length)
    }

    /// The first ranges of any request, adjacent ones joined.
    pub(in crate::io) fn first_ranges(&self) -> Result<Vec<(ForkKey, Range<u64>)>, Failure> {
        let mut joined = JoinedPieces::default();
        let mut ranges: Vec<(ForkKey, Range<u64>)> = Vec::new();
        for piece in self.pieces()? {
            ranges.extend(joined.add(piece).map(|p| self.range(&p)));
            if ranges.len() >= CLEAR_BATCH_RANGES {
                return Ok(ranges);
            }
        }
        ranges.extend(joined.rest().map(|p| self.range(&p)));
        Ok(ranges)
    }

    /// The ranges of any request, adjacent ones joined; `None` if it has more pieces than this.
    pub(in crate::io) fn few_ranges(&self, most: usize) -> Option<Vec<(ForkKey, Range<u64>)>> {
        let mut joined = JoinedPieces::default();
        let mut ranges: Vec<(ForkKey, Range<u64>)> = Vec::new();
        let mut pieces = self.pieces().ok()?;
        for piece in pieces.by_ref().take(most) {
            ranges.extend(joined.add(piece).map(|p| self.range(&p)));
        }
        ranges.extend(joined.rest().map(|p| self.range(&p)));
        pieces.next().is_none().then_some(ranges)
    }

    /// The ranges of a contiguous request in canonical order or of one cell, computed without a
    /// walk over its pieces; `None` for other requests.
    pub(in crate::io) fn computed_ranges(&self) -> Option<Vec<(ForkKey, Range<u64>)>> {
        let &Request::Contiguous { offset, length } = &self.request else {
            return None;
        };
        let end = offset.0.checked_add(length).filter(|e| *e <= OFFSET_MAX)?;
        let grid = self.map.grid();
        let cells = grid.cells_on(self.slot);
        let ranges: Vec<_> = match *self.map.view() {
            View::Cell(cell) => {
                let here = cells.into_iter().filter(|c| *c == cell);
                here.map(|c| (self.key(c), offset.0..end)).collect()
            }
            view if view == View::canonical() => {
                let range = |c| grid.cell_length(offset.0, c)..grid.cell_length(end, c);
                cells.map(|c| (self.key(c), range(c))).collect()
            }
            _ => return None,
        };
        Some(ranges.into_iter().filter(|(_, r)| !r.is_empty()).collect())
    }

    /// The size in canonical order that the file has at least after this is written.
    pub(in crate::io) fn size_after(&self) -> Result<u64, Failure> {
        let grid = self.map.grid();
        let sizes = self.ends()?.into_iter();
        let sizes = sizes.map(|(cell, end)| grid.file_size(cell, end));
        Ok(sizes.max().unwrap_or(0))
    }

    /// The end of the touched bytes in each cell.
    pub(in crate::io) fn ends(&self) -> Result<BTreeMap<CellIndex, u64>, Failure> {
        let mut ends = BTreeMap::new();
        let mut note = |cell, end: u64| {
            let known = ends.entry(cell).or_insert(end);
            *known = end.max(*known);
        };
        if let Some(ranges) = self.computed_ranges() {
            for (key, range) in ranges {
                note(key.cell, range.end);
            }
        } else {
            for piece in self.pieces()? {
                note(piece.cell, piece.offset.0 + piece.length);
            }
        }
        Ok(ends)
    }
}

/// Joins pieces that are adjacent in their cell, whatever pieces of other cells come in between.
#[derive(Default)]
pub(in crate::io) struct JoinedPieces(BTreeMap<CellIndex, Piece>);

impl JoinedPieces {
    /// Adds a piece; returns the previous one of its cell if the two are not adjacent.
    pub(in crate::io) fn add(&mut self, piece: Piece) -> Option<Piece> {
        match self.0.get_mut(&piece.cell) {
            Some(last) if last.offset.0 + last.length == piece.offset.0 => {
                last.length += piece.length;
                None
            }
            Some(last) => Some(std::mem::replace(last, piece)),
            None => self.0.insert(piece.cell, piece),
        }
    }

    /// The pieces that were not returned yet.
    pub(in crate::io) fn rest(self) -> impl Iterator<Item = Piece> {
        self.0.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::{FileId, Grid, Map, Order, ServerSlot, Subfile, ViewOffset};
    use weft_store::ForkName;

    fn job(view: View, offset: u64, length: u64, slot: u32) -> Job {
        let grid = Grid::new(5, 10, 2).unwrap();
        let request = Request::Contiguous {
            offset: ViewOffset(offset),
            length,
        };
        Job {
            map: Map::new(grid, view).unwrap(),
            request,
            slot: ServerSlot(slot),
            file: FileId(1),
            fork: ForkName::data(),
            checkpoint: None,
        }
    }

    /// The ranges by a walk over the pieces.
    fn walked(job: &Job) -> Vec<(ForkKey, Range<u64>)> {
        let mut joined = JoinedPieces::default();
        for piece in job.pieces().unwrap() {
            assert_eq!(joined.add(piece), None);
        }
        joined.rest().map(|p| job.range(&p)).collect()
    }

    #[test]
    fn computed_ranges_equal_those_of_a_walk() {
        for slot in 0..2 {
            for offset in 0..120 {
                for length in [0, 1, 9, 10, 11, 50, 77, 200] {
                    for view in [View::canonical(), View::Cell(CellIndex(3))] {
                        let job = job(view, offset, length, slot);
                        assert_eq!(job.computed_ranges(), Some(walked(&job)));
                    }
                }
            }
        }
        let many = job(View::canonical(), 0, 200, 0);
        let pieces = many.pieces().unwrap().count();
        assert_eq!(many.few_ranges(pieces - 1), None);
        assert_eq!(many.few_ranges(pieces), Some(walked(&many)));
        let subfile = View::Subfile(Subfile {
            vbs: 1,
            vn: 2,
            hbs: 1,
            hn: 1,
            index: 0,
            order: Order::Default,
        });
        assert_eq!(job(subfile, 0, 10, 0).computed_ranges(), None);
    }
}
