//! The gates that keep each write wholly before or after a checkpoint.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::Instant;
use weft_layout::FileId;
use weft_proto::{Code, Failure};

use crate::limits::IDLE_GATES_MAX;

/// One gate for each file that is being written.
#[derive(Default)]
pub(in crate::io) struct WriteGates(Mutex<GateTable>);

#[derive(Default)]
struct GateTable {
    by_file: HashMap<FileId, Arc<RwLock<()>>>,
    /// Unused gates are removed when there are this many.
    sweep_at: usize,
}

impl WriteGates {
    fn gate(&self, file: FileId) -> Arc<RwLock<()>> {
        let mut gates = self.0.lock();
        if gates.by_file.len() >= gates.sweep_at.max(IDLE_GATES_MAX) {
            gates.by_file.retain(|_, gate| Arc::strong_count(gate) > 1);
            gates.sweep_at = 2 * gates.by_file.len();
        }
        Arc::clone(gates.by_file.entry(file).or_default())
    }

    /// Waits until a write of the file may begin; it is in flight as long as the guard lives.
    pub(in crate::io) async fn enter(&self, file: FileId) -> OwnedRwLockReadGuard<()> {
        self.gate(file).read_owned().await
    }

    /// As [`WriteGates::enter`], if it need not wait.
    pub(in crate::io) fn try_enter(&self, file: FileId) -> Option<OwnedRwLockReadGuard<()>> {
        self.gate(file).try_read_owned().ok()
    }

    /// Waits for the writes in flight; none begins as long as the guards live.
    ///
    /// # Errors
    /// [`Code::Busy`] when writes are still in flight at `deadline`.
    pub(in crate::io) async fn close(
        &self,
        files: &[FileId],
        deadline: Instant,
    ) -> Result<Vec<OwnedRwLockWriteGuard<()>>, Failure> {
        let mut closed = Vec::with_capacity(files.len());
        for file in files {
            let gate = tokio::time::timeout_at(deadline, self.gate(*file).write_owned()).await;
            closed.push(gate.map_err(|_| {
                let what = "writes of the file that are in flight do not end; try again";
                Failure::new(Code::Busy, what)
            })?);
        }
        Ok(closed)
    }
}
