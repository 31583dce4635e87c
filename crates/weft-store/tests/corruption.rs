//! Bytes that change behind the store's back, in every kind of record: never a wrong byte, always
//! said, opened again where that is possible.
//!
//! The oracle: after any damage the store refuses to open with a typed error, or each read gives a
//! typed error or the right bytes. A log that was damaged costs a repair what follows: then the
//! right bytes are those after some prefix of the writes.
#![allow(missing_docs)]

use crate::common;
#[path = "corruption/labels.rs"]
mod labels;
#[path = "corruption/memory.rs"]
mod memory;

use std::sync::Arc;

use common::{Machine, key, now, pattern, read, run, write};
use proptest::prelude::*;
use weft_kv::OrderedKv;
use weft_layout::FileId;
use weft_store::{
    CheckPass, DiskConfig, DiskState, Fault, Finding, Store, StoreConfig, StoreError, repair_closed,
};

const CHUNK: u32 = 16384;
const FILES: u64 = 3;
const LENGTH: usize = 96 << 10;

/// What the files hold after each batch.
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

/// What is kept beside the store.
const NOTE: [u8; 5] = [1, 2, 3, 200, 5];

/// Large and small writes, a cut and a checkpoint; some in the index, some in the log only; all
/// synced.
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
        "each disk has some of it"
    );
    drop(store);
    machine.kill(1);
    states
}

/// A block of a file: what it holds, or that it cannot be read.
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

/// Whether what can be read is what these files hold.
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
        let part = store.check(&mut pass, true, true).await.unwrap();
        findings.extend(part.findings.into_iter().map(|(finding, _)| finding));
        if part.done {
            return findings;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum How {
    Flip,
    Zero,
    Cut,
    Swap,
}

fn damage(bytes: &mut Vec<u8>, how: How, place: usize, other: usize, length: usize) {
    if bytes.is_empty() {
        return;
    }
    let length = length.min(bytes.len() / 2).max(1);
    let (a, b) = (place % bytes.len(), other % bytes.len());
    match how {
        How::Flip => bytes[a] ^= 1 << (other % 8),
        How::Zero => {
            let end = (a + length).min(bytes.len());
            bytes[a..end].fill(0);
        }
        How::Cut => bytes.truncate(a),
        How::Swap => {
            for i in 0..length {
                let n = bytes.len();
                bytes.swap((a + i) % n, (b + i) % n);
            }
        }
    }
}

/// Whose names the damage could have: files of the store, and the index.
fn target(machine: &Machine, at: usize) -> Option<String> {
    let mut names: Vec<String> = machine.disk.names().into_iter().collect();
    names.retain(|name| name != "lock");
    names.extend(["b/data".to_owned(), "b/label".to_owned()]);
    // As often as all files together.
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
        let how = [How::Flip, How::Zero, How::Cut, How::Swap][usize::from(how)];
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
                    // What can be done for it loses nothing that can be read.
                    let obstacles = repair_closed(&config(&machine, false), true).await.unwrap();
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
            // What a repair cut off a log is an error, and not what was there before.
            let right = agrees(&read, states.last().unwrap());
            prop_assert!(right, "wrong bytes after {how:?} of {hit}, repaired: {repaired}");
            let failed = read.iter().flatten().any(Result::is_err);
            if failed {
                let lost = read.iter().flatten().filter_map(|b| b.as_ref().err());
                let typed = |e: &StoreError| matches!(e, StoreError::BadChecksum { .. } | StoreError::DiskFailed { .. } | StoreError::Lost { .. } | StoreError::Unproven { .. });
                prop_assert!(lost.clone().all(typed), "{:?}", lost.collect::<Vec<_>>());
            }
            // What cannot be read is found by who looks for it.
            let found = checked(&store).await;
            let told = found.iter().any(|f| matches!(f.fault, Fault::Checksum | Fault::Unreadable { .. } | Fault::Entry { .. } | Fault::Lost { .. } | Fault::Unproven { .. }));
            prop_assert!(!failed || told || hit == "chunks", "{hit}: {found:?}");
            Ok(())
        })?;
    }
}

#[test]
fn an_entry_that_cannot_be_read_costs_its_chunk_and_nothing_else() {
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
        let looked = repair_closed(&machine.config(), false).await.unwrap();
        assert_eq!((looked.len(), looked[0].repaired), (1, false));
        let finding = looked[0].finding.clone().unwrap();
        assert_eq!((finding.key, finding.chunk), (key(0, 0), 0));
        assert!(machine.open().await.is_err(), "looking changes nothing");
        assert!(repair_closed(&machine.config(), true).await.unwrap()[0].repaired);
        assert_eq!(repair_closed(&machine.config(), true).await.unwrap(), []);
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
        let anew = vec![write(&key(0, 0), CHUNK, 0, pattern(9, CHUNK as usize))];
        store.write(anew, now()).await.unwrap();
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
fn a_block_in_two_entries_stays_with_the_one_whose_checksum_it_matches() {
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
        // The second file's entry claims the place of the first, with its own checksums and a seal
        // that is right.
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
        let obstacles = repair_closed(&machine.config(), true).await.unwrap();
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
