//! An older copy of a store that had acknowledged more, once it is accepted: everything in it is in
//! doubt, except files made later (`docs/design/0022-older-copies.md`).
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::{CellOffset, FileId};
use weft_store::{Losses, RepairMode, Store, StoreError, repair_closed};

/// Files from this one on are made after the acceptance.
const NEW: FileId = FileId(5);

async fn put(store: &Store, file: u64, at: u64) {
    let bytes = pattern(file * 1000 + at, 300);
    let one = write(&key(file, 0), 65536, at, bytes);
    store.write(vec![one], now()).await.unwrap();
}

async fn is_in_doubt(store: &Store, file: u64) -> bool {
    match read(store, &key(file, 0), 0, 999).await {
        Err(StoreError::Unproven { .. }) => true,
        Ok(_) => false,
        Err(other) => panic!("file {file}: {other}"),
    }
}

/// Files 1 and 2, a checkpoint of file 1, and the acceptance.
async fn accepted(machine: &Machine) -> Store {
    let store = machine.open().await.unwrap();
    put(&store, 1, 0).await;
    put(&store, 2, 0).await;
    store.checkpoint(FileId(1), 1, now()).await.unwrap();
    store.sync().await.unwrap();
    store.doubt_older(NEW).await.unwrap();
    store
}

#[test]
fn an_older_copy_is_in_doubt_until_it_is_rewritten_or_accepted() {
    run(async {
        let machine = Machine::new(1);
        let mut store = accepted(&machine).await;
        // Check at once, after a power loss, and once the index holds the doubt.
        for round in 0..3 {
            // Files 3 and 4 do not exist in the copy, but may have existed.
            for file in 1..=4 {
                assert!(
                    is_in_doubt(&store, file).await,
                    "round {round}, file {file}"
                );
            }
            let kept = store
                .read_checkpoint(&key(1, 0), 1, CellOffset(0), 999)
                .await;
            assert_eq!(kept.unwrap().concat(), pattern(1000, 300));
            assert_eq!(read(&store, &key(9, 0), 0, 9).await.unwrap(), []);
            let losses = store.losses().unwrap();
            assert!(losses.more && losses.files == 2, "{losses:?}");
            match round {
                0 => {
                    drop(store);
                    machine.lose_power(1);
                }
                _ => store.close().await.unwrap(),
            }
            store = machine.open().await.unwrap();
        }
        // A hole of a later file is not in doubt.
        put(&store, 6, 5000).await;
        assert_eq!(read(&store, &key(6, 0), 0, 9).await.unwrap(), [0; 9]);
        assert_eq!(read(&store, &key(6, 0), 5300, 9).await.unwrap(), []);
        put(&store, 2, 0).await;
        assert_eq!(
            read(&store, &key(2, 0), 0, 300).await.unwrap(),
            pattern(2000, 300)
        );
        store.accept_losses(FileId(1)).await.unwrap();
        assert_eq!(
            read(&store, &key(1, 0), 0, 999).await.unwrap(),
            pattern(1000, 300)
        );
        assert!(is_in_doubt(&store, 3).await);
        store.accept_unproven().await.unwrap();
        assert_eq!(store.losses().unwrap(), Losses::default());
        assert_eq!(read(&store, &key(3, 0), 0, 9).await.unwrap(), []);
    });
}

#[test]
fn a_damaged_log_does_not_end_the_doubt_of_an_older_copy() {
    for back in 0..4 {
        run(async {
            let machine = Machine::new(1);
            let store = accepted(&machine).await;
            put(&store, 7, 0).await;
            store.sync().await.unwrap();
            drop(store);
            machine.kill(1);
            let frames = common::frames(&machine);
            let (name, at, _) = &frames[frames.len() - 1 - back];
            machine.disk.damage(name, |bytes| bytes[at + 40] ^= 1);
            repair_closed(&machine.config(), RepairMode::Repair)
                .await
                .unwrap();
            let store = machine.open().await.unwrap();
            for file in 1..=4 {
                assert!(
                    is_in_doubt(&store, file).await,
                    "{back} from the end, file {file}"
                );
            }
        });
    }
}
