//! Ranges of cells that become zeros, or that cells are to reach: the pieces of a request, put
//! together per cell.
//!
//! A contiguous request touches one range of each cell, however many BSUs it spans; for the
//! canonical order and for a cell that range is worked out and not walked to, so that a hole of a
//! terabyte costs no more than one of a kilobyte.

use std::collections::BTreeMap;
use std::ops::Range;

use weft_layout::{CellIndex, OFFSET_MAX, Piece, Request, View};
use weft_proto::Failure;
use weft_proto::io::{ClearRangeReply, ClearRangeRequest, ExtendCellsReply, ExtendCellsRequest};
use weft_store::ForkKey;

use super::{IoService, Job};
use crate::failure;

/// Ranges handed to the store together.
const RANGES: usize = 1024;

impl IoService {
    pub(super) async fn clear_range(
        &self,
        request: ClearRangeRequest,
    ) -> Result<ClearRangeReply, Failure> {
        let (job, now) = (self.unbounded_job(&request.access)?.living()?, self.now());
        let _under_way = self.gates.enter(job.file).await;
        if let Some(ranges) = job.worked_out() {
            self.clear(&ranges, now).await?;
            return Ok(ClearRangeReply {});
        }
        let job = self.job(&request.access)?;
        let mut joined = Joined::default();
        let mut ranges: Vec<(ForkKey, Range<u64>)> = Vec::new();
        for piece in job.pieces()? {
            let done = joined.add(piece);
            ranges.extend(done.map(|p| job.range(&p)));
            if ranges.len() >= RANGES {
                self.clear(&std::mem::take(&mut ranges), now).await?;
            }
        }
        ranges.extend(joined.rest().map(|p| job.range(&p)));
        self.clear(&ranges, now).await?;
        Ok(ClearRangeReply {})
    }

    /// Makes cells as long as the request's pieces reach.
    pub(super) async fn extend_cells(
        &self,
        request: ExtendCellsRequest,
    ) -> Result<ExtendCellsReply, Failure> {
        let (job, now) = (self.unbounded_job(&request.access)?.living()?, self.now());
        let ranges = job.worked_out().ok_or_else(|| {
            failure::invalid("cells are extended in canonical order or one alone, contiguously")
        })?;
        let _under_way = self.gates.enter(job.file).await;
        self.may_grow(std::slice::from_ref(&job)).await?;
        for (key, range) in ranges {
            let extended = self.store.extend(&key, request.chunk, range.end, now);
            extended.await.map_err(|e| failure::of_store(&e))?;
        }
        Ok(ExtendCellsReply {})
    }

    pub(super) async fn clear(
        &self,
        ranges: &[(ForkKey, Range<u64>)],
        now: weft_store::Timestamp,
    ) -> Result<(), Failure> {
        for some in ranges.chunks(RANGES) {
            let cleared = self.store.clear(some, now).await;
            cleared.map_err(|e| failure::of_store(&e))?;
        }
        Ok(())
    }
}

impl Job {
    fn range(&self, piece: &Piece) -> (ForkKey, Range<u64>) {
        let start = piece.offset.0;
        (self.key(piece.cell), start..start + piece.length)
    }

    /// The first ranges of any request, put together as far as they continue each other.
    pub(super) fn first_ranges(&self) -> Result<Vec<(ForkKey, Range<u64>)>, Failure> {
        let mut joined = Joined::default();
        let mut ranges: Vec<(ForkKey, Range<u64>)> = Vec::new();
        for piece in self.pieces()? {
            ranges.extend(joined.add(piece).map(|p| self.range(&p)));
            if ranges.len() >= RANGES {
                return Ok(ranges);
            }
        }
        ranges.extend(joined.rest().map(|p| self.range(&p)));
        Ok(ranges)
    }

    /// The ranges of a contiguous request in the canonical order or of one cell, without a walk
    /// over its pieces.
    pub(super) fn worked_out(&self) -> Option<Vec<(ForkKey, Range<u64>)>> {
        let &Request::Contiguous { offset, length } = &self.request else {
            return None;
        };
        let end = offset.0.checked_add(length).filter(|e| *e <= OFFSET_MAX)?;
        let grid = self.map.grid();
        let own = grid.cells_on(self.slot);
        let ranges: Vec<_> = match *self.map.view() {
            View::Cell(cell) => {
                let here = own.into_iter().filter(|c| *c == cell);
                here.map(|c| (self.key(c), offset.0..end)).collect()
            }
            view if view == View::canonical() => {
                let range = |c| grid.cell_length(offset.0, c)..grid.cell_length(end, c);
                own.map(|c| (self.key(c), range(c))).collect()
            }
            _ => return None,
        };
        Some(ranges.into_iter().filter(|(_, r)| !r.is_empty()).collect())
    }
}

/// Puts pieces together that continue each other in their cell, whatever comes in between from
/// other cells.
#[derive(Default)]
struct Joined(BTreeMap<CellIndex, Piece>);

impl Joined {
    /// Takes the next piece; returns one that it does not continue.
    fn add(&mut self, piece: Piece) -> Option<Piece> {
        match self.0.get_mut(&piece.cell) {
            Some(last) if last.offset.0 + last.length == piece.offset.0 => {
                last.length += piece.length;
                None
            }
            Some(last) => Some(std::mem::replace(last, piece)),
            None => self.0.insert(piece.cell, piece),
        }
    }

    /// What is left.
    fn rest(self) -> impl Iterator<Item = Piece> {
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
            checkpoint: 0,
        }
    }

    /// The ranges as the pieces say.
    fn walked(job: &Job) -> Vec<(ForkKey, Range<u64>)> {
        let mut joined = Joined::default();
        for piece in job.pieces().unwrap() {
            assert_eq!(joined.add(piece), None);
        }
        joined.rest().map(|p| job.range(&p)).collect()
    }

    #[test]
    fn ranges_that_are_worked_out_are_those_that_the_pieces_make() {
        for slot in 0..2 {
            for offset in 0..120 {
                for length in [0, 1, 9, 10, 11, 50, 77, 200] {
                    for view in [View::canonical(), View::Cell(CellIndex(3))] {
                        let job = job(view, offset, length, slot);
                        assert_eq!(job.worked_out(), Some(walked(&job)));
                    }
                }
            }
        }
        let subfile = View::Subfile(Subfile {
            vbs: 1,
            vn: 2,
            hbs: 1,
            hn: 1,
            index: 0,
            order: Order::Default,
        });
        assert_eq!(job(subfile, 0, 10, 0).worked_out(), None);
    }
}
