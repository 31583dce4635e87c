//! Where a file's cells have data.
//!
//! Request and reply speak of one place of the canonical order for all cells of the slot, so a
//! request is as small for a thousand cells as for one and the server remembers nothing. The price:
//! what one cell has beyond the place that all of them reached is looked up again by the next call.

use weft_layout::{CellIndex, CellOffset, FileOffset, Grid, OFFSET_MAX, ServerSlot};
use weft_proto::Failure;
use weft_proto::io::{DataRun, DataRunsReply, DataRunsRequest};
use weft_store::{ForkKey, ForkName};

use super::IoService;
use crate::failure;

/// Chunks that one call looks at, over all cells; at least one of each.
const CHUNKS: usize = 1024;
/// With this many runs a reply is full; it takes under 30 bytes for each.
const RUNS: usize = 4096;

impl IoService {
    pub(super) async fn data_runs(
        &self,
        request: DataRunsRequest,
    ) -> Result<DataRunsReply, Failure> {
        let grid = Grid::try_from(&request.grid).map_err(|e| failure::of_convert(&e))?;
        let mut cells = self.cells_with_data(&request, &grid).await?;
        cells.sort_unstable_by_key(|(place, ..)| *place);
        let limit = (CHUNKS / cells.len().max(1)).max(1);
        let mut reply = DataRunsReply::default();
        let mut told: Option<FileOffset> = None;
        let kept = (request.checkpoint != 0).then_some(request.checkpoint);
        for (place, from, key) in cells {
            if told.is_some_and(|t| place >= t) {
                break;
            }
            if reply.runs.len() >= RUNS {
                told = Some(place);
                break;
            }
            let found = self.store.data_runs(&key, kept, from, limit).await;
            let found = found.map_err(|e| failure::of_store(&e))?;
            reply.runs.extend(found.runs.into_iter().map(|run| DataRun {
                cell: key.cell.0,
                offset: run.start,
                length: run.end - run.start,
            }));
            // What lies beyond the end of the canonical order is nobody's data.
            let reached = found
                .next
                .and_then(|next| grid.canonical(key.cell, next).ok());
            told = told.into_iter().chain(reached).min();
        }
        if let Some(told) = told {
            reply.runs.retain_mut(|run| {
                let end = grid.cell_length(told.0, CellIndex(run.cell));
                run.length = run.length.min(end.saturating_sub(run.offset));
                run.length > 0
            });
        }
        reply.next = told.map(|t| t.0);
        Ok(reply)
    }

    /// The slot's cells that hold data, each with its first byte that is asked for and where that
    /// is in the canonical order.
    async fn cells_with_data(
        &self,
        request: &DataRunsRequest,
        grid: &Grid,
    ) -> Result<Vec<(FileOffset, CellOffset, ForkKey)>, Failure> {
        let file = super::file_id(request.file)?;
        let forks = self.forks_of(file, request.checkpoint).await?;
        if self.store.has_doubt() {
            let kept = (request.checkpoint != 0).then_some(request.checkpoint);
            for cell in grid.cells_on(ServerSlot(request.slot)) {
                let from = grid.cell_length(request.from, cell);
                let fork = ForkName::new(&request.fork);
                let fork = fork.map_err(|e| failure::invalid(e.to_string()))?;
                let key = ForkKey { file, cell, fork };
                let proven = self.store.check_proven(&key, kept, from..OFFSET_MAX);
                proven.map_err(|e| failure::of_store(&e))?;
            }
        }
        let wanted = forks.into_iter().filter_map(|(key, status)| {
            let here = key.cell.0 < grid.cells()
                && grid.slot_of(key.cell) == ServerSlot(request.slot)
                && key.fork.as_str() == request.fork;
            let from = CellOffset(grid.cell_length(request.from, key.cell));
            let place = grid.canonical(key.cell, from).ok()?;
            (here && status.stored > 0 && status.length > from.0).then_some((place, from, key))
        });
        Ok(wanted.collect())
    }
}
