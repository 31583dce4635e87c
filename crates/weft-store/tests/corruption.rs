//! Damage to stored bytes, in every kind of record: reads never return a wrong byte, damage is
//! always reported, and the store opens again if that is possible.
//!
//! The oracle: after any damage the store refuses to open with a typed error, or each read returns
//! a typed error or the right bytes.
#![allow(missing_docs)]

use crate::common;
#[path = "corruption/labels.rs"]
mod labels;
#[path = "corruption/memory.rs"]
mod memory;

use std::sync::Arc;

use common::{Machine, REPAIR_DATA, key, now, pattern, read, run, write};
use proptest::prelude::*;
use weft_kv::OrderedKv;
use weft_layout::FileId;
use weft_store::{
    CheckPass, DiskConfig, DiskState, Fault, Finding, RepairMode, Store, StoreConfig, StoreError,
    repair_closed,
};

const CHUNK: u32 = 16384;
const FILES: u64 = 3;
const LENGTH: usize = 96 << 10;

/// The contents of the files after each batch.
type States = Vec<Vec<Vec<u8>>>;

/// A store of two disks.
fn config(machine: &Machine, new: bool) -> StoreConfig {
    let mut config = machine.config();
    config.owner = "server-1 of volume 07".into();
    config.capacity = 1 << 20;
    config.disks = vec![DiskConfig {
        path: "/mnt/b".into(),
        storage: Ok(Arc::new(machine.disk.disk("b"))),
        new,
        capacity: 1 << 20,
        reserve: 0,
    }];
    config
}

async fn open(machine: &Machine) -> Result<Store, StoreError> {
    Store::open(config(machine, false)).await
}

/// The note in the store.
const NOTE: [u8; 5] = [1, 2, 3, 200, 5];

/// Large and small writes and a checkpoint; some in the index, some only in the log; all synced.
async fn history(machine: &Machine) -> States {
    let store = Store::open(config(machine, true)).await.unwrap();
    store.set_note("scrub", &NOTE).unwrap();
    let mut files = vec![Vec::new(); FILES as usize];
    let mut states = vec![files.clone()];
    for step in 0..24_u64 {
        let file = step % FILES;
        let (at, length) = match step % 4 {
            0 => (0, LENGTH),
            1 => (
                (step * 777) as usize % (LENGTH / 2),
                100 + step as usize * 37,
            ),
            2 => ((step * 4096) as usize % (LENGTH / 2), 40 << 10),
            _ => ((step * 1234) as usize % LENGTH, 3),
        };
        let data = pattern(step + 1, length);
        let content = &mut files[file as usize];
        content.resize(content.len().max(at + length), 0);
        content[at..at + length].copy_from_slice(&data);
        store
            .write(vec![write(&key(file, 0), CHUNK, at as u64, data)], now())
            .await
            .unwrap();
        states.push(files.clone());
        if step == 8 {
            store.checkpoint(FileId(1), 100, now()).await.unwrap();
        }
        if step == 14 {
            store.apply().await.unwrap();
        }
        store.sync().await.unwrap();
    }
    assert!(
        store.disks().iter().all(|d| d.used > 0),
        "each disk has some of the blocks"
    );
    drop(store);
    machine.kill(1);
    states
}

/// Each block of each file, or the error of reading it.
async fn blocks(store: &Store) -> Vec<Vec<Result<Vec<u8>, StoreError>>> {
    let mut all = Vec::new();
    for file in 0..FILES {
        let mut of_file = Vec::new();
        for block in 0..2 * LENGTH as u64 / 4096 {
            of_file.push(read(store, &key(file, 0), block * 4096, 4096).await);
        }
        all.push(of_file);
    }
    all
}

/// Whether all blocks that can be read are those of these files.
fn agrees(read: &[Vec<Result<Vec<u8>, StoreError>>], files: &[Vec<u8>]) -> bool {
    read.iter().zip(files).all(|(blocks, content)| {
        blocks.iter().enumerate().all(|(n, block)| {
            let from = (n * 4096).min(content.len());
            let right = &content[from..(from + 4096).min(content.len())];
            block.as_ref().map_or(true, |bytes| bytes == right)
        })
    })
}

