//! Where a file has data, in canonical order: the servers' lists of their cells, merged.
//!
//! Invariants:
//! 1. Every byte that was data when its server was asked is in a range; ranges are ascending and
//!    disjoint.
//! 2. No range is returned beyond the place up to which every server has answered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use futures_util::future::try_join_all;
use weft_layout::{CellIndex, CellOffset, FileOffset, OFFSET_MAX, ServerSlot};
use weft_proto::io::{DataRun, DataRunsReply, DataRunsRequest, Grid};

use crate::volume::Repeat;
use crate::{Error, File};

/// Below this BSU, less than a server's block, ranges are made of whole rows of the grid: exact
/// ones would be many, and shorter than the request that fetches them.
const EXACT_BSU: u64 = 4096;

/// The ranges of a file that hold data, in ascending order; see [`File::data_ranges`].
pub struct DataRanges {
    file: File,
    hole: u64,
    /// Everything before was given out, or is a hole.
    at: u64,
    /// Where each server is to be asked from next; `None`: it has answered everything.
    next: Vec<Option<u64>>,
    /// Answered and not yet returned, by the place of the first byte.
    rest: BinaryHeap<Reverse<Rest>>,
}

/// The rest of a cell's run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rest {
    place: FileOffset,
    cell: CellIndex,
    start: u64,
    end: u64,
}

impl File {
    /// Where the `data` forks hold data at or after `from`, in canonical order. Local: no message.
    ///
    /// Holes are as exact as the servers' blocks of 4 KiB; those shorter than `hole` bytes may
    /// count as data, and so may the rest of a row of the grid where BSUs are smaller than a block.
    pub fn data_ranges(&self, from: FileOffset, hole: u64) -> DataRanges {
        let used = self.layout().servers_in_use().len();
        DataRanges {
            file: self.clone(),
            hole,
            at: from.0,
            next: vec![Some(from.0); used],
            rest: BinaryHeap::new(),
        }
    }
}

impl DataRanges {
    /// The next range of canonical bytes; `None` when there is no more data. Two ranges that touch
    /// are possible.
    ///
    /// Cost: one request to each server for about 1,024 of its chunks with data, however far apart
    /// they are.
    /// # Errors
    /// After an error the next call asks the same again.
    /// # Cancellation
    /// Dropped, nothing is skipped.
    pub async fn next(&mut self) -> Result<Option<Range<u64>>, Error> {
        loop {
            let known_to = self.next.iter().flatten().min().copied();
            if let Some(range) = self.merge(known_to.unwrap_or(OFFSET_MAX)) {
                self.at = range.end;
                return Ok(Some(range));
            }
            let Some(known_to) = known_to else {
                return Ok(None);
            };
            self.file.commit().await?;
            self.ask(known_to).await?;
        }
    }

    /// The first range among those that begin before `known_to`.
    fn merge(&mut self, known_to: u64) -> Option<Range<u64>> {
        let mut range: Option<Range<u64>> = None;
        while let Some(Reverse(rest)) = self.rest.peek()
            && rest.place.0 < known_to
            && range
                .as_ref()
                .is_none_or(|r| rest.place.0 <= r.end || rest.place.0 - r.end < self.hole)
        {
            let Reverse(rest) = self.rest.pop().expect("it was just seen");
            let piece = self.piece(rest);
            if piece.is_empty() {
                continue;
            }
            range = match range {
                None => Some(piece),
                Some(r) => Some(r.start..r.end.max(piece.end)),
            };
        }
        range
    }

    /// The first canonical bytes of a run; keeps the others.
    fn piece(&mut self, rest: Rest) -> Range<u64> {
        let grid = self.file.layout().grid();
        let bsu = grid.bsu();
        let piece = if bsu < EXACT_BSU {
            let row = bsu * u64::from(grid.cells());
            let end = rest.end.div_ceil(bsu).saturating_mul(row);
            rest.place.0 / row * row..end
        } else {
            let length = (bsu - rest.start % bsu).min(rest.end - rest.start);
            let start = rest.place.0;
            self.keep(rest.cell, rest.start + length, rest.end);
            start..start + length
        };
        piece.start.max(self.at)..piece.end.min(OFFSET_MAX)
    }

    fn keep(&mut self, cell: CellIndex, start: u64, end: u64) {
        // Beyond the end of the canonical order there is no data.
        if start < end
            && let Ok(place) = self.file.layout().grid().canonical(cell, CellOffset(start))
        {
            self.rest.push(Reverse(Rest {
                place,
                cell,
                start,
                end,
            }));
        }
    }

    /// Asks the servers that have answered no further than `known_to`.
    async fn ask(&mut self, known_to: u64) -> Result<(), Error> {
        let behind = (0..self.next.len()).filter(|slot| self.next[*slot] == Some(known_to));
        let behind: Vec<usize> = behind.collect();
        let asks = behind.iter().map(|slot| self.ask_slot(*slot, known_to));
        let replies = try_join_all(asks).await?;
        for (slot, reply) in behind.into_iter().zip(replies) {
            self.next[slot] = reply.next;
            for run in reply.runs {
                self.keep(CellIndex(run.cell), run.offset, run.offset + run.length);
            }
        }
        Ok(())
    }

    async fn ask_slot(&self, slot: usize, from: u64) -> Result<DataRunsReply, Error> {
        let a = &self.file.0;
        let (server, what) = (
            a.layout.servers()[slot],
            format!("find the data of {}", a.path),
        );
        let grid = a.layout.grid();
        let slot = ServerSlot(slot as u32);
        let request = DataRunsRequest {
            file: a.cells.file,
            grid: Grid::from(&grid),
            slot: slot.0,
            fork: "data".to_owned(),
            from,
            checkpoint: a.cells.checkpoint,
        };
        let reply = a.volume.io(&what, server, &request, Repeat::Safe).await?;
        let wrong = |run: &&DataRun| {
            run.cell >= grid.cells()
                || grid.slot_of(CellIndex(run.cell)) != slot
                || run
                    .offset
                    .checked_add(run.length)
                    .is_none_or(|end| end > OFFSET_MAX)
        };
        let reason = if reply.next.is_some_and(|next| next <= from) {
            format!("asked for data from {from} on, the server answered none")
        } else if let Some(run) = reply.runs.iter().find(wrong) {
            format!("the server speaks of data that it cannot have: {run:?}")
        } else {
            return Ok(reply);
        };
        Err(Error::Protocol {
            what: format!("{what} on server {server}"),
            reason,
        })
    }
}
