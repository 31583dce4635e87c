//! What the primary does about coded bytes: it brings back those around a change before it sends
//! the change, and tells backups which blocks they need not keep
//! (`docs/design/0050-parity.md`).

use std::ops::Range;

use weft_layout::{CellOffset, FileId};
use weft_proto::replica::{Change, FileAction, FileOperation};
use weft_store::{BLOCK, ForkKey, Scattered, Store, StoreError, Timestamp};

use super::restore::read_restored;
use super::store::ReplicatedStore;
use super::turns::Span;

/// The ends of a range that lie within blocks: each as a byte of the range's last or first block.
fn edges(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    let ends = [range.start, range.end].into_iter();
    ends.filter(|at| !at.is_multiple_of(BLOCK as u64))
}

impl ReplicatedStore {
    /// Brings back the bytes around the ends of ranges of files that may have coded ones, so that
    /// a change cannot fail here after the others have made it.
    pub(super) async fn restore_edges(
        &self,
        ranges: Vec<(ForkKey, Range<u64>)>,
    ) -> Result<(), StoreError> {
        let store: &Store = self;
        for (key, range) in ranges {
            if !store.may_have_coded(key.file) {
                continue;
            }
            for at in edges(&range) {
                let at = CellOffset(at - 1);
                let read = read_restored(store, self.all_replicas(), &key, at, 2).await;
                // Other errors are those of the change.
                if let Err(error @ StoreError::Coded { .. }) = read {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// As [`ReplicatedStore::restore_edges`], of all pieces of writes.
    pub(super) async fn restore_around(&self, writes: &[Scattered]) -> Result<(), StoreError> {
        let store: &Store = self;
        let coded = writes.iter().filter(|w| store.may_have_coded(w.key.file));
        let pieces = coded.flat_map(|write| {
            let runs = write.runs.iter();
            let pieces = runs.flat_map(|run| {
                (0..run.count).map(|n| {
                    let start = run.offset.0 + n * run.stride;
                    start..start + run.length
                })
            });
            pieces.map(|piece| (write.key.clone(), piece))
        });
        self.restore_edges(pieces.collect()).await
    }

    /// Lets the backups drop blocks of which there is parity: those of a checkpoint of a file, or
    /// of the file without one.
    pub(in crate::io) async fn code_backups(
        &self,
        file: FileId,
        checkpoint: u64,
    ) -> Result<(), StoreError> {
        let Some(replicas) = self.replicas().cloned() else {
            return Ok(());
        };
        let change = Change::Files(FileOperation {
            files: vec![file.0],
            action: FileAction::Code.into(),
            op: 0,
            checkpoint,
        });
        let told = tokio::spawn(async move {
            let _turn = replicas.begin_change(vec![Span::File(file)]).await;
            replicas.send(change, Vec::new(), Timestamp(0), true).await
        });
        match told.await {
            Ok(told) => told.map(drop),
            Err(_) => Err(StoreError::Closed),
        }
    }
}
