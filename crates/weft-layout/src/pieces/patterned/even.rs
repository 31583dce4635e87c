//! The next bytes of one server in views whose columns are the file's cells in order: the canonical
//! order and its like. Found without a division.

use super::window::Window;
use crate::arithmetic::divisor::Divisor;
use crate::view::columns::Columns;
use crate::{CellIndex, Grid, ServerSlot};

#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenRows {
    band: Divisor,
    unit: Divisor,
    run: Divisor,
    servers: Divisor,
    /// Bytes of the columns' order before the view's first.
    shift: u64,
    slot: u64,
    real: u64,
    period: u64,
    top: u64,
    /// Whether local units are evenly spaced, from the end of one band to the start of the next
    /// too.
    pub(crate) even: bool,
}

impl EvenRows {
    /// `None` when the columns are not the cells in order, or none is local.
    pub(crate) fn new(
        columns: &Columns,
        shift: u64,
        grid: &Grid,
        slot: ServerSlot,
    ) -> Option<Self> {
        let servers = u64::from(grid.servers());
        let slot = u64::from(slot.0);
        let flat = columns.left == 0 && (columns.hbs == columns.hspan);
        (flat && slot < columns.real).then(|| Self {
            band: Divisor::new(columns.band),
            unit: Divisor::new(columns.unit),
            run: Divisor::new(columns.run),
            servers: Divisor::new(servers),
            shift,
            slot,
            real: columns.real,
            period: columns.period,
            top: columns.top,
            even: columns.real == columns.width && columns.width.is_multiple_of(servers),
        })
    }

    /// The local bytes at `view` or the first after it, to the end of their unit.
    #[inline]
    pub(crate) fn seek(&self, view: u64) -> Window {
        let place = view + self.shift;
        let (mut row, rest) = self.band.divide(place);
        let (mut column, within) = self.unit.divide(rest);
        let (_, excess) = self
            .servers
            .divide(column + self.servers.value() - self.slot);
        let mut start = place - within;
        if excess > 0 {
            column += self.servers.value() - excess;
            start += (self.servers.value() - excess) * self.unit.value();
        }
        if column >= self.real {
            row += 1;
            column = self.slot;
            start = row * self.band.value() + column * self.unit.value();
        }
        let (runs, dense) = self.run.divide(row * self.unit.value());
        // The unit may begin before the view does.
        let hidden = self.shift.saturating_sub(start);
        Window {
            from: view,
            start: start + hidden - self.shift,
            end: start + self.unit.value() - self.shift,
            cell: CellIndex(column as u32),
            offset: runs * self.period + self.top + dense + hidden,
        }
    }

    /// How much the offset in the cell grows from a run to the one `stride` bytes later in the
    /// view. `None` unless that run is in the same column, in a later row.
    pub(crate) fn lift(&self, stride: i64) -> Option<u64> {
        let stride = u64::try_from(stride).ok()?;
        let (rows, rest) = self.band.divide(stride);
        (rest == 0 && rows > 0 && self.run.value() == self.period).then(|| rows * self.unit.value())
    }

    /// For runs `stride` bytes apart, a multiple of [`EvenRows::spacing`]: how many cells each run
    /// is after the one before, and how many runs, from `window` on, are in its row. `None` if it
    /// is only one.
    #[inline]
    pub(crate) fn along_row(&self, window: &Window, stride: u64) -> Option<(u32, u64)> {
        let (columns, rest) = self.unit.divide(stride);
        let after = self.real - 1 - u64::from(window.cell.0);
        (rest == 0 && columns > 0 && columns <= after)
            .then(|| (columns as u32, after / columns + 1))
    }

    /// From one local unit to the next.
    pub(crate) fn spacing(&self) -> u64 {
        self.servers.value() * self.unit.value()
    }

    pub(crate) fn unit(&self) -> u64 {
        self.unit.value()
    }

    /// How far `view` is past the start of the last local unit.
    pub(crate) fn past_local(&self, view: u64) -> u64 {
        let spacing = self.spacing();
        (view % spacing + self.shift % spacing + spacing - self.slot * self.unit.value()) % spacing
    }
}
