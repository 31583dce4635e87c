//! Coded bytes that are needed here: from another replica, or from rows on other servers
//! (`docs/design/0050-parity.md`).
//!
//! No turn is needed: the store takes bytes only for blocks that are still coded, and only if they
//! have the checksums of what was written there.

use std::ops::Range;

use bytes::Bytes;
use tokio::time::sleep;
use weft_layout::{CellOffset, FileId};
use weft_store::{BLOCK, ForkKey, ReadSlice, Store, StoreError};

use super::mend::{Asked, by_blocks, bytes_of, elsewhere};
use super::state::{Replicas, Role};
use super::wire;
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

/// Bytes of a checkpoint of which some are coded: they are computed for each read.
///
/// # Errors
/// Nothing but that they cannot be computed: the log says why.
pub(super) async fn read_of_checkpoint(
    store: &Store,
    replicas: &Replicas,
    (key, checkpoint): (&ForkKey, Option<u64>),
    at: CellOffset,
    length: u64,
) -> Result<Vec<ReadSlice>, ()> {
    let all = checkpoint.and_then(|number| store.checkpoint_forks(key.file, number).ok());
    let end = all.into_iter().flatten().find(|(of, _)| of == key);
    let end = end
        .map_or(0, |(_, status)| status.length)
        .min(at.0.saturating_add(length));
    if at.0 >= end {
        return Ok(Vec::new());
    }
    let start = at.0 / BLOCK as u64 * BLOCK as u64;
    let of = (key, checkpoint);
    match by_blocks(store, replicas, of, start..end, Asked::InSync).await {
        Ok(data) => Ok(vec![data.slice((at.0 - start) as usize..).into()]),
        Err(reason) => {
            tracing::error!(%key, checkpoint, reason, "cannot compute a checkpoint's bytes from parity");
            Err(())
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
    let other = match elsewhere(replicas, key, range.clone(), Asked::AllWithChanges).await {
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
    let got = match bytes_of(&primary, term, &key, range.clone()).await {
        Ok(data) => put_on_backup(store, replicas, &key, range.start, data).await,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = &got {
        tracing::warn!(%key, reason, "the primary's bytes cannot be put around a change");
    }
    got.is_ok()
}

/// Gives coded blocks of a backup the primary's bytes. If it has missed changes of them, they are
/// written over: the primary compares and sends what differs before the backup is in sync.
async fn put_on_backup(
    store: &Store,
    replicas: &Replicas,
    key: &ForkKey,
    at: u64,
    data: Bytes,
) -> Result<(), String> {
    let restored = store.restore_coded(key, CellOffset(at), &data).await;
    let restored = restored.map_err(|error| error.to_string())?;
    if restored.blocks > 0 || restored.refused == 0 {
        return Ok(());
    }
    if replicas.role() == (Role::Backup { in_sync: true }) {
        return Err("blocks have other checksums than what was written".into());
    }
    let status = store.status(key).await.map_err(|e| e.to_string())?;
    let status = status.ok_or("the fork is gone")?;
    let write = wire::whole_part(key, status.chunk, at, data);
    let written = store.write_scattered(vec![write], status.modified).await;
    written.map_err(|e| e.to_string())
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
        let number = (checkpoint != 0).then_some(checkpoint);
        let is_backup = || matches!(replicas.role(), Role::Backup { .. });
        match store.code_blocks(*file, number, &is_backup).await {
            Ok(bytes) => tracing::debug!(%file, bytes, "blocks are only in parity now"),
            // It was coded again, or deleted.
            Err(StoreError::NoCheckpoint { .. } | StoreError::Stale { .. }) => {}
            Err(error) => tracing::warn!(%file, %error, "cannot drop coded blocks"),
        }
    }
}
