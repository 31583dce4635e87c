//! Coded bytes that are needed here: from another replica, or from rows on other servers
//! (`docs/design/0050-parity.md`).
//!
//! No turn is needed: the store takes bytes only for blocks that are still coded, and only if they
//! have the checksums of what was written there.

use std::ops::Range;

use bytes::Bytes;
use tokio::time::sleep;
use weft_layout::{CellOffset, FileId};
use weft_proto::replica::{Change, FileAction, FileOperation};
use weft_store::{BLOCK, ForkKey, ReadSlice, Scattered, Store, StoreError, Timestamp};

use super::mend::{bytes_of, elsewhere};
use super::state::{Replicas, Role};
use super::store::ReplicatedStore;
use super::turns::Span;
use crate::limits::{CODE_AGAIN, CODED_RUN, CODED_RUN_OF_BACKUP, CODED_TRIES};

/// The coded bytes that an error is about, in whole blocks and up to a bound.
fn coded_range(error: &StoreError, most: u64) -> Option<(ForkKey, Range<u64>)> {
    let StoreError::Coded {
        file,
        cell,
        fork,
        range,
    } = error
    else {
        return None;
    };
    let key = ForkKey {
        file: *file,
        cell: *cell,
        fork: fork.clone(),
    };
    Some((key, range.start..range.end.min(range.start + most)))
}

/// As [`Store::read`]; coded bytes are brought back first.
pub(super) async fn read_restored(
    store: &Store,
    replicas: &Replicas,
    key: &ForkKey,
    at: CellOffset,
    length: u64,
) -> Result<Vec<Bytes>, StoreError> {
    let mut tries = CODED_TRIES;
    loop {
        match store.read(key, at, length).await {
            Err(error) if tries > 0 && restored(store, replicas, &error).await => tries -= 1,
            done => return done,
        }
    }
}

/// As [`Store::read_slices`] of a live fork; coded bytes are brought back first.
pub(super) async fn read_slices_restored(
    store: &Store,
    replicas: &Replicas,
    key: &ForkKey,
    at: CellOffset,
    length: u64,
) -> Result<Vec<ReadSlice>, StoreError> {
    let mut tries = CODED_TRIES;
    loop {
        match store.read_slices(key, None, at, length).await {
            Err(error) if tries > 0 && restored(store, replicas, &error).await => tries -= 1,
            done => return done,
        }
    }
}

/// Whether an error is about coded bytes that were brought back.
async fn restored(store: &Store, replicas: &Replicas, error: &StoreError) -> bool {
    let Some((key, range)) = coded_range(error, CODED_RUN) else {
        return false;
    };
    // A backup's blocks are to stay as they are.
    if matches!(replicas.role(), Role::Backup { .. }) {
        return false;
    }
    let (start, end) = (range.start, range.end);
    let restored = restore(store, replicas, &key, range).await;
    if let Err(reason) = &restored {
        tracing::error!(%key, start, end, reason, "cannot compute bytes from parity");
    }
    restored.is_ok()
}

/// Brings bytes of a live fork back: from a replica that was primary before, or from their rows.
async fn restore(
    store: &Store,
    replicas: &Replicas,
    key: &ForkKey,
    range: Range<u64>,
) -> Result<(), String> {
    let offset = CellOffset(range.start);
    let other = match elsewhere(replicas, key, range.clone(), None).await {
        Ok(data) => put(store, key, offset, &data).await,
        Err(reason) => Err(reason),
    };
    let Err(reason) = other else { return Ok(()) };
    let data = replicas.rows.read(key, range).await;
    let data = data.map_err(|error| format!("{error}; other replicas: {reason}"))?;
    put(store, key, offset, &data).await
}

/// Gives coded blocks their bytes, if these are the right ones.
async fn put(store: &Store, key: &ForkKey, at: CellOffset, data: &[u8]) -> Result<(), String> {
    let restored = store.restore_coded(key, at, data).await;
    let restored = restored.map_err(|error| error.to_string())?;
    if restored.refused > 0 {
        let refused = restored.refused;
        return Err(format!(
            "{refused} blocks have other checksums than what was written"
        ));
    }
    Ok(())
}

/// On a backup: whether an error is about coded bytes around a change, which the primary had.
pub(super) async fn got_from_primary(
    store: &Store,
    replicas: &Replicas,
    term: u64,
    error: &StoreError,
) -> bool {
    let coded = coded_range(error, CODED_RUN_OF_BACKUP);
    let Some(((key, range), primary)) = coded.zip(replicas.primary_link()) else {
        return false;
    };
    let at = CellOffset(range.start);
    let got = match bytes_of(&primary, term, &key, range).await {
        Ok(data) => put(store, &key, at, &data).await,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = &got {
        tracing::warn!(%key, reason, "the primary's bytes cannot be put around a change");
    }
    got.is_ok()
}

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

/// Drops coded blocks of files on this backup, one file after the other, without keeping the
/// primary waiting; and once more when checkpoints that were dropped just now are merged. What a
/// crash leaves is dropped when the primary says so again.
pub(super) fn code_later(
    store: Store,
    replicas: std::sync::Arc<Replicas>,
    files: Vec<FileId>,
    checkpoint: u64,
) {
    tokio::spawn(async move {
        code_here(&store, &replicas, &files, checkpoint).await;
        sleep(CODE_AGAIN).await;
        if store.reclaim().await.is_ok() {
            code_here(&store, &replicas, &files, checkpoint).await;
        }
    });
}

async fn code_here(store: &Store, replicas: &Replicas, files: &[FileId], checkpoint: u64) {
    let _alone = replicas.coding.lock().await;
    for file in files {
        if !matches!(replicas.role(), Role::Backup { .. }) {
            return;
        }
        let number = (checkpoint != 0).then_some(checkpoint);
        match store.code_blocks(*file, number).await {
            Ok(bytes) => tracing::debug!(%file, bytes, "blocks are only in parity now"),
            // It was coded again, or deleted.
            Err(StoreError::NoCheckpoint { .. } | StoreError::Stale { .. }) => {}
            Err(error) => tracing::warn!(%file, %error, "cannot drop coded blocks"),
        }
    }
}
