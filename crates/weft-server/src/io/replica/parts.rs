//! Parts of forks, which replicas compare by their hashes and send as a whole.

use std::ops::Range;

use bytes::Bytes;
use weft_layout::CellOffset;
use weft_store::{ForkKey, Store, StoreError};
use weft_sum::ChunkName;

use crate::limits::{REPLICA_PART_BYTES, REPLICA_PARTS_MAX};

/// A part of a fork that holds data, and its hash; `None`: its bytes cannot be read.
pub(super) type Part = (u64, Option<ChunkName>);

/// The parts of a fork with these numbers that hold more than zeros, and where to go on.
pub(super) async fn parts(
    store: &Store,
    key: &ForkKey,
    checkpoint: Option<u64>,
    numbers: Range<u64>,
) -> Result<(Vec<Part>, Option<u64>), StoreError> {
    let (stored, next) = parts_with_data(store, key, checkpoint, numbers).await?;
    let mut found: Vec<Part> = Vec::with_capacity(stored.len());
    for number in stored {
        match hash(store, key, checkpoint, number).await {
            Ok(None) => {}
            Ok(some) => found.push((number, some)),
            // A damaged part differs from every other.
            Err(StoreError::Closed) => return Err(StoreError::Closed),
            Err(_) => found.push((number, None)),
        }
    }
    Ok((found, next))
}

/// The parts of a fork with these numbers for which something is stored, a bounded number of them,
/// and where to go on.
pub(super) async fn parts_with_data(
    store: &Store,
    key: &ForkKey,
    checkpoint: Option<u64>,
    numbers: Range<u64>,
) -> Result<(Vec<u64>, Option<u64>), StoreError> {
    let mut found: Vec<u64> = Vec::new();
    let mut at = numbers.start.saturating_mul(REPLICA_PART_BYTES);
    loop {
        let runs = store.data_runs(key, checkpoint, CellOffset(at), 64).await?;
        for run in &runs.runs {
            let from = (run.start / REPLICA_PART_BYTES).max(numbers.start);
            for number in from..run.end.div_ceil(REPLICA_PART_BYTES) {
                if found.last().is_some_and(|last| *last >= number) {
                    continue;
                }
                if number >= numbers.end {
                    return Ok((found, None));
                }
                if found.len() == REPLICA_PARTS_MAX {
                    return Ok((found, Some(number)));
                }
                found.push(number);
            }
        }
        match runs.next {
            Some(next) => at = next.0,
            None => return Ok((found, None)),
        }
    }
}

/// Whether everything of a part that cannot be read is coded.
pub(super) async fn only_coded(
    store: &Store,
    key: &ForkKey,
    checkpoint: Option<u64>,
    number: u64,
) -> bool {
    let start = number * REPLICA_PART_BYTES;
    let whole = start..start + REPLICA_PART_BYTES;
    let mut left: Vec<Range<u64>> = std::iter::once(whole).collect();
    while let Some(range) = left.pop() {
        if range.is_empty() {
            continue;
        }
        let (at, length) = (CellOffset(range.start), range.end - range.start);
        let read = match checkpoint {
            None => store.read(key, at, length).await,
            Some(of) => store.read_checkpoint(key, of, at, length).await,
        };
        match read {
            Ok(_) => {}
            Err(StoreError::Coded { range: coded, .. }) => {
                let whole = coded.end.next_multiple_of(weft_store::BLOCK as u64);
                left.push(range.start..coded.start.clamp(range.start, range.end));
                left.push(whole.clamp(range.start, range.end)..range.end);
            }
            Err(_) => return false,
        }
    }
    true
}

/// The hash of the checksums of a part's blocks, coded ones included.
pub(super) fn hash_of_sums(
    store: &Store,
    key: &ForkKey,
    checkpoint: Option<u64>,
    number: u64,
) -> Result<Option<ChunkName>, StoreError> {
    let start = number * REPLICA_PART_BYTES;
    let sums = store.block_sums(key, checkpoint, start..start + REPLICA_PART_BYTES)?;
    // A number more than there are sums: the name does not depend on zeros at the end.
    let mut bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    bytes.push(1);
    Ok(ChunkName::of_slices([&bytes[..]].into_iter()))
}

/// The hash of one part; `None`: it is zeros alone, or beyond the fork's end.
pub(super) async fn hash(
    store: &Store,
    key: &ForkKey,
    checkpoint: Option<u64>,
    number: u64,
) -> Result<Option<ChunkName>, StoreError> {
    let data = part(store, key, checkpoint, number).await?;
    Ok(ChunkName::of_slices(data.iter().map(|slice| &slice[..])))
}

/// The bytes of one part.
pub(super) async fn part(
    store: &Store,
    key: &ForkKey,
    checkpoint: Option<u64>,
    number: u64,
) -> Result<Vec<Bytes>, StoreError> {
    let at = CellOffset(number * REPLICA_PART_BYTES);
    match checkpoint {
        None => store.read(key, at, REPLICA_PART_BYTES).await,
        Some(of) => store.read_checkpoint(key, of, at, REPLICA_PART_BYTES).await,
    }
}
