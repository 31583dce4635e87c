//! A view on a grid, checked and reduced to the simplest form that yields the same bytes.
//!
//! Why reduce: pieces must come out coalesced, and where neighbours meet in one cell without end
//! (a cell view, one column without gaps, a partition that picks one cell) only a form that knows
//! it yields one piece in constant time.

use crate::view::columns::Columns;
use crate::view::groups::Groups;
use crate::{CellIndex, CellOffset, Grid, MapError, OFFSET_MAX, Order, Partition, View, ViewError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// View byte `v` is byte `start + v` of one cell, which may be a ghost.
    Linear(Linear),
    /// View byte `v` is byte `v + shift` of the columns' order.
    Rows { columns: Columns, shift: u64 },
    /// The bytes of the columns' order, rearranged cell by cell for each access.
    ByColumn(Columns),
    /// Groups with gaps between them.
    Groups(Groups),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    pub(crate) cell: u64,
    pub(crate) start: u64,
    /// View bytes from here on are past the largest offset, in the cell or in the file.
    pub(crate) limit: u64,
}

impl Shape {
    pub(crate) fn new(grid: Grid, view: &View) -> Result<Self, ViewError> {
        match view {
            View::Subfile(subfile) => {
                let columns = Columns::subfile(&grid, subfile)?;
                Ok(if columns.width == 1 && columns.unbroken() {
                    Shape::Linear(Linear {
                        cell: columns.left,
                        start: 0,
                        limit: OFFSET_MAX,
                    })
                } else if subfile.order == Order::Column && columns.width > 1 {
                    Shape::ByColumn(columns)
                } else {
                    Shape::Rows { columns, shift: 0 }
                })
            }
            View::Partition(partition) => Self::partition(grid, partition),
            &View::Cell(cell) if cell.0 >= grid.cells() => Err(ViewError::NoSuchCell {
                cell,
                cells: grid.cells(),
            }),
            View::Cell(cell) => Ok(Shape::Linear(Linear {
                cell: cell.0.into(),
                start: 0,
                limit: OFFSET_MAX,
            })),
        }
    }

    fn partition(grid: Grid, partition: &Partition) -> Result<Self, ViewError> {
        let &Partition {
            offset,
            group,
            stride,
        } = partition;
        if group == 0 {
            return Err(ViewError::Zero { parameter: "group" });
        }
        if group > stride {
            return Err(ViewError::GroupPastStride { group, stride });
        }
        for (parameter, value) in [("offset", offset), ("stride", stride)] {
            if value > OFFSET_MAX {
                return Err(ViewError::PastLimit { parameter, value });
            }
        }
        let (cells, bsu) = (u64::from(grid.cells()), grid.bsu());
        let limit = OFFSET_MAX - offset;
        Ok(if group == stride && cells == 1 {
            Shape::Linear(Linear {
                cell: 0,
                start: offset,
                limit,
            })
        } else if group == stride {
            Shape::Rows {
                columns: Columns::canonical(&grid),
                shift: offset,
            }
        } else if cells > 1 && group == bsu && stride == cells * bsu && offset % bsu == 0 {
            let limit = limit / stride * group + (limit % stride).min(group);
            let block = offset / bsu;
            Shape::Linear(Linear {
                cell: block % cells,
                start: block / cells * bsu,
                limit,
            })
        } else {
            Shape::Groups(Groups::new(grid, partition))
        })
    }

    /// The cell, perhaps a ghost, and the offset of a view byte below [`OFFSET_MAX`].
    pub(crate) fn locate(&self, view: u64) -> Result<(u64, u64), MapError> {
        let past = MapError::PastLimit {
            offset: view,
            length: 1,
        };
        match self {
            Shape::Linear(linear) if view >= linear.limit => Err(past),
            Shape::Linear(linear) => Ok((linear.cell, linear.start + view)),
            Shape::Rows { columns, shift } if view + shift < OFFSET_MAX => {
                Self::locate_in(columns, view + shift).ok_or(past)
            }
            Shape::Rows { .. } => Err(past),
            Shape::ByColumn(columns) => Self::locate_in(columns, view).ok_or(past),
            Shape::Groups(groups) => {
                let (cell, offset) = groups.locate(view).map_err(|_| past)?;
                Ok((cell.0.into(), offset.0))
            }
        }
    }

    fn locate_in(columns: &Columns, view: u64) -> Option<(u64, u64)> {
        let (column, dense) = columns.dense_of(view);
        let offset = u64::try_from(columns.offset_of(dense)).ok()?;
        (offset < OFFSET_MAX).then(|| (columns.cell_of(column), offset))
    }

    /// The view byte of a byte of a cell that the file has, however far out, if it has one.
    pub(crate) fn invert(&self, cell: CellIndex, offset: CellOffset) -> Option<u64> {
        let CellOffset(offset) = offset;
        if offset >= OFFSET_MAX {
            return None;
        }
        let view = match self {
            Shape::Linear(linear) => {
                let view = offset.checked_sub(linear.start)?;
                (linear.cell == u64::from(cell.0) && view < linear.limit).then_some(view)
            }
            Shape::Rows { columns, shift } => {
                let place = Self::invert_in(columns, cell, offset)?;
                (place < OFFSET_MAX).then(|| place.checked_sub(*shift))?
            }
            Shape::ByColumn(columns) => Self::invert_in(columns, cell, offset),
            Shape::Groups(groups) => groups.invert(cell, offset),
        };
        view.filter(|&view| view < OFFSET_MAX)
    }

    fn invert_in(columns: &Columns, cell: CellIndex, offset: u64) -> Option<u64> {
        let column = columns.column_of(cell.0.into())?;
        let dense = columns.dense_at(offset)?;
        u64::try_from(columns.view_of(column, dense)).ok()
    }

    /// One past the largest view byte among the first `length ≤ OFFSET_MAX` bytes of a cell that
    /// the file has.
    pub(crate) fn extent(&self, cell: CellIndex, length: u64) -> u64 {
        match self {
            Shape::Linear(linear) if linear.cell == u64::from(cell.0) => {
                length.saturating_sub(linear.start)
            }
            Shape::Linear(_) => 0,
            Shape::Rows { columns, shift } => Self::extent_in(columns, *shift, cell, length),
            Shape::ByColumn(columns) => Self::extent_in(columns, 0, cell, length),
            Shape::Groups(groups) => groups.extent(cell, length),
        }
    }

    fn extent_in(columns: &Columns, shift: u64, cell: CellIndex, length: u64) -> u64 {
        let last = columns.dense_below(length).checked_sub(1);
        let (Some(column), Some(last)) = (columns.column_of(cell.0.into()), last) else {
            return 0;
        };
        let end = (columns.view_of(column, last) + 1).saturating_sub(u128::from(shift));
        u64::try_from(end).map_or(OFFSET_MAX, |end| end.min(OFFSET_MAX))
    }
}
