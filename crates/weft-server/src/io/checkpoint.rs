//! Checkpoints of a file's cells on this server, and the gate that keeps each write wholly before or after one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use weft_layout::{FileId, Grid};
use weft_proto::checkpoint::{
    CheckpointReply, CheckpointRequest, DropCheckpointReply, DropCheckpointRequest, RollbackReply,
    RollbackRequest,
};
use weft_proto::{Code, Failure};
use weft_store::StoreError;

use super::IoService;
use crate::failure;

/// How long a checkpoint waits for writes under way. A writer that stands still must not hold up all others: the service
/// asks again.
const WAIT: Duration = Duration::from_secs(2);
/// Gates that may be there before those that nobody uses are taken away.
const GATES: usize = 1024;

/// One gate for each file that is being written.
#[derive(Default)]
pub(super) struct Gates(Mutex<HashMap<FileId, Arc<RwLock<()>>>>);

impl Gates {
    fn gate(&self, file: FileId) -> Arc<RwLock<()>> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if gates.len() >= GATES {
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        Arc::clone(gates.entry(file).or_default())
    }

    /// Lets a write of the file begin; it is under way as long as the guard lives.
    pub(super) async fn enter(&self, file: FileId) -> OwnedRwLockReadGuard<()> {
        self.gate(file).read_owned().await
    }

    /// Waits for the writes under way; none begins as long as the guard lives.
    async fn close(&self, file: FileId) -> Result<OwnedRwLockWriteGuard<()>, Failure> {
        let closed = tokio::time::timeout(WAIT, self.gate(file).write_owned()).await;
        closed.map_err(|_| {
            let what = format!("writes of file {file} under way do not come to their end");
            Failure::new(Code::Busy, what)
        })
    }
}

impl IoService {
    pub(super) async fn checkpoint(
        &self,
        request: CheckpointRequest,
    ) -> Result<CheckpointReply, Failure> {
        let grid = Grid::try_from(&request.grid).map_err(|e| failure::of_convert(&e))?;
        let (file, op) = (FileId(request.file), request.op);
        {
            let _closed = self.gates.close(file).await?;
            let made = self.store.checkpoint(file, op, self.now()).await;
            made.map_err(|e| failure::of_store(&e))?;
        }
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        let forks = match self.store.checkpoint_forks(file, op) {
            // Done before, and dropped since: its drop will be asked for again, too.
            Err(StoreError::NoCheckpoint { .. }) => Vec::new(),
            forks => forks.map_err(|e| failure::of_store(&e))?,
        };
        let data = forks
            .iter()
            .filter(|(key, _)| key.fork.as_str() == "data" && key.cell.0 < grid.cells());
        let sizes = data.map(|(key, status)| grid.file_size(key.cell, status.length));
        Ok(CheckpointReply {
            size: sizes.max().unwrap_or(0),
        })
    }

    pub(super) async fn rollback(
        &self,
        request: RollbackRequest,
    ) -> Result<RollbackReply, Failure> {
        let file = FileId(request.file);
        {
            let _closed = self.gates.close(file).await?;
            let (number, op) = (request.checkpoint, request.op);
            let rolled = self.store.roll_back(file, number, op, self.now()).await;
            rolled.map_err(|e| failure::of_store(&e))?;
        }
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(RollbackReply {})
    }

    pub(super) async fn drop_checkpoint(
        &self,
        request: DropCheckpointRequest,
    ) -> Result<DropCheckpointReply, Failure> {
        let (file, number) = (FileId(request.file), request.checkpoint);
        let dropped = self.store.drop_checkpoint(file, number, request.op).await;
        dropped.map_err(|e| failure::of_store(&e))?;
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(DropCheckpointReply {})
    }
}
