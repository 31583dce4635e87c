//! Checkpoints of files and trees on this server.

use tokio::time::Instant;
use weft_layout::{FileId, Grid};
use weft_proto::checkpoint::{
    CheckpointReply, CheckpointRequest, CheckpointedFile, DropCheckpointReply,
    DropCheckpointRequest, RollbackReply, RollbackRequest,
};
use weft_proto::io::Grid as WireGrid;
use weft_proto::limits::TREE_BATCH_MAX;
use weft_proto::{Code, Failure};
use weft_store::StoreError;

use crate::failure;
use crate::io::IoService;
use crate::io::job::file_id;
use crate::io::sharers::Change;
use crate::limits::CHECKPOINT_WRITERS_TIMEOUT;

/// The files that a request names, unless they are too many.
fn files(first: u64, others: impl ExactSizeIterator<Item = u64>) -> Result<Vec<FileId>, Failure> {
    if others.len() > TREE_BATCH_MAX {
        let what = format!("a call names at most {TREE_BATCH_MAX} files of a tree");
        return Err(failure::invalid(what));
    }
    std::iter::once(first).chain(others).map(file_id).collect()
}

impl IoService {
    pub(in crate::io) async fn checkpoint(
        &self,
        request: CheckpointRequest,
    ) -> Result<CheckpointReply, Failure> {
        let grids = std::iter::once(&request.grid).chain(request.others.iter().map(|o| &o.grid));
        let grids: Result<Vec<Grid>, _> = grids.map(|g: &WireGrid| Grid::try_from(g)).collect();
        let grids = grids.map_err(|e| failure::of_convert(&e))?;
        let (op, now) = (request.op, self.now());
        let files = files(request.file, request.others.iter().map(|o| o.file))?;
        let done = |files: &[FileId]| self.store.have_done(files, op);
        if request.more {
            self.held.hold(&self.gates, op, &files, done).await?;
            return Ok(CheckpointReply::default());
        }
        let held = self.held.take(op).await;
        if request.release {
            return Ok(CheckpointReply::default());
        }
        if held.len() as u64 != request.held {
            let what =
                format!("the files held for checkpoint {op} were released meanwhile; try again");
            return Err(Failure::new(Code::Busy, what));
        }
        let open = held.without(&files);
        let all: Vec<FileId> = held.files().chain(open.iter().copied()).collect();
        if !done(&all) {
            let deadline = Instant::now() + CHECKPOINT_WRITERS_TIMEOUT;
            let _gates = self.gates.close(&open, deadline).await?;
            let made = self.store.checkpoint_files(&all, op, now).await;
            made.map_err(|e| failure::of_store(&e))?;
        }
        drop(held);
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        let mut reply = CheckpointReply::default();
        for (place, (file, grid)) in files.iter().zip(&grids).enumerate() {
            let kept = self.kept(*file, op, grid)?;
            if place == 0 {
                (reply.size, reply.modified) = (kept.size, kept.modified);
            } else {
                reply.others.push(kept);
            }
        }
        Ok(reply)
    }

    /// Size and time of a file in a checkpoint, by its cells on this server.
    fn kept(&self, file: FileId, number: u64, grid: &Grid) -> Result<CheckpointedFile, Failure> {
        let forks = match self.store.checkpoint_forks(file, number) {
            // Made earlier and dropped since: the drop will be repeated, too.
            Err(StoreError::NoCheckpoint { .. } | StoreError::Stale { .. }) => Vec::new(),
            forks => forks.map_err(|e| failure::of_store(&e))?,
        };
        let data = forks
            .iter()
            .filter(|(key, _)| key.fork.as_str() == "data" && key.cell.0 < grid.cells());
        let mut kept = CheckpointedFile {
            size: 0,
            modified: i64::MIN,
        };
        for (key, status) in data {
            kept.size = kept.size.max(grid.file_size(key.cell, status.length));
            kept.modified = kept.modified.max(status.modified.0);
        }
        Ok(kept)
    }

    pub(in crate::io) async fn rollback(
        &self,
        request: RollbackRequest,
    ) -> Result<RollbackReply, Failure> {
        let files = files(request.file, request.others.iter().copied())?;
        {
            let held = self.held.take(request.op).await;
            let _gates = self
                .gates
                .close(
                    &held.without(&files),
                    Instant::now() + CHECKPOINT_WRITERS_TIMEOUT,
                )
                .await?;
            let (number, op, now) = (request.checkpoint, request.op, self.now());
            let rolled = self.store.roll_back_files(&files, number, op, now).await;
            for file in &files {
                self.tell_sharers(*file, Change::All).await;
            }
            rolled.map_err(|e| failure::of_store(&e))?;
        }
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(RollbackReply {})
    }

    pub(in crate::io) async fn drop_checkpoint(
        &self,
        request: DropCheckpointRequest,
    ) -> Result<DropCheckpointReply, Failure> {
        let files = files(request.file, request.others.iter().copied())?;
        for file in files {
            let dropped = self
                .store
                .drop_checkpoint(file, request.checkpoint, request.op);
            match dropped.await {
                // The file was deleted since, with its checkpoints.
                Err(StoreError::Stale { .. }) => {}
                dropped => dropped.map_err(|e| failure::of_store(&e))?,
            }
        }
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(DropCheckpointReply {})
    }
}
