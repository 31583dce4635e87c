//! After a repair of a damaged log, a read returns the bytes that were acknowledged last or an
//! error, until they are written again or accepted. Checkpoints stay as they were made.
#![allow(missing_docs)]

use crate::common;
use crate::model::{history, oracle, real};

use common::{Machine, frames, pattern, read, run, write};
use history::History;
use oracle::{Model, Op, SLOTS, op};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use real::perform;
use weft_layout::{CellOffset, FileId};
use weft_store::{Losses, RepairMode, Store, StoreError, repair_closed};

const FILES: std::ops::Range<u64> = 0..4;
const CHUNK: u32 = 65536;

/// Damages one frame: its header, its body, or both.
fn damage(machine: &Machine, rng: &mut SmallRng) {
    let all = frames(machine);
    if all.is_empty() {
        // The log was just applied, and all of it is in tables.
        return;
    }
    let (name, at, body) = all[rng.random_range(0..all.len())].clone();
    let (from, to) = match rng.random_range(0..3) {
        0 => (at, at + 32),
        1 => (at + 32, at + 32 + body),
        _ => (at, at + 32 + body),
    };
    let flip = rng.random_range(from..to);
    let whole = rng.random_bool(0.3);
    machine.disk.damage(&name, |bytes| {
        if whole {
            bytes[from..to].fill(0xa5);
        } else {
            bytes[flip] ^= 1 << (flip % 8);
        }
    });
}

/// The outcomes of reads: right as acknowledged, or refused.
#[derive(Debug, Default)]
struct ReadOutcomes {
    right: u64,
    refused: u64,
    checkpoint_right: u64,
    checkpoint_refused: u64,
}

/// Compares all bytes that a store returns with a model.
async fn compare(store: &Store, model: &Model, what: &str) -> ReadOutcomes {
    let mut seen = ReadOutcomes::default();
    for file in FILES {
        for slot in 0..SLOTS {
            let key = oracle::key(file, slot);
            let wanted = model.forks.get(&(file, slot)).cloned().unwrap_or_default();
            match read(store, &key, 0, 1 << 22).await {
                Ok(found) => {
                    assert!(
                        found == wanted,
                        "{what}: file {file}, slot {slot}: {} bytes, and {} were acknowledged; first difference {:?}",
                        found.len(),
                        wanted.len(),
                        found.iter().zip(&wanted).position(|(a, b)| a != b)
                    );
                    seen.right += u64::from(!wanted.is_empty());
                }
                Err(StoreError::Stale { .. }) if model.deleted.contains(&file) => {}
                Err(_) => seen.refused += 1,
            }
            // In small pieces, because bytes written since are readable.
            for at in (0..wanted.len()).step_by(1000) {
                let end = wanted.len().min(at + 1000);
                if let Ok(found) = read(store, &key, at as u64, 1000).await {
                    assert!(
                        found == wanted[at..end],
                        "{what}: file {file}, slot {slot}, from {at}"
                    );
                }
            }
        }
    }
    for ((file, number), slots) in &model.checkpoints {
        for slot in 0..SLOTS {
            let key = oracle::key(*file, slot);
            let wanted = slots.get(&slot).cloned().unwrap_or_default();
            let read = store.read_checkpoint(&key, *number, CellOffset(0), 1 << 22);
            match read.await {
                Ok(slices) => {
                    let found = slices.concat();
                    assert!(
                        found == wanted,
                        "{what}: checkpoint {number} of file {file}, slot {slot}"
                    );
                    seen.checkpoint_right += u64::from(!wanted.is_empty());
                }
                Err(StoreError::Unproven { .. }) => seen.checkpoint_refused += 1,
                Err(_) => {}
            }
        }
    }
    seen
}

fn file_of(op: &Op) -> Option<u64> {
    match op {
        Op::Write(file, _)
        | Op::Truncate(file, _)
        | Op::Clear(file, _)
        | Op::Extend(file, _)
        | Op::Remove(file, _)
        | Op::Checkpoint(file)
        | Op::RollBack(file, _)
        | Op::Drop(file, _)
        | Op::Delete(file)
        | Op::Create(file, _) => Some(*file),
        _ => None,
    }
}

/// Performs some operations; those that the store refuses do not reach the model.
async fn go_on(store: &Store, machine: &Machine, model: &mut Model, rng: &mut SmallRng, base: u64) {
    for n in base..base + 12 {
        let op = model.choose(op(rng, FILES));
        // No client knows a deleted file, even if the server forgot the deletion.
        if matches!(op, Op::Scrub) || file_of(&op).is_some_and(|f| model.deleted.contains(&f)) {
            continue;
        }
        if perform(store, machine, n, &op).await.is_ok() {
            model.apply(n, &op);
        }
    }
}

