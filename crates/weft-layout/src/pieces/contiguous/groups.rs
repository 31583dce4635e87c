//! Pieces of a partition with gaps: group by group, within a group BSU by BSU.
//!
//! Two ways lead past bytes of other servers. Groups that end before the next local BSU are skipped
//! with one division. Where each group in turn misses every local BSU (a large stride), a few are
//! tried, as most patterns hit soon, and then the next hit is computed: once where the local BSUs
//! are evenly spaced, else once for each local cell, taking the earliest.

use crate::arithmetic::modular::first_below;
use crate::limits::GROUP_MISSES_MAX;
use crate::pieces::piece::{Piece, Span};
use crate::pieces::strided::StridedPieces;
use crate::view::groups::Groups;
use crate::{CellIndex, CellOffset, Grid, OFFSET_MAX, ServerSlot};

#[derive(Clone, Debug)]
pub(crate) struct GroupPieces {
    group: u64,
    stride: u64,
    span: Span,
    /// Bytes in a row of a cell: a BSU, or everything when there is one cell.
    unit: u64,
    cells: u64,
    servers: u64,
    slot: u64,
    /// The current group: its first view byte, and where that is in the file. No piece is left when
    /// `view` is at or past the span's end.
    view: u64,
    start: u64,
    /// File location from which on nothing was yielded; not before `start`.
    from: u64,
    /// A local BSU: its place in the file, its cell, and its place in the cell.
    local_start: u64,
    local_cell: u64,
    local_offset: u64,
    /// Whether the last piece of one group and the first of the next can meet in a cell.
    meets: bool,
    /// A piece that was found but could not be joined to the one before.
    held: Option<Piece>,
}

impl GroupPieces {
    /// `None` when no cell is local. The span is not empty and its file locations are below the
    /// limit.
    pub(crate) fn new(groups: &Groups, grid: &Grid, slot: ServerSlot, span: Span) -> Option<Self> {
        let (cells, slot) = (u64::from(grid.cells()), u64::from(slot.0));
        if slot >= cells {
            return None;
        }
        let &Groups {
            offset,
            group,
            stride,
            ..
        } = groups;
        let index = span.start / group;
        // Both fit: the caller checked the last file location of the span, which is not below.
        let start = offset + index * stride;
        let mut pieces = Self {
            group,
            stride,
            span,
            unit: if cells == 1 { OFFSET_MAX } else { grid.bsu() },
            cells,
            servers: u64::from(grid.servers()),
            slot,
            view: index * group,
            start,
            from: start + span.start % group,
            local_start: 0,
            local_cell: 0,
            local_offset: 0,
            meets: cells > 1 && stride - group == (cells - 1) * grid.bsu(),
            held: None,
        };
        pieces.seek_local();
        Some(pieces)
    }

    /// Moves to the local BSU that holds `from`, else to the first after it.
    fn seek_local(&mut self) {
        let block = self.from / self.unit;
        let (row, cell) = (block / self.cells, block % self.cells);
        let behind = (self.slot + self.servers - cell % self.servers) % self.servers;
        let (row, cell) = if cell + behind < self.cells {
            (row, cell + behind)
        } else {
            (row + 1, self.slot)
        };
        self.local_start = (row * self.cells + cell) * self.unit;
        self.local_cell = cell;
        self.local_offset = row * self.unit;
    }

    /// Moves to the next local BSU, and on to `from` if that is still behind.
    fn next_local(&mut self) {
        if self.local_cell + self.servers < self.cells {
            self.local_cell += self.servers;
            self.local_start += self.servers * self.unit;
        } else {
            self.local_start += (self.cells - self.local_cell + self.slot) * self.unit;
            self.local_cell = self.slot;
            self.local_offset += self.unit;
        }
        if self.local_start + self.unit <= self.from {
            self.seek_local();
        }
    }

