//! Checkpoints of files' cells on this server, and the gates that keep each write wholly before or
//! after one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::Instant;
use weft_layout::{FileId, Grid};
use weft_proto::checkpoint::{
    CheckpointReply, CheckpointRequest, DropCheckpointReply, DropCheckpointRequest, KeptFile,
    RollbackReply, RollbackRequest,
};
use weft_proto::io::Grid as WireGrid;
use weft_proto::limits::TREE_BATCH_MAX;
use weft_proto::{Code, Failure};
use weft_store::StoreError;

use super::IoService;
use crate::failure;

/// How long a checkpoint waits for writes under way. A writer that stands still must not hold up
/// all others: the service asks again.
pub(super) const WAIT: Duration = Duration::from_secs(2);
/// Gates that may be there before those that nobody uses are taken away.
const GATES: usize = 1024;

/// One gate for each file that is being written.
#[derive(Default)]
pub(super) struct Gates(Mutex<Doors>);

#[derive(Default)]
struct Doors {
    by_file: HashMap<FileId, Arc<RwLock<()>>>,
    /// So many are left alone before those that nobody uses are taken away.
    bound: usize,
}

impl Gates {
    fn gate(&self, file: FileId) -> Arc<RwLock<()>> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if gates.by_file.len() >= gates.bound.max(GATES) {
            gates.by_file.retain(|_, gate| Arc::strong_count(gate) > 1);
            gates.bound = 2 * gates.by_file.len();
        }
        Arc::clone(gates.by_file.entry(file).or_default())
    }

    /// Lets a write of the file begin; it is under way as long as the guard lives.
    pub(super) async fn enter(&self, file: FileId) -> OwnedRwLockReadGuard<()> {
        self.gate(file).read_owned().await
    }

    /// Waits for the writes under way; none begins as long as the guards live.
    pub(super) async fn close(
        &self,
        files: &[FileId],
        until: Instant,
    ) -> Result<Vec<OwnedRwLockWriteGuard<()>>, Failure> {
        let mut closed = Vec::with_capacity(files.len());
        for file in files {
            let gate = tokio::time::timeout_at(until, self.gate(*file).write_owned()).await;
            closed.push(gate.map_err(|_| {
                let what =
                    "writes to the file that are under way do not come to their end; try again";
                Failure::new(Code::Busy, what)
            })?);
        }
        Ok(closed)
    }
}

/// The files that a request is about, if they are not too many.
fn files(first: u64, others: impl ExactSizeIterator<Item = u64>) -> Result<Vec<FileId>, Failure> {
    if others.len() > TREE_BATCH_MAX {
        let what = format!("a call is about at most {TREE_BATCH_MAX} files of a tree");
        return Err(failure::invalid(what));
    }
    std::iter::once(first)
        .chain(others)
        .map(super::file_id)
        .collect()
}

impl IoService {
    pub(super) async fn checkpoint(
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
        if held.len() as u64 != request.held {
            let what = format!("what was held for checkpoint {op} was let go meanwhile");
            return Err(Failure::new(Code::Busy, what));
        }
        let all: Vec<FileId> = held.files().chain(files.iter().copied()).collect();
        if !done(&all) {
            let until = Instant::now() + WAIT;
            let _closed = self.gates.close(&files, until).await?;
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

    /// What a file is in a checkpoint, as far as it lies here.
    fn kept(&self, file: FileId, number: u64, grid: &Grid) -> Result<KeptFile, Failure> {
        let forks = match self.store.checkpoint_forks(file, number) {
            // Done before, and dropped since: its drop will be asked for again, too.
            Err(StoreError::NoCheckpoint { .. } | StoreError::Stale { .. }) => Vec::new(),
            forks => forks.map_err(|e| failure::of_store(&e))?,
        };
        let data = forks
            .iter()
            .filter(|(key, _)| key.fork.as_str() == "data" && key.cell.0 < grid.cells());
        let mut kept = KeptFile {
            size: 0,
            modified: i64::MIN,
        };
        for (key, status) in data {
            kept.size = kept.size.max(grid.file_size(key.cell, status.length));
            kept.modified = kept.modified.max(status.modified.0);
        }
        Ok(kept)
    }

    pub(super) async fn rollback(
        &self,
        request: RollbackRequest,
    ) -> Result<RollbackReply, Failure> {
        let files = files(request.file, request.others.iter().copied())?;
        {
            let _closed = self.gates.close(&files, Instant::now() + WAIT).await?;
            let (number, op, now) = (request.checkpoint, request.op, self.now());
            let rolled = self.store.roll_back_files(&files, number, op, now).await;
            rolled.map_err(|e| failure::of_store(&e))?;
        }
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(RollbackReply {})
    }

    pub(super) async fn drop_checkpoint(
        &self,
        request: DropCheckpointRequest,
    ) -> Result<DropCheckpointReply, Failure> {
        let files = files(request.file, request.others.iter().copied())?;
        for file in files {
            let dropped = self
                .store
                .drop_checkpoint(file, request.checkpoint, request.op);
            match dropped.await {
                // Deleted since, with its checkpoints.
                Err(StoreError::Stale { .. }) => {}
                dropped => dropped.map_err(|e| failure::of_store(&e))?,
            }
        }
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(DropCheckpointReply {})
    }
}
