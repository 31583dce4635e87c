//! How wide bands are.

use crate::limits::{BAND_WIDTH_MIN, ROUND_WEIGHT_TARGET};
use crate::{Grid, ServerSlot};

/// The width of bands in bytes, before dense pieces make them narrower.
pub(super) fn width(grid: &Grid, slot: ServerSlot) -> u64 {
    let width = (ROUND_WEIGHT_TARGET / cells(grid, slot)).max(BAND_WIDTH_MIN);
    // Whole units, so that members that go row by row stay together; units larger than rounds are
    // split.
    match grid.bsu() {
        unit if unit <= width => width / unit * unit,
        unit if unit <= ROUND_WEIGHT_TARGET => unit,
        _ => width,
    }
}

/// The cells of a slot, at least 1.
pub(super) fn cells(grid: &Grid, slot: ServerSlot) -> u64 {
    (grid.cells_on(slot).count() as u64).max(1)
}
