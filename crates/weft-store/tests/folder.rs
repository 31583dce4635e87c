//! Stores in real folders.
#![allow(missing_docs)]

use crate::common;

use std::path::Path;
use std::sync::Arc;

use common::{CrashKv, key, now, pattern, read, write};
use weft_kv::OrderedKv;
use weft_layout::FileId;
use weft_store::{FolderStorage, IoBackend, Store, StoreConfig, StoreError};

fn config(
    folder: &Path,
    reach: IoBackend,
    index: &Arc<CrashKv>,
) -> Result<StoreConfig, StoreError> {
    let storage = FolderStorage::open_with(folder, reach)?;
    let index: Arc<dyn OrderedKv> = Arc::clone(index) as _;
    let mut config = StoreConfig::new(Arc::new(storage), index, "boot".into());
    config.growth_bytes = 16 << 20;
    config.reserve_bytes = 0;
    config.segment_bytes = 1 << 20;
    config.log_bytes = 8 << 20;
    config.dirty_bytes = 2 << 20;
    config.cache_bytes = 8 << 20;
    Ok(config)
}

async fn exercise(folder: &Path, reach: IoBackend) {
    let index = Arc::default();
    let store = Store::open(config(folder, reach, &index).unwrap())
        .await
        .unwrap();
    let writers = (0..8_u64).map(|file| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..40_u64 {
                let length = [64, 4096, 50_000, 262_144][(n % 4) as usize];
                let data = pattern(file * 1000 + n, length);
                store
                    .write(
                        vec![write(&key(file, 0), 262_144, n * 300_000, data)],
                        now(),
                    )
                    .await
                    .unwrap();
                if n % 8 == 0 {
                    store.sync().await.unwrap();
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    check(&store).await;
    store.drop_cache();
    check(&store).await;
    // Dropped without a close: the next opening recovers.
    drop(store);
    let store = reopen(folder, reach, &index).await;
    check(&store).await;
    store.delete_file(FileId(7)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let store = reopen(folder, reach, &index).await;
    let files: Vec<FileId> = (0..1000).map(FileId).collect();
    assert_eq!(store.deleted_of(&files), [FileId(7)]);
    store
        .write(vec![write(&key(7, 0), 4096, 0, &b"x"[..])], now())
        .await
        .unwrap_err();
    assert!(!folder.join("log.000000000099").exists());
}

/// Opens the folder again once the background task has released it.
async fn reopen(folder: &Path, reach: IoBackend, index: &Arc<CrashKv>) -> Store {
    for _ in 0..500 {
        match config(folder, reach, index) {
            Ok(config) => return Store::open(config).await.unwrap(),
            Err(StoreError::Locked { .. }) => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the folder stays locked");
}

async fn check(store: &Store) {
    for file in 0..8_u64 {
        for n in 0..40_u64 {
            let length = [64, 4096, 50_000, 262_144][(n % 4) as usize];
            let found = read(store, &key(file, 0), n * 300_000, length as u64)
                .await
                .unwrap();
            assert!(
                found == pattern(file * 1000 + n, length),
                "file {file}, write {n}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_a_folder_keeps_what_was_written() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    exercise(folder.path(), IoBackend::Automatic).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_over_threads_keeps_what_was_written() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    exercise(folder.path(), IoBackend::Threads).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_on_a_file_system_without_direct_io_keeps_what_was_written() {
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        exercise(folder.path(), IoBackend::Automatic).await;
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = FolderStorage::open(folder.path()).unwrap();
    let second = FolderStorage::open(folder.path()).map(drop);
    assert!(
        matches!(second, Err(StoreError::Locked { .. })),
        "{second:?}"
    );
    drop(first);
    FolderStorage::open(folder.path()).unwrap();
}