#[derive(Debug, Default)]
struct Total {
    repaired: u64,
    any: u64,
    right: u64,
    refused: u64,
    kept: u64,
}

async fn one(seed: u64, total: &mut Total) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut machine = Machine::new(seed);
    machine.truncate_chunks = [1, 3, 1024][seed as usize % 3];
    let store = machine.open().await.unwrap();
    let mut history = History::new(Model::default());
    let count = rng.random_range(5..60);
    history
        .go(&store, &mut rng, 1, count, FILES, &machine)
        .await;
    let mut model = history.states.pop().unwrap();
    drop(store);
    machine.kill(seed);
    damage(&machine, &mut rng);
    if let Ok(store) = machine.open().await {
        // The index already holds the change of the damaged frame.
        let found = compare(&store, &model, &format!("seed {seed}, not needed")).await;
        assert_eq!(found.refused, 0);
        return;
    }
    let obstacles = repair_closed(&machine.config(), RepairMode::Repair)
        .await
        .unwrap();
    let any = obstacles
        .iter()
        .any(|o| o.reason.contains("nothing says which files"));
    let mut config = machine.config();
    config.accept_loss = true;
    let store = Store::open(config).await.unwrap();
    let what = format!("seed {seed}, any {any}");
    let found = compare(&store, &model, &format!("{what}, repaired")).await;
    assert_eq!(
        found.checkpoint_refused, 0,
        "{what}: a checkpoint's bytes are in doubt"
    );
    total.repaired += 1;
    total.any += u64::from(any);
    if !any {
        total.right += found.right;
        total.refused += found.refused;
        total.kept += found.checkpoint_right;
    }
    go_on(&store, &machine, &mut model, &mut rng, 1000).await;
    compare(&store, &model, &format!("{what}, afterwards")).await;
    drop(store);
    machine.kill(seed);
    machine.index.lose_journal(seed);
    let store = machine.open().await.unwrap();
    compare(&store, &model, &format!("{what}, killed")).await;
    go_on(&store, &machine, &mut model, &mut rng, 2000).await;
    store.close().await.unwrap();
    let store = machine.open().await.unwrap();
    compare(&store, &model, &format!("{what}, closed")).await;
    store.accept_unproven().await.unwrap();
    for file in FILES {
        for slot in 0..SLOTS {
            let found = read(&store, &oracle::key(file, slot), 0, 1 << 22).await;
            assert!(!matches!(found, Err(StoreError::Unproven { .. })), "{what}");
        }
    }
}

#[test]
fn reads_after_a_log_repair_return_the_last_acknowledged_bytes_or_an_error() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let from = number("WEFT_SEED").unwrap_or(0);
    let mut total = Total::default();
    for seed in from..from + number("WEFT_CASES").unwrap_or(400) {
        run(one(seed, &mut total));
    }
    println!("{total:?}");
    assert!(
        total.repaired > 20 && total.any < total.repaired,
        "{total:?}"
    );
    assert!(
        total.right > 0 && total.refused > 0 && total.kept > 0,
        "{total:?}"
    );
}

async fn put(store: &Store, file: u64, at: u64, length: usize) {
    let data = pattern(file * 1000 + at, length);
    let one = write(&common::key(file, 0), CHUNK, at, data);
    store.write(vec![one], common::now()).await.unwrap();
}

/// Three files in the log, each synced; a frame of the second is damaged. Returns the report of
/// the repair.
async fn with_a_hole(machine: &Machine) -> Vec<weft_store::OpenBlocker> {
    let store = machine.open().await.unwrap();
    for file in 1..=3 {
        put(&store, file, 0, 300).await;
        store.sync().await.unwrap();
    }
    put(&store, 4, 0, 10).await;
    drop(store);
    machine.kill(1);
    let holds = |(name, at, body): &&(String, usize, usize)| {
        let bytes = machine.disk.bytes(name).unwrap();
        let wanted = pattern(2000, 300);
        bytes[at + 32..at + 32 + body]
            .windows(300)
            .any(|w| w == wanted)
    };
    let all = frames(machine);
    let (name, at, _) = all.iter().find(holds).unwrap();
    machine.disk.damage(name, |bytes| bytes[at + 60] ^= 1);
    repair_closed(&machine.config(), RepairMode::Repair)
        .await
        .unwrap()
}

