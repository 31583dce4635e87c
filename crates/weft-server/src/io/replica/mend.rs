//! Bytes that cannot be read here: read from another replica, and written here anew
//! (`docs/design/0048-short-absences-and-damage.md`).

use std::ops::Range;

use bytes::Bytes;
use tokio::time::timeout;
use weft_layout::{CellOffset, of_chunk_code};
use weft_net::Link;
use weft_proto::replica::ReplicaReadRequest;
use weft_store::{ADDRESSED, BLOCK, Fault, Finding, ForkKey, Store, StoreError};

use super::parts::part;
use super::state::{Part, Replicas};
use super::turns::Span;
use super::wire;
use crate::limits::{REPLICA_CALL_TIMEOUT, REPLICA_PART_BYTES, REPLICA_READ_MAX};

/// Whether an error says that stored bytes are not what was written.
pub(super) fn is_damage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::BadChecksum { .. } | StoreError::Lost { .. } | StoreError::Unproven { .. }
    )
}

/// Whether another replica may have the bytes that a read has not got.
pub(super) fn may_be_elsewhere(error: &StoreError) -> bool {
    is_damage(error) || matches!(error, StoreError::DiskFailed { .. } | StoreError::Io { .. })
}

/// Mends what cannot be read of a range of a live fork; false if something is left.
pub(super) async fn mend(
    store: &Store,
    replicas: &Replicas,
    key: &ForkKey,
    range: Range<u64>,
    how: Mending,
) -> bool {
    let Ok(Some(status)) = store.status(key).await else {
        return false;
    };
    let end = range.end.min(status.length);
    if range.start >= end {
        return false;
    }
    for number in range.start / REPLICA_PART_BYTES..end.div_ceil(REPLICA_PART_BYTES) {
        let mended = mend_part(store, replicas, key, number, how).await;
        if let Err(reason) = mended {
            tracing::error!(%key, part = number, reason, "cannot mend damaged data from another replica");
            return false;
        }
    }
    true
}

/// When a part is written anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::io) enum Mending {
    /// If it cannot be read.
    Unreadable,
    /// In any case: the disk's copy is known to be bad, whatever the cache has.
    Always,
}

/// Mends a part. The caller has no turn of its bytes.
pub(super) async fn mend_part(
    store: &Store,
    replicas: &Replicas,
    key: &ForkKey,
    number: u64,
    how: Mending,
) -> Result<(), String> {
    let start = number * REPLICA_PART_BYTES;
    let span = Span::Bytes(key.clone(), start..start + REPLICA_PART_BYTES);
    let _turn = replicas.turns.take(vec![span]).await;
    mend_in_turn(store, replicas, (key, number), how, None).await
}

/// As [`mend_part`], in the turn that the caller has, and without the bytes of one replica.
pub(super) async fn mend_in_turn(
    store: &Store,
    replicas: &Replicas,
    (key, number): (&ForkKey, u64),
    how: Mending,
    without: Option<u32>,
) -> Result<(), String> {
    let start = number * REPLICA_PART_BYTES;
    let status = store.status(key).await.map_err(|e| e.to_string())?;
    let status = status.ok_or("the fork is gone")?;
    let data = match part(store, key, None, number).await {
        Ok(_) if how == Mending::Unreadable => return Ok(()),
        // Verified in memory.
        Ok(own) => wire::joined(&own),
        Err(damage) => {
            let range = start..status.length.min(start + REPLICA_PART_BYTES);
            let asked = without.map_or(Asked::InSync, Asked::InSyncBut);
            match elsewhere(replicas, key, range.clone(), asked).await {
                Ok(data) => data,
                Err(reason) => {
                    let computed = by_blocks(store, replicas, (key, None), range, asked).await;
                    computed.map_err(|rows| format!("{damage}; {reason}; parity: {rows}"))?
                }
            }
        }
    };
    let write = wire::whole_part(key, status.chunk, start, data);
    // The others have it already.
    let written = store.write_scattered(vec![write], status.modified).await;
    written.map_err(|e| e.to_string())?;
    let read = part(store, key, None, number).await;
    read.map_err(|e| e.to_string())?;
    tracing::warn!(%key, part = number, "damaged data was mended");
    Ok(())
}

/// Which replicas are asked for bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// Those in sync.
    InSync,
    /// Those in sync but for one.
    InSyncBut(u32),
    /// Also those that catch up: what they say is compared with checksums.
    AllWithChanges,
}

