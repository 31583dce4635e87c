//! Performing the operations on a store, and observing its contents.

use std::collections::BTreeMap;

use weft_layout::{CellOffset, FileId};
use weft_store::{Run, Scattered, ScrubPosition, Store, StoreError, Timestamp, Write};

use super::common::{Machine, pattern, read, write};
use super::oracle::{Model, Op, chunk, key, slot_of};

/// The same write as two strided runs, one in the gaps of the other, and a rest.
fn combed(write: Write) -> Scattered {
    let (offset, bytes) = (write.offset.0, &write.data);
    let tooth = (bytes.len() / 9).max(1);
    let teeth: Vec<&[u8]> = bytes.chunks_exact(tooth).collect();
    let rest = bytes.chunks_exact(tooth).remainder();
    let mut data = Vec::with_capacity(bytes.len());
    let mut runs = Vec::new();
    for first in 0..teeth.len().min(2) {
        let comb: Vec<&[u8]> = teeth[first..].iter().copied().step_by(2).collect();
        runs.push(Run {
            offset: CellOffset(offset + (first * tooth) as u64),
            at: data.len(),
            length: tooth as u64,
            count: comb.len() as u64,
            stride: 2 * tooth as u64,
        });
        data.extend_from_slice(&comb.concat());
    }
    if !rest.is_empty() {
        let at = offset + (teeth.len() * tooth) as u64;
        runs.push(Run::one(at, data.len(), rest.len() as u64));
        data.extend_from_slice(rest);
    }
    Scattered {
        key: write.key,
        chunk: write.chunk,
        runs,
        data: data.into(),
    }
}

pub async fn perform(store: &Store, machine: &Machine, n: u64, op: &Op) -> Result<(), StoreError> {
    let time = Timestamp(n.cast_signed());
    match op {
        Op::Write(file, pieces) => {
            let piece = |(i, (slot, offset, length)): (usize, &(u32, usize, usize))| {
                let data = pattern(n * 8 + i as u64, *length);
                write(&key(*file, *slot), chunk(*file), *offset as u64, data)
            };
            let writes = pieces.iter().enumerate().map(piece);
            if n.is_multiple_of(2) {
                let combed = writes.map(combed).collect();
                return store.write_scattered(combed, time).await;
            }
            store.write(writes.collect(), time).await
        }
        Op::Truncate(file, lengths) => {
            let lengths = lengths
                .iter()
                .map(|(slot, length)| (key(*file, *slot), *length as u64));
            store
                .truncate(FileId(*file), lengths.collect(), n + 1, time)
                .await
        }
        Op::Clear(file, (slot, offset, length)) => {
            let (start, end) = (*offset as u64, (*offset + *length) as u64);
            store.clear(&[(key(*file, *slot), start..end)], time).await
        }
        Op::Extend(file, (slot, length)) => {
            let key = key(*file, *slot);
            store.extend(&key, chunk(*file), *length as u64, time).await
        }
        Op::Checkpoint(file) => store.checkpoint(FileId(*file), n + 1, time).await,
        Op::RollBack(file, number) => {
            let file = FileId(*file);
            store.roll_back(file, *number, n + 1, time).await
        }
        Op::Drop(file, number) => {
            let file = FileId(*file);
            store.drop_checkpoint(file, *number, n + 1).await
        }
        Op::Create(file, slot) => {
            store
                .create_fork(&key(*file, *slot), chunk(*file), time)
                .await
        }
        Op::Scrub => scrub(store, machine, n).await,
        Op::Reclaim => store.trim().await.map(drop),
        Op::Remove(file, slot) => store.remove_fork(&key(*file, *slot)).await,
        Op::Delete(file) => store.delete_file(FileId(*file)).await,
        Op::Sync => store.sync().await,
        Op::Apply => store.apply().await,
        Op::Clean => {
            let cleaned = store.clean().await?.expect("nothing else goes on");
            assert_eq!(cleaned.missing, 0, "operation {n}");
            Ok(())
        }
        Op::DropCache => {
            store.drop_cache();
            Ok(())
        }
    }
}

/// Runs a whole pass; asserts that it finds nothing.
async fn scrub(store: &Store, machine: &Machine, n: u64) -> Result<(), StoreError> {
    store.scrub_begin().await?;
    let mut at = Some(ScrubPosition::default());
    while let Some(from) = at {
        let step = store.scrub(&from, 1 << (12 + n % 10)).await?;
        // A dead disk cannot be read.
        let nothing = step.findings.is_empty() || machine.disk.is_dead();
        assert!(nothing, "operation {n}: {:?}", step.findings);
        at = step.next;
    }
    Ok(())
}

/// The contents of some files of a store.
pub async fn observe(store: &Store, files: std::ops::Range<u64>) -> Model {
    let mut model = Model::default();
    for file in files {
        match store.forks(FileId(file)).await {
            Err(StoreError::Stale { .. }) => {
                model.deleted.insert(file);
            }
            Err(error) => panic!("cannot list file {file}: {error}"),
            Ok(forks) => {
                for (key, status) in forks {
                    let bytes = read(store, &key, 0, 1 << 22).await.unwrap();
                    assert_eq!(bytes.len() as u64, status.length);
                    model.forks.insert((file, slot_of(&key)), bytes);
                }
                for (number, _) in store.checkpoints(FileId(file)).unwrap() {
                    let slots = observe_checkpoint(store, file, number).await;
                    model.checkpoints.insert((file, number), slots);
                }
            }
        }
    }
    model
}

async fn observe_checkpoint(store: &Store, file: u64, number: u64) -> BTreeMap<u32, Vec<u8>> {
    let mut slots = BTreeMap::new();
    for (key, status) in store.checkpoint_forks(FileId(file), number).unwrap() {
        let slices = store.read_checkpoint(&key, number, CellOffset(0), 1 << 22);
        let bytes = slices.await.unwrap().concat();
        assert_eq!(bytes.len() as u64, status.length);
        slots.insert(slot_of(&key), bytes);
    }
    slots
}