#[test]
fn a_log_repair_names_the_touched_files_and_leaves_others_readable() {
    run(async {
        let machine = Machine::new(1);
        let obstacles = with_a_hole(&machine).await;
        let named = obstacles.iter().filter_map(|o| o.finding.as_ref());
        let named: Vec<u64> = named.map(|f| f.key.file.0).collect();
        assert_eq!(named, [2, 3, 4], "{obstacles:?}");
        let store = machine.open().await.unwrap();
        let of = |file| common::key(file, 0);
        assert_eq!(
            read(&store, &of(1), 0, 4096).await.unwrap(),
            pattern(1000, 300)
        );
        for (file, length) in [(2, 300), (3, 300), (4, 10)] {
            let status = store.status(&of(file)).await.unwrap().unwrap();
            assert_eq!(status.length, length, "the acknowledged length is known");
            let error = read(&store, &of(file), 5, 1).await.unwrap_err();
            let StoreError::Unproven { range, .. } = &error else {
                panic!("file {file}: {error}");
            };
            assert_eq!(*range, 0..length);
            assert!(
                store
                    .data_runs(&of(file), None, CellOffset(0), 9)
                    .await
                    .is_err()
            );
        }
        let lost = Losses {
            files: 3,
            ranges: 3,
            bytes: 610,
            more: false,
        };
        assert_eq!(store.losses().unwrap(), lost);
        // Some bytes are written again.
        put(&store, 2, 100, 50).await;
        assert_eq!(
            read(&store, &of(2), 100, 50).await.unwrap(),
            pattern(2100, 50)
        );
        assert!(read(&store, &of(2), 99, 2).await.is_err());
        assert!(read(&store, &of(2), 150, 1).await.is_err());
        // The accepted bytes are those of the truncated log.
        let accepted = store.accept_losses(FileId(3)).await.unwrap();
        assert_eq!((accepted.ranges, accepted.bytes), (1, 300));
        assert_eq!(read(&store, &of(3), 0, 4096).await.unwrap(), vec![0; 300]);
        // Removed.
        store.delete_file(FileId(4)).await.unwrap();
        let left = Losses {
            files: 1,
            ranges: 2,
            bytes: 250,
            more: false,
        };
        for _ in 0..2 {
            assert_eq!(store.losses().unwrap(), left);
            store.apply().await.unwrap();
        }
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert_eq!(store.losses().unwrap(), left);
        let times = [common::now()];
        store
            .truncate(FileId(2), vec![(of(2), 0)], 9, times[0])
            .await
            .unwrap();
        assert_eq!(store.losses().unwrap(), Losses::default());
        assert_eq!(read(&store, &of(2), 0, 4096).await.unwrap(), []);
    });
}

/// Rewrites the log as earlier versions did, without records of the files that frames touch.
fn forget_touched(machine: &Machine) -> usize {
    let mut count = 0;
    for (name, at, body) in frames(machine) {
        let bytes = machine.disk.bytes(&name).unwrap();
        let body = &bytes[at + 32..at + 32 + body];
        // Time, `Synced`, `Touched`.
        if body.len() > 17 && body[8] == 8 && body[17] == 20 {
            count += 1;
            machine.disk.damage(&name, |bytes| {
                let sum = |bytes: &[u8]| crc(bytes).to_le_bytes();
                let (start, end) = (at + 32, at + 32 + body.len());
                // The item becomes one that says "any".
                bytes[start + 18] = 1;
                let of_body = sum(&bytes[start..end]);
                bytes[at + 16..at + 20].copy_from_slice(&of_body);
                let of_head = sum(&bytes[at..at + 28]);
                bytes[at + 28..at + 32].copy_from_slice(&of_head);
            });
        }
    }
    count
}

fn crc(bytes: &[u8]) -> u32 {
    weft_sum::of(bytes)
}