/// Bytes of a fork, from any of these replicas.
pub(super) async fn elsewhere(
    replicas: &Replicas,
    key: &ForkKey,
    range: Range<u64>,
    asked: Asked,
) -> Result<Bytes, String> {
    let term = replicas.targets().map_err(|e| e.to_string())?.0;
    let mut reason = "no other replica is in sync".to_owned();
    let peers = replicas.peers().into_iter();
    let may_have = |(number, _, part): &(u32, Link, Part)| match asked {
        Asked::InSync => *part == Part::InSync,
        Asked::InSyncBut(other) => *part == Part::InSync && *number != other,
        Asked::AllWithChanges => *part != Part::Away,
    };
    for (number, link, _) in peers.filter(may_have) {
        match bytes_of(&link, term, key, range.clone()).await {
            Ok(data) => return Ok(data),
            Err(error) => reason = format!("replica {number}: {error}"),
        }
    }
    Err(reason)
}

/// Bytes of a fork of which some cannot be read here: block by block from here, from another
/// replica, or from rows where these have the checksums of what was written.
pub(super) async fn by_blocks(
    store: &Store,
    replicas: &Replicas,
    (key, checkpoint): (&ForkKey, Option<u64>),
    range: Range<u64>,
    asked: Asked,
) -> Result<Bytes, String> {
    let status = store.status(key).await.map_err(|e| e.to_string())?;
    let (chunk, block) = (status.ok_or("the fork is gone")?.chunk, BLOCK as u64);
    let (chunk, _) = of_chunk_code(chunk);
    if !u64::from(chunk).is_multiple_of(block) || !range.start.is_multiple_of(block) {
        return Err("its chunks are no whole blocks".into());
    }
    let sums = store.block_sums(key, checkpoint, range.clone());
    let sums = sums.map_err(|e| e.to_string())?;
    let rows = replicas.rows.read(key, range.clone()).await;
    let mut data = vec![0; (range.end - range.start) as usize];
    for (n, part) in data.chunks_mut(BLOCK).enumerate() {
        let (at, length) = (range.start + n as u64 * block, part.len() as u64);
        let own = match checkpoint {
            None => store.read(key, CellOffset(at), length).await,
            Some(of) => store.read_checkpoint(key, of, CellOffset(at), length).await,
        };
        if let Ok(own) = own {
            let own = own.concat();
            part[..own.len()].copy_from_slice(&own);
            continue;
        }
        let is_right = |bytes: &[u8]| {
            let mut whole = [0; BLOCK];
            whole[..bytes.len()].copy_from_slice(bytes);
            sums.get(n) == Some(&weft_sum::of(&whole))
        };
        let place = n * BLOCK..n * BLOCK + part.len();
        let row = rows.as_ref().map(|rows| &rows[place]);
        if let Ok(row) = row
            && is_right(row)
        {
            part.copy_from_slice(row);
            continue;
        }
        if checkpoint.is_some() {
            return Err(row
                .err()
                .cloned()
                .unwrap_or_else(|| "its row has other bytes".into()));
        }
        let other = elsewhere(replicas, key, at..at + length, asked).await?;
        part.copy_from_slice(&other);
    }
    Ok(data.into())
}

/// The bytes that a finding of a scrub is about, if they are of a live fork and of no addressed
/// chunk.
pub(in crate::io) async fn damaged_range(store: &Store, finding: &Finding) -> Option<Range<u64>> {
    if finding.key.file == ADDRESSED || finding.key.of_recipe().is_some() {
        return None;
    }
    match &finding.fault {
        Fault::Lost {
            range,
            checkpoint: None,
        }
        | Fault::Unproven {
            range,
            checkpoint: None,
        } => Some(range.clone()),
        Fault::Checksum | Fault::Unreadable { .. } => {
            let status = store.status(&finding.key).await.ok()??;
            let chunk = u64::from(of_chunk_code(status.chunk).0);
            let at = |block: u32| finding.chunk * chunk + u64::from(block) * 4096;
            let range = at(finding.blocks.start)..at(finding.blocks.end);
            (range.start < status.length).then_some(range)
        }
        _ => None,
    }
}

pub(super) async fn bytes_of(
    link: &Link,
    term: u64,
    key: &ForkKey,
    range: Range<u64>,
) -> Result<Bytes, String> {
    let mut all = Vec::with_capacity((range.end.saturating_sub(range.start)) as usize);
    let mut at = range.start;
    while at < range.end {
        let length = (range.end - at).min(REPLICA_READ_MAX);
        let request = ReplicaReadRequest {
            term,
            fork: wire::fork_id(key),
            offset: at,
            length,
        };
        let asked = async {
            let (connection, _) = link.connection().await?;
            connection.call(&request).await
        };
        let reply = timeout(REPLICA_CALL_TIMEOUT, asked).await;
        let reply = reply.map_err(|_| "it was not answered".to_owned())?;
        let data = reply.map_err(|e| e.to_string())?.data;
        if data.len() as u64 != length {
            return Err(format!("it has {} of {length} bytes", data.len()));
        }
        all.extend_from_slice(&data);
        at += length;
    }
    Ok(all.into())
}
