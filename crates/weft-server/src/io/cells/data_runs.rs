//! Where the cells of a file have data.
//!
//! Request and reply name one offset in canonical order for all cells of the slot, so a request for
//! a thousand cells is as small as for one, and the server keeps no state. The price: runs of a
//! cell beyond the offset that all cells reached are looked up again by the next call.

use weft_layout::{CellIndex, CellOffset, FileOffset, Grid, OFFSET_MAX, ServerSlot};
use weft_proto::Failure;
use weft_proto::io::{DataRun, DataRunsReply, DataRunsRequest};
use weft_store::ForkKey;

use crate::failure;
use crate::io::IoService;
use crate::io::job::{checkpoint, file_id, fork_name};
use crate::limits::{DATA_RUNS_CHUNKS, DATA_RUNS_MAX};

impl IoService {
    pub(in crate::io) async fn data_runs(
        &self,
        request: DataRunsRequest,
    ) -> Result<DataRunsReply, Failure> {
        let grid = Grid::try_from(&request.grid).map_err(|e| failure::of_convert(&e))?;
        let mut cells = self.cells_with_data(&request, &grid).await?;
        cells.sort_unstable_by_key(|(place, ..)| *place);
        let limit = (DATA_RUNS_CHUNKS / cells.len().max(1)).max(1);
        let mut reply = DataRunsReply::default();
        // Where the next call goes on.
        let mut next: Option<FileOffset> = None;
        let checkpoint = checkpoint(request.checkpoint);
        for (place, from, key) in cells {
            if next.is_some_and(|next| place >= next) {
                break;
            }
            if reply.runs.len() >= DATA_RUNS_MAX {
                next = Some(place);
                break;
            }
            let found = self.store.data_runs(&key, checkpoint, from, limit).await;
            let found = found.map_err(|e| failure::of_store(&e))?;
            reply.runs.extend(found.runs.into_iter().map(|run| DataRun {
                cell: key.cell.0,
                offset: run.start,
                length: run.end - run.start,
            }));
            // Offsets without a canonical one are beyond the end of any file.
            let reached = found
                .next
                .and_then(|next| grid.canonical(key.cell, next).ok());
            next = next.into_iter().chain(reached).min();
        }
        if let Some(next) = next {
            reply.runs.retain_mut(|run| {
                let end = grid.cell_length(next.0, CellIndex(run.cell));
                run.length = run.length.min(end.saturating_sub(run.offset));
                run.length > 0
            });
        }
        reply.next = next.map(|next| next.0);
        Ok(reply)
    }

    /// The slot's cells that have data, each with the first requested byte and its canonical
    /// offset.
    async fn cells_with_data(
        &self,
        request: &DataRunsRequest,
        grid: &Grid,
    ) -> Result<Vec<(FileOffset, CellOffset, ForkKey)>, Failure> {
        let file = file_id(request.file)?;
        let checkpoint = checkpoint(request.checkpoint);
        let forks = self.forks_of(file, checkpoint).await?;
        if self.store.has_doubt() {
            for cell in grid.cells_on(ServerSlot(request.slot)) {
                let from = grid.cell_length(request.from, cell);
                let fork = fork_name(&request.fork)?;
                let key = ForkKey { file, cell, fork };
                let proven = self.store.check_proven(&key, checkpoint, from..OFFSET_MAX);
                proven.map_err(|e| failure::of_store(&e))?;
            }
        }
        // Coded blocks are data, and take no space.
        let may_be_coded = self.store.may_have_coded(file);
        let wanted = forks.into_iter().filter_map(|(key, status)| {
            let has_data = status.stored > 0 || may_be_coded;
            let here = key.cell.0 < grid.cells()
                && grid.slot_of(key.cell) == ServerSlot(request.slot)
                && key.fork.as_str() == request.fork;
            let from = CellOffset(grid.cell_length(request.from, key.cell));
            let place = grid.canonical(key.cell, from).ok()?;
            (here && has_data && status.length > from.0).then_some((place, from, key))
        });
        Ok(wanted.collect())
    }
}
