use std::sync::Arc;

use bytes::Bytes;
use weft_kv::MemKv;
use weft_layout::{CellIndex, CellOffset, FileId};

use super::*;
use crate::config::StoreConfig;
use crate::key::{ForkName, Timestamp, Write};
use crate::state::StoreState;
use crate::storage::sim::SimStorage;

fn key() -> ForkKey {
    ForkKey {
        file: FileId(1),
        cell: CellIndex(0),
        fork: ForkName::data(),
    }
}

async fn write(store: &Store, offset: u64, mark: u8) {
    let write = Write {
        key: key(),
        chunk: 16 << 10,
        offset: CellOffset(offset),
        data: Bytes::from(vec![mark; 4096]),
    };
    store.write(vec![write], Timestamp(1)).await.unwrap();
}

/// The findings of a check, and their repairs.
type Findings = Vec<(Fault, bool)>;

async fn checked(store: &Store, repair: bool) -> Findings {
    let (mut pass, mut found) = (store.check_begin().await.unwrap(), Vec::new());
    loop {
        let step = store
            .check(
                &mut pass,
                CheckOptions {
                    repair,
                    ..CheckOptions::default()
                },
            )
            .await
            .unwrap();
        found.extend(
            step.findings
                .into_iter()
                .map(|(f, d)| (f.fault, d.is_some())),
        );
        if step.done {
            return found;
        }
    }
}

async fn opened() -> Store {
    let disk: Arc<dyn crate::Storage> = Arc::new(SimStorage::new(1));
    let mut config = StoreConfig::new(disk, Arc::new(MemKv::new()), "boot".into());
    (config.cache_bytes, config.growth_bytes) = (1 << 20, 1 << 20);
    config.reserve_bytes = 0;
    Store::open(config).await.unwrap()
}

/// The findings of a check in a store that `spoil` damaged. The store has a fork of two blocks, the
/// first shared with a checkpoint; `spoil` gets the live fork and the checkpoint fork.
fn found_after(
    repair: bool,
    spoil: impl FnOnce(&mut StoreState, ForkId, ForkId),
) -> (Findings, Findings) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(async {
        let store = opened().await;
        write(&store, 0, 1).await;
        write(&store, 4096, 2).await;
        store.apply().await.unwrap();
        store.checkpoint(FileId(1), 1, Timestamp(2)).await.unwrap();
        write(&store, 4096, 3).await;
        store.apply().await.unwrap();
        assert_eq!(checked(&store, false).await, []);
        let kept = {
            let state = store.0.lock();
            let file = state.forks().file(FileId(1)).unwrap();
            let kept = file.checkpoint_forks().iter().next().copied();
            (state.find(&key()).unwrap(), kept.unwrap())
        };
        for id in [kept.0, kept.1] {
            store.0.load_entry(id, 0).unwrap();
        }
        spoil(&mut store.0.lock(), kept.0, kept.1);
        (checked(&store, repair).await, checked(&store, repair).await)
    })
}

/// A block of a fork that is not inherited, and its place.
fn own(state: &StoreState, id: ForkId) -> (u32, Place) {
    state.forks()[id].chunks()[&0]
        .owned_blocks()
        .next()
        .unwrap()
}

fn move_own(state: &mut StoreState, id: ForkId, to: Place) {
    let block = own(state, id).0;
    let entry = state.forks_mut().get_mut(id).unwrap().chunk_mut(0);
    entry.unwrap().set(block, to, 0);
    state.mark_changed(id, 0);
}

#[test]
fn a_used_block_that_counts_as_free_is_found_and_allocated() {
    let spoil = |state: &mut StoreState, live, _| {
        let (_, place) = own(state, live);
        state.space_mut().free(crate::state::extent(place));
    };
    let free = |repaired| vec![(Fault::Free, repaired)];
    assert_eq!(found_after(false, spoil), (free(false), free(false)));
    assert_eq!(found_after(true, spoil), (free(true), vec![]));
}

#[test]
fn blocks_beyond_the_disk_or_of_two_chunks_are_found() {
    let beyond = |state: &mut StoreState, live, _| move_own(state, live, Place(1 << 40));
    let findings = vec![(Fault::Beyond, false)];
    assert_eq!(found_after(true, beyond), (findings.clone(), findings));
    let twice = |state: &mut StoreState, live, kept| {
        let (_, place) = own(state, kept);
        move_own(state, live, place);
    };
    let (first, _) = found_after(true, twice);
    assert_eq!(first, vec![(Fault::Twice, false); 2]);
}

#[test]
fn an_inherited_block_that_no_fork_owns_is_found() {
    let spoil = |state: &mut StoreState, live, kept: ForkId| {
        let entry = state.forks_mut().get_mut(kept).unwrap().chunk_mut(0);
        let (block, place) = entry.as_ref().unwrap().owned_blocks().next().unwrap();
        entry.unwrap().set(block, place.plus(9), 0);
        let inherits = state.forks()[live].chunks()[&0].is_inherited(block);
        assert!(inherits, "the live fork shares the first block");
    };
    let (first, _) = found_after(true, spoil);
    assert!(first.contains(&(Fault::Inherited, false)), "{first:?}");
}

#[test]
fn a_fork_with_a_wrong_count_of_children_is_found() {
    let spoil = |state: &mut StoreState, _, kept: ForkId| {
        state.forks_mut().get_mut(kept).unwrap().count_child();
    };
    let (first, second) = found_after(true, spoil);
    assert!(
        matches!(&first[..], [(Fault::Tree { .. }, false)]),
        "{first:?}"
    );
    assert_eq!(first, second);
}

/// Locks the state when it is dropped.
struct LocksOnDrop(Arc<Inner>);

impl Drop for LocksOnDrop {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

#[test]
fn a_panic_that_holds_the_state_lock_closes_the_store() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(async {
        let store = opened().await;
        write(&store, 0, 1).await;
        let inner = Arc::clone(&store.0);
        let outside = async move {
            let _locks_on_drop = LocksOnDrop(inner);
            panic!("intended by the test");
        };
        assert!(tokio::spawn(outside).await.unwrap_err().is_panic());
        store.sync().await.unwrap();
        let inner = Arc::clone(&store.0);
        let inside = async move {
            let _state = inner.lock();
            panic!("intended by the test");
        };
        assert!(tokio::spawn(inside).await.unwrap_err().is_panic());
        let refused = store.sync().await.unwrap_err();
        assert!(refused.to_string().contains("panic"), "{refused}");
        let read = store.read(&key(), CellOffset(0), 4096).await;
        assert!(read.is_err(), "a read might return bytes that no log holds");
    });
}
