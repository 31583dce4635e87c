//! The arithmetic of partitions with gaps: groups of bytes at regular distances in the canonical
//! order.
//!
//! Partitions without gaps, and those that pick exactly one cell, are other shapes (see
//! `shape.rs`), so a group here is followed by at least one byte that the view does not have.

use crate::arithmetic::modular::first_below;
use crate::{CellIndex, CellOffset, Grid, MapError, OFFSET_MAX, Partition};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) grid: Grid,
    pub(crate) offset: u64,
    /// Bytes of a group; below `stride`.
    pub(crate) group: u64,
    pub(crate) stride: u64,
}

impl Groups {
    pub(crate) fn new(grid: Grid, partition: &Partition) -> Self {
        let &Partition {
            offset,
            group,
            stride,
        } = partition;
        Self {
            grid,
            offset,
            group,
            stride,
        }
    }

    /// The file location of a view byte, however far out.
    pub(crate) fn file_of(&self, view: u64) -> u128 {
        u128::from(view / self.group) * u128::from(self.stride)
            + u128::from(view % self.group)
            + u128::from(self.offset)
    }

    pub(crate) fn locate(&self, view: u64) -> Result<(CellIndex, CellOffset), MapError> {
        let past = MapError::PastLimit {
            offset: view,
            length: 1,
        };
        let file = u64::try_from(self.file_of(view)).map_err(|_| past)?;
        self.grid.locate(crate::FileOffset(file))
    }

    pub(crate) fn invert(&self, cell: CellIndex, offset: u64) -> Option<u64> {
        let file = u64::try_from(self.grid.place(cell, offset)).ok()?;
        let from = file.checked_sub(self.offset)?;
        let visible = file < OFFSET_MAX && from % self.stride < self.group;
        visible.then(|| from / self.stride * self.group + from % self.stride)
    }

    /// One past the largest view byte among the first `length` bytes of a cell.
    pub(crate) fn extent(&self, cell: CellIndex, length: u64) -> u64 {
        let Some(last) = length
            .checked_sub(1)
            .and_then(|last| self.last_visible(cell, last))
        else {
            return 0;
        };
        let from = last - u128::from(self.offset);
        let (group, stride) = (u128::from(self.group), u128::from(self.stride));
        let end = from / stride * group + from % stride + 1;
        u64::try_from(end).map_or(OFFSET_MAX, |end| end.min(OFFSET_MAX))
    }

    /// The largest visible file location of the bytes `0..=last` of a cell.
    fn last_visible(&self, cell: CellIndex, last: u64) -> Option<u128> {
        let bsu = if self.grid.cells() == 1 {
            OFFSET_MAX
        } else {
            self.grid.bsu()
        };
        let place = self.grid.place(cell, last);
        let start = place - u128::from(last % bsu);
        if let Some(found) = self.visible_in(start, place) {
            return Some(found);
        }
        // Whole BSUs from here on, each `band` before the next: the first, going back, whose end is
        // less than a group and a BSU past the start of a group.
        if last < bsu {
            return None;
        }
        let band = u128::from(self.grid.cells()) * u128::from(bsu);
        let bsu = u128::from(bsu);
        let end = (start - band + bsu - 1).checked_sub(u128::from(self.offset))?;
        let stride = u128::from(self.stride);
        let touching = (u128::from(self.group) + bsu - 1).min(stride);
        let rows = first_below(end, (stride - band % stride) % stride, stride, touching)?;
        if rows * band > end {
            return None;
        }
        let start = start - band - rows * band;
        self.visible_in(start, start + bsu - 1)
    }

    /// The largest visible file location of `first..=last`.
    fn visible_in(&self, first: u128, last: u128) -> Option<u128> {
        let from = last.checked_sub(u128::from(self.offset))?;
        let (group, stride) = (u128::from(self.group), u128::from(self.stride));
        let past = (from % stride).saturating_sub(group - 1);
        let found = last - past;
        (found >= first).then_some(found)
    }
}