#[test]
fn lost_frames_that_may_have_touched_any_file_put_every_file_in_doubt_until_accepted() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        for file in 1..=2 {
            put(&store, file, 0, 300).await;
            store
                .checkpoint(FileId(file), 1, common::now())
                .await
                .unwrap();
        }
        store.apply().await.unwrap();
        put(&store, 3, 0, 300).await;
        store.sync().await.unwrap();
        put(&store, 4, 0, 300).await;
        drop(store);
        machine.kill(1);
        assert!(forget_touched(&machine) > 0);
        let all = frames(&machine);
        let (name, at, _) = &all[all.len() - 3];
        machine.disk.damage(name, |bytes| bytes[at + 60] ^= 1);
        let obstacles = repair_closed(&machine.config(), RepairMode::Repair)
            .await
            .unwrap();
        assert!(
            obstacles
                .iter()
                .any(|o| o.done.contains("no file of the server")),
            "{obstacles:?}"
        );
        let store = machine.open().await.unwrap();
        let of = |file| common::key(file, 0);
        for file in 1..=9 {
            let found = read(&store, &of(file), 0, 10).await;
            assert!(
                matches!(found, Err(StoreError::Unproven { .. })),
                "file {file}: {found:?}"
            );
        }
        for file in 1..=2 {
            let kept = store
                .read_checkpoint(&of(file), 1, CellOffset(0), 999)
                .await;
            assert_eq!(kept.unwrap().concat(), pattern(file * 1000, 300));
        }
        let lost = store.losses().unwrap();
        assert!(lost.more && lost.files >= 2, "{lost:?}");
        store
            .roll_back(FileId(1), 1, 2, common::now())
            .await
            .unwrap();
        assert_eq!(
            read(&store, &of(1), 0, 999).await.unwrap(),
            pattern(1000, 300)
        );
        store.accept_losses(FileId(2)).await.unwrap();
        assert_eq!(
            read(&store, &of(2), 0, 999).await.unwrap(),
            pattern(2000, 300)
        );
        put(&store, 7, 0, 10).await;
        assert_eq!(
            read(&store, &of(7), 0, 10).await.unwrap(),
            pattern(7000, 10)
        );
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert!(read(&store, &of(8), 0, 1).await.is_err());
        assert_eq!(
            read(&store, &of(2), 0, 999).await.unwrap(),
            pattern(2000, 300)
        );
        store.accept_unproven().await.unwrap();
        assert_eq!(store.losses().unwrap(), Losses::default());
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert_eq!(store.losses().unwrap(), Losses::default());
        assert_eq!(read(&store, &of(8), 0, 1).await.unwrap(), []);
    });
}

#[test]
fn a_log_repair_that_is_killed_anywhere_leaves_the_log_damaged_or_every_doubt_recorded() {
    let (mut unrepaired, mut done) = (0, 0);
    for power in [false, true] {
        let (mut at, mut alive) = (0, false);
        while !alive {
            at += 1;
            run(async {
                let what = format!("death at {at}, power {power}");
                let machine = Machine::new(at);
                let store = machine.open().await.unwrap();
                for file in 1..=40 {
                    put(&store, file, 0, 5000).await;
                    store.sync().await.unwrap();
                }
                drop(store);
                machine.kill(1);
                let all = frames(&machine);
                let (name, from, _) = &all[all.len() / 2];
                machine.disk.damage(name, |bytes| bytes[from + 40] ^= 1);
                machine.disk.die_at(machine.disk.operations() + at);
                alive = repair_closed(&machine.config(), RepairMode::Repair)
                    .await
                    .is_ok()
                    && !machine.disk.is_dead();
                if power {
                    machine.lose_power(at);
                } else {
                    machine.kill(at);
                }
                let mut obstacles = Vec::new();
                if let Err(error) = machine.open().await {
                    assert!(
                        matches!(error, StoreError::LogDamaged { .. }),
                        "{what}: {error}"
                    );
                    unrepaired += 1;
                    obstacles = repair_closed(&machine.config(), RepairMode::Repair)
                        .await
                        .unwrap();
                } else {
                    done += 1;
                    machine.kill(at);
                }
                let store = machine.open().await.expect(&what);
                let mut whole = 0;
                for file in 1..=40 {
                    match read(&store, &common::key(file, 0), 0, 9999).await {
                        Ok(found) => {
                            assert!(found == pattern(file * 1000, 5000), "{what}: file {file}");
                            whole += 1;
                        }
                        Err(StoreError::Unproven { .. }) => {}
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
                assert!(
                    whole > 10 && whole < 40,
                    "{what}: {whole} files, {obstacles:?}"
                );
            });
        }
    }
    assert!(unrepaired > 5 && done > 1, "{unrepaired}, {done}");
}

#[test]
fn recording_touched_files_costs_a_sync_about_ten_bytes_per_file() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        put(&store, 1, 0, 1).await;
        store.sync().await.unwrap();
        let mut grew = Vec::new();
        for files in [1, 8, 64] {
            for file in 0..files {
                put(&store, 1_000_000 + file, 0, 100).await;
            }
            let before = store.counters();
            store.sync().await.unwrap();
            let synced = store.counters();
            put(&store, 1, 0, 1).await;
            let after = store.counters();
            // The `Synced` frame goes out with the next frame, which has 64 bytes; it has 56
            // without a `Touched` item.
            let bytes = after.log_bytes - synced.log_bytes;
            assert_eq!(synced.syncs - before.syncs, 1);
            grew.push((files, bytes));
            store.sync().await.unwrap();
        }
        println!("{grew:?}");
        for (files, bytes) in grew {
            assert!(
                bytes <= 64 + 56 + 8 + 8 * files,
                "{files} files: {bytes} bytes"
            );
        }
    });
}
