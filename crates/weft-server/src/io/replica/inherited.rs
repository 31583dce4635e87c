//! Incarnations of other replicas whose acknowledged changes this store has: a client's sync names
//! positions of the primary that acknowledged its writes, which may be another one by now.

use weft_kv::Position;
use weft_store::{Store, StoreError};

use crate::limits::INHERITED_MAX;

const NOTE: &str = "inherited incarnations";
const ENTRY_BYTES: usize = 24;

/// An incarnation, and the own position at which the store had everything that it acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    incarnation: u64,
    own: Position,
}

fn entries(store: &Store) -> Result<Vec<Entry>, StoreError> {
    let bytes = store.note(NOTE)?.unwrap_or_default();
    let number = |entry: &[u8; ENTRY_BYTES], at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&entry[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let all = bytes
        .as_chunks::<ENTRY_BYTES>()
        .0
        .iter()
        .map(|entry| Entry {
            incarnation: number(entry, 0),
            own: Position {
                incarnation: number(entry, 8),
                sequence: number(entry, 16),
            },
        });
    Ok(all.collect())
}

/// Whether the store has everything that this incarnation of another replica acknowledged.
pub(super) fn has(store: &Store, incarnation: u64) -> bool {
    let entries = entries(store).unwrap_or_default();
    let of = entries.iter().filter(|e| e.incarnation == incarnation);
    of.into_iter()
        .any(|entry| store.still_has(entry.own).is_ok())
}

/// All incarnations whose acknowledged changes the store has: its own, and inherited ones.
pub(super) fn all(store: &Store) -> Vec<u64> {
    let current = store.incarnation().number;
    let entries = entries(store).unwrap_or_default();
    let good = entries.iter().filter(|e| store.still_has(e.own).is_ok());
    let mut all: Vec<u64> = good.map(|e| e.incarnation).chain([current]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Notes that the store has everything that these incarnations have acknowledged.
///
/// # Durability
/// As [`Store::set_note`].
pub(super) fn add(store: &Store, incarnations: &[u64]) -> Result<(), StoreError> {
    let own = store.position();
    let mut all = entries(store)?;
    all.retain(|e| !incarnations.contains(&e.incarnation));
    let others = incarnations.iter().filter(|n| **n != own.incarnation);
    all.extend(others.map(|n| Entry {
        incarnation: *n,
        own,
    }));
    let from = all.len().saturating_sub(INHERITED_MAX);
    let mut bytes = Vec::with_capacity(ENTRY_BYTES * all.len());
    for entry in &all[from..] {
        for number in [entry.incarnation, entry.own.incarnation, entry.own.sequence] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    store.set_note(NOTE, &bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_kv::MemKv;
    use weft_store::{SimStorage, StoreConfig};

    use super::*;

    #[tokio::test]
    async fn an_inherited_incarnation_counts_as_long_as_the_own_position_does() {
        let (disk, index) = (Arc::new(SimStorage::new(3)), Arc::new(MemKv::new()));
        let open = async |incarnation| {
            let mut config = StoreConfig::new(disk.clone(), index.clone(), "boot".into());
            config.incarnation = incarnation;
            Store::open(config).await.unwrap()
        };
        let store = open(10).await;
        assert!(!has(&store, 77));
        add(&store, &[77, 78]).unwrap();
        add(&store, &[79, 78]).unwrap();
        assert!([77, 78, 79].iter().all(|n| has(&store, *n)));
        assert_eq!(all(&store), [10, 77, 78, 79]);
        store.close().await.unwrap();
        let again = open(11).await;
        assert!(has(&again, 77), "the process ended, and lost nothing");
        assert_eq!(all(&again), [11, 77, 78, 79]);
    }
}
