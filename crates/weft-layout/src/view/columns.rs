//! The arithmetic of subfiles: every byte order but the rearranged one, in one form.
//!
//! A subfile spans columns, numbered from 0 without gaps; column `q` is the cell
//! `q div hbs · hspan + left + q mod hbs`, a ghost when the file has no such cell. From each column
//! the view takes `unit` bytes at a time, row after row: that is a block's `vbs` BSUs in the
//! default order and one BSU in row-major order. Seen through the view a column is dense: byte `y`
//! of column `q` is view byte `(y div unit)·band + q·unit + y mod unit`. In the cell the dense
//! bytes lie in runs of `run` bytes, one every `period`, the first at `top`.
//!
//! So the canonical order, both linear orders of a subfile and partitions without gaps need one
//! mapping, and the loops over pieces only add.
//!
//! Invariants:
//! 1. `unit` divides `run`; `top + run ≤ period`; `band = width·unit`; `band` and `period` are at
//!    most [`OFFSET_MAX`]. Products of offsets with these are taken in 128 bits.
//! 2. Real columns come first: `q < real` exactly when the cell exists, as cells ascend with `q`.

use crate::{Grid, OFFSET_MAX, Order, Subfile, ViewError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Bytes that the view takes from a column at a time.
    pub(crate) unit: u64,
    /// Columns, ghosts included.
    pub(crate) width: u64,
    /// Bytes of one row of units: `width·unit`.
    pub(crate) band: u64,
    /// Consecutive bytes of a cell that belong to the view.
    pub(crate) run: u64,
    /// From the start of one run to the start of the next.
    pub(crate) period: u64,
    /// Where the first run starts in the cell.
    pub(crate) top: u64,
    /// Columns whose cell the file has.
    pub(crate) real: u64,
    /// Consecutive cells in a block.
    pub(crate) hbs: u64,
    /// From the first cell of one block to the first of the next.
    pub(crate) hspan: u64,
    /// First cell of the first block.
    pub(crate) left: u64,
}

impl Columns {
    /// The canonical order.
    pub(crate) fn canonical(grid: &Grid) -> Self {
        let cells = u64::from(grid.cells());
        Self {
            unit: grid.bsu(),
            width: cells,
            band: cells * grid.bsu(),
            run: grid.bsu(),
            period: grid.bsu(),
            top: 0,
            real: cells,
            hbs: cells,
            hspan: cells,
            left: 0,
        }
    }

    /// A subfile in its default order, or in row-major order if it asks for that.
    pub(crate) fn subfile(grid: &Grid, subfile: &Subfile) -> Result<Self, ViewError> {
        let &Subfile {
            vbs,
            vn,
            hbs,
            hn,
            index,
            order,
        } = subfile;
        for (parameter, value) in [("vbs", vbs), ("vn", vn), ("hbs", hbs), ("hn", hn)] {
            if value == 0 {
                return Err(ViewError::Zero { parameter });
            }
        }
        if u128::from(index) >= u128::from(hn) * u128::from(vn) {
            return Err(ViewError::Index { index, hn, vn });
        }
        let bsu = grid.bsu();
        let hspan = legal_product(&[hbs, hn]).ok_or(ViewError::TooWide { hbs, hn })?;
        let period = legal_product(&[vbs, vn, bsu]).ok_or(ViewError::TooLong { vbs, vn, bsu })?;
        let run = vbs * bsu;
        let cells = u64::from(grid.cells());
        let width = cells.div_ceil(hspan) * hbs;
        let too_large = ViewError::TooLarge { width, vbs, bsu };
        let row_of_blocks = legal_product(&[width, run]).ok_or(too_large)?;
        // With one column, or one subfile across, how the columns are grouped changes nothing; the
        // coarser grouping gives longer units and shorter loops.
        let unit = if order == Order::Row && width > 1 {
            bsu
        } else {
            run
        };
        let left = index % hn * hbs;
        let (hbs, hspan) = if hn == 1 {
            (width, width)
        } else {
            (hbs, hspan)
        };
        let real = cells / hspan * hbs + (cells % hspan).saturating_sub(left).min(hbs);
        Ok(Self {
            unit,
            width,
            band: row_of_blocks / run * unit,
            run,
            period,
            top: index / hn * run,
            real,
            hbs,
            hspan,
            left,
        })
    }

    /// Whether a column's bytes lie in its cell without gaps.
    pub(crate) fn unbroken(&self) -> bool {
        self.run == self.period
    }

    /// The cell of a column; ghosts included, so it may be past the file's cells.
    pub(crate) fn cell_of(&self, column: u64) -> u64 {
        column / self.hbs * self.hspan + self.left + column % self.hbs
    }

    /// The column of a cell that the file has, if the subfile spans it.
    pub(crate) fn column_of(&self, cell: u64) -> Option<u64> {
        let within = (cell % self.hspan).checked_sub(self.left)?;
        (within < self.hbs).then(|| cell / self.hspan * self.hbs + within)
    }

    /// The column of a view byte, and its place among the column's dense bytes.
    pub(crate) fn dense_of(&self, view: u64) -> (u64, u64) {
        let rest = view % self.band;
        (
            rest / self.unit,
            view / self.band * self.unit + rest % self.unit,
        )
    }

    /// The view byte of a column's dense byte, however far out.
    pub(crate) fn view_of(&self, column: u64, dense: u64) -> u128 {
        u128::from(dense / self.unit) * u128::from(self.band)
            + u128::from(column * self.unit + dense % self.unit)
    }

    /// Where a column's dense byte lies in the cell, however far out.
    pub(crate) fn offset_of(&self, dense: u64) -> u128 {
        u128::from(dense / self.run) * u128::from(self.period)
            + u128::from(self.top + dense % self.run)
    }

    /// The dense place of a cell's byte, if it belongs to the view.
    pub(crate) fn dense_at(&self, offset: u64) -> Option<u64> {
        let within = (offset % self.period).checked_sub(self.top)?;
        (within < self.run).then(|| offset / self.period * self.run + within)
    }

    /// How many dense bytes the first `length` bytes of a cell hold.
    pub(crate) fn dense_below(&self, length: u64) -> u64 {
        let rest = (length % self.period)
            .saturating_sub(self.top)
            .min(self.run);
        length / self.period * self.run + rest
    }

    /// How many of the first `end` view bytes lie in a column: the end of its dense bytes there.
    pub(crate) fn share(&self, end: u64, column: u64) -> u64 {
        let rest = (end % self.band)
            .saturating_sub(column * self.unit)
            .min(self.unit);
        end / self.band * self.unit + rest
    }

    /// How many of the first `end` view bytes lie in columns before this one.
    pub(crate) fn share_before(&self, end: u64, column: u64) -> u64 {
        let before = column * self.unit;
        end / self.band * before + (end % self.band).min(before)
    }

    /// The largest offset, in any cell or ghost, of the view bytes `start..end` (at least one).
    pub(crate) fn farthest(&self, start: u64, end: u64) -> u128 {
        let last = end - 1;
        let (column, dense) = self.dense_of(last);
        let unit_start = last - dense % self.unit;
        // A column before the last one in the same row, if touched, is touched to its unit's end.
        let dense = if column > 0 && start < unit_start {
            dense / self.unit * self.unit + self.unit - 1
        } else {
            dense
        };
        self.offset_of(dense)
    }
}

/// The product, if it is at most [`OFFSET_MAX`].
fn legal_product(factors: &[u64]) -> Option<u64> {
    let product = factors
        .iter()
        .try_fold(1u64, |product, &factor| product.checked_mul(factor))?;
    (product <= OFFSET_MAX).then_some(product)
}