async fn checked(store: &Store) -> Vec<Finding> {
    let mut pass: CheckPass = store.check_begin().await.unwrap();
    let mut findings = Vec::new();
    loop {
        let step = store.check(&mut pass, REPAIR_DATA).await.unwrap();
        findings.extend(step.findings.into_iter().map(|(finding, _)| finding));
        if step.done {
            return findings;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Zero,
    Truncate,
    Swap,
}

fn damage(bytes: &mut Vec<u8>, how: Damage, place: usize, other: usize, length: usize) {
    if bytes.is_empty() {
        return;
    }
    let length = length.min(bytes.len() / 2).max(1);
    let (a, b) = (place % bytes.len(), other % bytes.len());
    match how {
        Damage::Flip => bytes[a] ^= 1 << (other % 8),
        Damage::Zero => {
            let end = (a + length).min(bytes.len());
            bytes[a..end].fill(0);
        }
        Damage::Truncate => bytes.truncate(a),
        Damage::Swap => {
            for i in 0..length {
                let n = bytes.len();
                bytes.swap((a + i) % n, (b + i) % n);
            }
        }
    }
}

/// The file to damage; `None`: the index.
fn target(machine: &Machine, at: usize) -> Option<String> {
    let mut names: Vec<String> = machine.disk.names().into_iter().collect();
    names.retain(|name| name != "lock");
    names.extend(["b/data".to_owned(), "b/label".to_owned()]);
    // The index as often as all files together.
    names.get(at % (2 * names.len())).cloned()
}

/// Changes a file of either disk.
fn damage_file(machine: &Machine, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let done = match name.strip_prefix("b/") {
        Some(name) => machine.disk.disk("b").damage(name, change),
        None => machine.disk.damage(name, change),
    };
    assert!(done, "there is no {name}");
}

fn cases() -> u32 {
    let cases = std::env::var("WEFT_CASES").ok();
    cases.and_then(|n| n.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn damage_anywhere_never_gives_a_wrong_byte(
        at in any::<usize>(), how in 0..4_u8, place in any::<usize>(), other in any::<usize>(),
        length in 1..9000_usize, seed in any::<u64>()
    ) {
        let how = [Damage::Flip, Damage::Zero, Damage::Truncate, Damage::Swap][usize::from(how)];
        run(async {
            let machine = Machine::new(seed);
            let states = history(&machine).await;
            let hit = if let Some(name) = target(&machine, at) {
                damage_file(&machine, &name, |bytes| damage(bytes, how, place, other, length));
                name
            } else {
                let change = |bytes: &mut Vec<u8>| damage(bytes, how, place, other, length);
                machine.index.damage_nth(place, change).to_owned()
            };
            let mut repaired = false;
            let store = match open(&machine).await {
                Ok(store) => store,
                Err(error) => {
                    repaired = true;
                    prop_assert!(!error.to_string().is_empty());
                    // The repair loses nothing that can be read.
                    let obstacles = repair_closed(&config(&machine, false), RepairMode::Repair).await.unwrap();
                    match open(&machine).await {
                        Ok(store) => {
                            prop_assert!(!obstacles.is_empty());
                            store
                        }
                        Err(_) => return Ok(()),
                    }
                }
            };
            match store.note("scrub") {
                Ok(note) => prop_assert_eq!(note, Some(NOTE.to_vec())),
                Err(error) => {
                    let said = hit == "store" && matches!(error, StoreError::Corrupt { .. });
                    prop_assert!(said, "{error} after damage of {hit}");
                }
            }
            prop_assert!(hit != "b/label" || store.disks()[1].state == DiskState::InUse);
            let read = blocks(&store).await;
            // Bytes of dropped frames are an error, and not the bytes from before.
            let right = agrees(&read, states.last().unwrap());
            prop_assert!(right, "wrong bytes after {how:?} of {hit}, repaired: {repaired}");
            let failed = read.iter().flatten().any(Result::is_err);
            if failed {
                let lost = read.iter().flatten().filter_map(|b| b.as_ref().err());
                let typed = |e: &StoreError| matches!(e, StoreError::BadChecksum { .. } | StoreError::DiskFailed { .. } | StoreError::Lost { .. } | StoreError::Unproven { .. });
                prop_assert!(lost.clone().all(typed), "{:?}", lost.collect::<Vec<_>>());
            }
            // A check finds every unreadable block.
            let found = checked(&store).await;
            let reported = found.iter().any(|f| matches!(f.fault, Fault::Checksum | Fault::Unreadable { .. } | Fault::Entry { .. } | Fault::Lost { .. } | Fault::Unproven { .. }));
            prop_assert!(!failed || reported || hit == "chunks", "{hit}: {found:?}");
            Ok(())
        })?;
    }
}

#[test]
fn an_unreadable_entry_costs_only_its_chunk() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        for file in 0..FILES {
            let all = vec![write(&key(file, 0), CHUNK, 0, pattern(file, LENGTH))];
            store.write(all, now()).await.unwrap();
        }
        store.close().await.unwrap();
        assert!(machine.index.damage("chunks", |value| value[9] ^= 1));
        let error = machine.open().await.err().unwrap();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        let obstacles = repair_closed(&machine.config(), RepairMode::Check)
            .await
            .unwrap();
        assert_eq!((obstacles.len(), obstacles[0].repaired), (1, false));
        let finding = obstacles[0].finding.clone().unwrap();
        assert_eq!((finding.key, finding.chunk), (key(0, 0), 0));
        assert!(machine.open().await.is_err(), "a check changes nothing");
        assert!(
            repair_closed(&machine.config(), RepairMode::Repair)
                .await
                .unwrap()[0]
                .repaired
        );
        assert_eq!(
            repair_closed(&machine.config(), RepairMode::Repair)
                .await
                .unwrap(),
            []
        );
        let store = machine.open().await.unwrap();
        let error = read(&store, &key(0, 0), 0, 4096).await.unwrap_err();
        let StoreError::Lost { file, range, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((file.0, range), (0, 0..u64::from(CHUNK)));
        let rest = read(&store, &key(0, 0), u64::from(CHUNK), 4096)
            .await
            .unwrap();
        assert_eq!(rest, pattern(0, LENGTH)[CHUNK as usize..][..4096]);
        // A write of whole blocks heals them.
        let over = vec![write(&key(0, 0), CHUNK, 0, pattern(9, CHUNK as usize))];
        store.write(over, now()).await.unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        assert_eq!(
            read(&store, &key(0, 0), 0, 4096).await.unwrap(),
            pattern(9, 4096)
        );
        assert_eq!(checked(&store).await, []);
    });
}

#[test]
fn a_block_claimed_by_two_entries_stays_with_the_one_whose_checksum_matches() {
    run(async {
        let machine = Machine::new(6);
        let store = machine.open().await.unwrap();
        for file in 0..2 {
            let all = vec![write(
                &key(file, 0),
                CHUNK,
                0,
                pattern(file, CHUNK as usize),
            )];
            store.write(all, now()).await.unwrap();
        }
        store.close().await.unwrap();
        // The second file's entry claims the place of the first, with the checksums of the second
        // and a valid seal.
        let mut first = Vec::new();
        machine
            .index
            .damage_in("chunks", 0, |value| first = value.clone());
        machine.index.damage_in("chunks", 1, |value| {
            let place = 1 + 4 + 8;
            value[place..place + 8].copy_from_slice(&first[place..place + 8]);
            let end = value.len() - 4;
            let crc = weft_sum::of(&value[..end]);
            value[end..].copy_from_slice(&crc.to_le_bytes());
        });
        assert!(machine.open().await.is_err());
        let obstacles = repair_closed(&machine.config(), RepairMode::Repair)
            .await
            .unwrap();
        assert!(
            obstacles
                .iter()
                .all(|o| o.repaired && o.finding.as_ref().unwrap().fault == Fault::Twice)
        );
        let store = machine.open().await.unwrap();
        assert_eq!(
            read(&store, &key(0, 0), 0, 4096).await.unwrap(),
            pattern(0, 4096)
        );
        assert!(read(&store, &key(1, 0), 0, 4096).await.is_err());
        let lost = checked(&store).await;
        let [lost] = &lost[..] else {
            panic!("{lost:?}");
        };
        assert_eq!(lost.key, key(1, 0));
        assert!(matches!(lost.fault, Fault::Lost { .. }), "{lost:?}");
        machine.index.sync().unwrap();
    });
}