    /// Moves `groups` groups on; past the end when the span has fewer.
    fn skip_groups(&mut self, groups: u64) {
        let left = (self.span.end - 1 - self.view) / self.group;
        if groups > left {
            self.view = self.span.end;
            return;
        }
        self.view += groups * self.group;
        self.start += groups * self.stride;
        self.from = self.start;
    }

    /// Moves to the first group, from this one on, that touches a local BSU.
    fn skip_to_hit(&mut self) {
        // Local BSUs repeat after `servers` cells when these divide evenly, else after all cells.
        let even = self.cells.is_multiple_of(self.servers);
        let cells = if even { self.servers } else { self.cells };
        let [unit, group] = [self.unit, self.group].map(u128::from);
        let period = u128::from(cells) * unit;
        // A group touches a BSU when its last byte is less than both lengths past the BSU's start.
        let last = u128::from(self.start) + group - 1;
        let range = (unit + group - 1).min(period);
        let hit = (self.slot..cells)
            .step_by(self.servers as usize)
            .filter_map(|cell| {
                let start = last + period - u128::from(cell) * unit;
                first_below(start, self.stride.into(), period, range)
            })
            .min();
        match hit.and_then(|groups| u64::try_from(groups).ok()) {
            Some(groups) => self.skip_groups(groups),
            None => self.view = self.span.end,
        }
    }

    /// The next segment of a group in a local BSU.
    #[inline]
    fn next_segment(&mut self) -> Option<Piece> {
        let mut misses = 0;
        while self.view < self.span.end {
            if self.local_start + self.unit <= self.from {
                self.next_local();
            }
            let end = self.start + self.group.min(self.span.end - self.view);
            if self.local_start < end {
                let start = self.from.max(self.local_start);
                let end = end.min(self.local_start + self.unit);
                let piece = Piece {
                    cell: CellIndex(self.local_cell as u32),
                    offset: CellOffset(self.local_offset + (start - self.local_start)),
                    length: end - start,
                    memory: self.view + (start - self.start) - self.span.start,
                };
                self.from = end;
                if end - self.start == self.group {
                    self.view += self.group;
                    self.start += self.stride;
                    self.from = self.start;
                } else if self.view + (end - self.start) == self.span.end {
                    self.view = self.span.end;
                }
                return Some(piece);
            }
            if self.local_start < self.start + self.group {
                // Only the last group ends early.
                self.view = self.span.end;
                return None;
            }
            self.skip_groups((self.local_start - self.start - self.group) / self.stride + 1);
            misses += 1;
            if misses > GROUP_MISSES_MAX * self.cells.div_ceil(self.servers)
                && self.view < self.span.end
            {
                self.skip_to_hit();
                misses = 0;
            }
        }
        None
    }

    /// The next pieces of one cell at equal distances: whole groups that lie in one BSU.
    #[inline]
    pub(crate) fn next_strided(&mut self) -> Option<StridedPieces> {
        let mut strided = StridedPieces::from(self.next()?);
        if self.meets || strided.length != self.group || self.view >= self.span.end {
            return Some(strided);
        }
        // The current group is the one behind, and it has not begun.
        let whole = (self.span.end - self.view) / self.group;
        let space = (self.local_start + self.unit).checked_sub(self.start + self.group);
        let more = space.map_or(0, |space| (space / self.stride + 1).min(whole));
        strided.count += more;
        strided.stride = self.stride;
        strided.memory_stride = self.group.cast_signed();
        self.view += more * self.group;
        self.start += more * self.stride;
        self.from = self.start;
        Some(strided)
    }
}

impl Iterator for GroupPieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if !self.meets {
            return self.next_segment();
        }
        // At most two segments are joined: a chain would need whole BSUs for groups, and such a
        // partition picks one cell and is linear.
        let mut piece = self.held.take().or_else(|| self.next_segment())?;
        while let Some(next) = self.next_segment() {
            let joins = next.cell == piece.cell
                && next.offset.0 == piece.offset.0 + piece.length
                && next.memory == piece.memory + piece.length;
            if !joins {
                self.held = Some(next);
                break;
            }
            piece.length += next.length;
        }
        Some(piece)
    }
}
