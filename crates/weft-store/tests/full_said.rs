//! Warnings about full disks. A separate program, because a subscriber of one thread misses
//! warnings whose call site another thread without a subscriber reached first.
#![allow(missing_docs)]

mod common;

use std::fmt::Debug;
use std::sync::Arc;

use common::{Machine, key, now, pattern, run, write};
use parking_lot::Mutex;
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use weft_layout::FileId;
use weft_store::{DiskConfig, DiskState, Store, StoreError};

/// Keeps the messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                self.0.lock().push(format!("{value:?}"));
            }
        });
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Writes blocks, each to a new file, until the disks are full; returns how many.
async fn fill_up(store: &Store, from: u64) -> u64 {
    for file in from.. {
        let one = vec![write(&key(file, 0), 4096, 0, pattern(file, 4096))];
        match store.write(one, now()).await {
            Ok(()) => {}
            Err(StoreError::NoSpace { .. }) => return file - from,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("disks are bounded")
}

#[test]
fn a_full_disk_is_reported_once_until_blocks_on_it_are_freed() {
    for more in [&[][..], &[("a", 700_000_u64), ("b", 2_000_000)]] {
        let warnings = Warnings::default();
        let _guard = tracing::subscriber::set_default(warnings.clone());
        run(async {
            let machine = Machine::new(3);
            let mut config = machine.config();
            config.capacity = 3 << 20;
            config.log_bytes = 16 << 20;
            for (name, capacity) in more {
                config.disks.push(DiskConfig {
                    path: format!("/mnt/{name}"),
                    storage: Ok(Arc::new(machine.disk.disk(name))),
                    new: true,
                    capacity: *capacity,
                    reserve: 0,
                });
            }
            let count = 1 + more.len();
            let store = Store::open(config).await.unwrap();
            let states = |store: &Store| -> Vec<DiskState> {
                store.disks().iter().map(|d| d.state).collect()
            };
            let warned = || warnings.0.lock().clone();
            assert_eq!(states(&store), vec![DiskState::InUse; count]);
            let written = fill_up(&store, 0).await;
            assert!(written > 600, "{written} blocks");
            assert_eq!(states(&store), vec![DiskState::Full; count]);
            assert_eq!(warned(), vec!["a disk is full"; count]);
            // One warning for each disk, however many writes are refused.
            for n in 0..3 {
                assert_eq!(fill_up(&store, 10_000 + n).await, 0);
                store.sync().await.unwrap();
            }
            store.apply().await.unwrap();
            assert_eq!(states(&store), vec![DiskState::Full; count]);
            assert_eq!(warned().len(), count, "{:?}", warned());
            for file in 0..written {
                store.delete_file(FileId(file)).await.unwrap();
            }
            store.apply().await.unwrap();
            for n in 0..3 {
                store.delete_file(FileId(20_000 + n)).await.unwrap();
                store.sync().await.unwrap();
            }
            assert_eq!(states(&store), vec![DiskState::InUse; count]);
            let again = warned().split_off(count);
            assert_eq!(
                again,
                vec!["a disk that was full has free blocks again"; count]
            );
            assert!(fill_up(&store, 30_000).await > 600);
        });
    }
}
