//! The cost of replaying the log, in units of about 100 ns.

use super::frames::ParsedLog;
use crate::key::Run;
use crate::pool::BLOCK;
use crate::record::ItemRecord;

/// The cost of replaying a `Map` item, in units of
/// [`LogHead::logged`](crate::log::LogHead::logged), without its blocks.
pub(crate) const MAP_COST: u64 = 8;

/// The same for a `Data` item.
pub(crate) const DATA_COST: u64 = 4;

/// The same for a piece of a `Pieces` item.
const PIECE_COST: u64 = 2;

/// The cost of replaying the pieces of a run.
pub(crate) fn cost_of_run(run: &Run) -> u64 {
    run.count * (PIECE_COST + run.length / BLOCK as u64)
}

fn cost_of(item: &ItemRecord) -> u64 {
    match item {
        ItemRecord::Map { runs, .. } => MAP_COST + runs.crcs.len() as u64 / 4,
        ItemRecord::Data { data, .. } => DATA_COST + (data.len() / BLOCK) as u64,
        ItemRecord::Pieces { runs, .. } => runs.iter().map(cost_of_run).sum(),
        _ => DATA_COST,
    }
}

impl ParsedLog {
    /// The cost of replaying it, in the units of [`super::LogHead`].
    pub(crate) fn cost(&self) -> u64 {
        let items = self.frames.iter().flat_map(|frame| &frame.items);
        items.map(cost_of).sum()
    }
}
