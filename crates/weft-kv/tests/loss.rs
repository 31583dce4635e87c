//! A journal that lost synced commits is never opened as if nothing had happened.
//!
//! The oracle: an engine that opens has every synced commit; one that does not open changes
//! nothing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use weft_kv::{FjallKv, FjallOptions, KvError, OnLoss, OrderedKv, Space};

const KEYS: Space = Space("keys");

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 40 + (number % 7) as usize * 30]
}

fn commit(kv: &FjallKv, number: u64) {
    kv.transact(&mut |txn| {
        txn.put(KEYS, &number.to_be_bytes(), &value(number));
        Ok(())
    })
    .unwrap();
}

/// An engine that was killed: 40 commits, of which the first 30 were synced.
fn killed(folder: &Path) {
    let kv = FjallKv::open(folder, FjallOptions::default()).unwrap();
    for number in 0..40 {
        commit(&kv, number);
        if number == 29 {
            kv.sync().unwrap();
        }
    }
}

fn journal(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut journals: Vec<PathBuf> = entries
        .filter(|p| p.extension().is_some_and(|e| e == "jnl"))
        .collect();
    assert_eq!(journals.len(), 1);
    journals.remove(0)
}

/// The end of the journal's content, where the zeros start.
fn content(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    bytes.iter().rposition(|b| *b != 0).unwrap() as u64 + 1
}

/// Whether the engine has all of these commits.
fn holds(kv: &FjallKv, numbers: std::ops::Range<u64>) -> bool {
    let snapshot = kv.snapshot().unwrap();
    let mut numbers = numbers;
    numbers.all(|n| snapshot.get(KEYS, &n.to_be_bytes()).unwrap() == Some(value(n)))
}

#[test]
fn a_journal_truncated_before_synced_commits_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let path = journal(folder.path());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(content(&path) / 2).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = FjallKv::open(folder.path(), FjallOptions::default()).unwrap_err();
    let KvError::Lost { first, last, .. } = &error else {
        panic!("{error}");
    };
    assert!(*first > 1 && first <= last && *last == 30, "{error}");
    assert!(error.to_string().contains("fsck --offline"), "{error}");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        before,
        "the engine changed the damaged journal"
    );
    // A caller may accept the loss.
    let accept = FjallOptions {
        loss: OnLoss::Skip,
        ..FjallOptions::default()
    };
    let kv = FjallKv::open(folder.path(), accept).unwrap();
    assert!(holds(&kv, 0..5) && !holds(&kv, 0..30));
    commit(&kv, 100);
    kv.sync().unwrap();
    drop(kv);
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert!(holds(&kv, 100..101));
}

/// Such an engine numbers its trees differently.
#[test]
fn an_engine_whose_first_opening_was_interrupted_is_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine");
    drop(fjall::Database::builder(&path).open().unwrap());
    killed(&path);
    assert!(!path.join("keyspaces/1/current").exists());
    for _ in 0..2 {
        FjallKv::check(&path).unwrap();
        let kv = FjallKv::open(&path, FjallOptions::default()).unwrap();
        assert!(holds(&kv, 0..30));
    }
    // The check looks in the tables for commits that are unreadable in the journal.
    let journal = journal(&path);
    let bytes = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &bytes[..bytes.len().min(100)]).unwrap();
    assert!(matches!(FjallKv::check(&path), Err(KvError::Lost { .. })));
}

#[test]
fn a_torn_end_after_the_synced_commits_is_not_damage() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let path = journal(folder.path());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(content(&path) - 30).unwrap();
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert!(holds(&kv, 0..39) && !holds(&kv, 39..40));
    // Numbers continue without a gap.
    for number in 39..60 {
        commit(&kv, number);
    }
    kv.sync().unwrap();
    drop(kv);
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert!(holds(&kv, 0..60));
}

/// The end of the journal's first `count` batches.
fn after_batches(bytes: &[u8], count: usize) -> usize {
    let trailers = bytes
        .windows(4)
        .enumerate()
        .filter(|(_, w)| w == b"FJL\x03");
    trailers.map(|(at, _)| at + 4).nth(count - 1).unwrap()
}

/// All files of an engine except its lock, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            all.insert(path, bytes);
        }
    }
    all
}

fn accepting() -> FjallOptions {
    FjallOptions {
        loss: OnLoss::Skip,
        ..FjallOptions::default()
    }
}

/// Asserts that a check and an opening report the loss and change nothing, and that an opening can
/// accept the loss.
fn is_reported_and_can_be_accepted(folder: &Path, what: &str) -> FjallKv {
    let before = files(folder);
    let checked = FjallKv::check(folder);
    assert!(
        matches!(checked, Err(KvError::Lost { .. })),
        "{what}: {checked:?}"
    );
    let opened = FjallKv::open(folder, FjallOptions::default()).map(drop);
    assert!(
        matches!(opened, Err(KvError::Lost { .. })),
        "{what}: {opened:?}"
    );
    assert!(files(folder) == before, "{what}: a file was changed");
    drop(FjallKv::open(folder, accepting()).unwrap());
    FjallKv::check(folder).unwrap();
    let kv = FjallKv::open(folder, FjallOptions::default()).unwrap();
    commit(&kv, 100);
    kv.sync().unwrap();
    drop(kv);
    let kv = FjallKv::open(folder, FjallOptions::default()).unwrap();
    assert!(holds(&kv, 100..101), "{what}");
    kv
}

#[test]
fn an_unreadable_journal_is_refused_and_not_changed() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 5] = [
        ("first byte", |bytes| bytes[0] = 9),
        ("cut in the first batch", |bytes| bytes.truncate(30)),
        ("first block is zeros", |bytes| bytes[..4096].fill(0)),
        ("blocks swapped", |bytes| {
            let (a, b) = bytes.split_at_mut(2048);
            a.swap_with_slice(&mut b[..2048]);
        }),
        ("empty", Vec::clear),
    ];
    for (what, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        killed(folder.path());
        let path = journal(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        let end = content(&path) as usize;
        damage(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let kv = is_reported_and_can_be_accepted(folder.path(), what);
        assert!(!holds(&kv, 0..1), "{what}");
        let kept = std::fs::read(path.with_extension("damaged")).unwrap_or_default();
        let end = end.min(bytes.len());
        assert!(bytes[..end].starts_with(&kept), "{what}");
        assert_eq!(
            kept.is_empty(),
            bytes.is_empty(),
            "{what}: the damaged journal was not kept"
        );
    }
}

#[test]
fn a_deleted_journal_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    std::fs::remove_file(journal(folder.path())).unwrap();
    is_reported_and_can_be_accepted(folder.path(), "gone");
}

/// Like [`killed`], with the last half of the commits in a second journal; returns the first one.
fn killed_with_two_journals(folder: &Path) -> PathBuf {
    killed(folder);
    let path = journal(folder);
    let bytes = std::fs::read(&path).unwrap();
    let half = after_batches(&bytes, 20);
    std::fs::write(path.with_file_name("1.jnl"), &bytes[half..]).unwrap();
    std::fs::write(&path, &bytes[..half]).unwrap();
    path
}

#[test]
fn the_deletion_of_the_first_of_two_journals_is_detected_and_the_second_is_read() {
    let folder = tempfile::tempdir().unwrap();
    killed_with_two_journals(folder.path());
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert!(
        holds(&kv, 0..40),
        "an engine with two journals lost commits"
    );
    // A fresh engine: the first one may move its first journal into a table.
    let folder = tempfile::tempdir().unwrap();
    let first = killed_with_two_journals(folder.path());
    std::fs::remove_file(first).unwrap();
    let kv = is_reported_and_can_be_accepted(folder.path(), "first of two");
    assert!(holds(&kv, 20..40) && !holds(&kv, 0..1));
}

#[test]
fn a_flipped_bit_loses_its_batch_and_all_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let whole = std::fs::read(journal(folder.path())).unwrap();
    let (from, to) = (after_batches(&whole, 10), after_batches(&whole, 11));
    // Flip bits in the items of the batch, and damage one of their lengths.
    for at in (to - 60..to - 15).step_by(7).chain([from + 5]) {
        let folder = tempfile::tempdir().unwrap();
        killed(folder.path());
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        if at == from + 5 {
            bytes[at..at + 8].fill(0);
        }
        std::fs::write(journal(folder.path()), &bytes).unwrap();
        let kv = is_reported_and_can_be_accepted(folder.path(), &format!("byte {at}"));
        assert!(holds(&kv, 0..10) && !holds(&kv, 10..11), "byte {at}");
    }
}

fn going_back() -> FjallOptions {
    FjallOptions {
        loss: OnLoss::RollBack,
        ..FjallOptions::default()
    }
}

/// The number of commits before the first missing one; asserts that no later commit exists.
fn prefix(kv: &FjallKv) -> u64 {
    let count = (0..40).take_while(|n| holds(kv, *n..n + 1)).count() as u64;
    let behind = (count..40).find(|n| holds(kv, *n..n + 1));
    assert_eq!(behind, None, "a commit follows a gap after {count} commits");
    count
}

#[test]
fn a_rollback_keeps_exactly_the_commits_before_the_first_missing_one() {
    type Damage = fn(&Path, &mut Vec<u8>);
    let damages: [(&str, u64, Damage); 4] = [
        ("in the first of two journals", 10, |_, bytes| {
            let at = after_batches(bytes, 11) - 30;
            bytes[at] ^= 4;
        }),
        ("the first ends too early", 10, |_, bytes| {
            let at = after_batches(bytes, 10);
            bytes.truncate(at);
        }),
        ("nothing can be read of the first", 0, |_, bytes| {
            bytes.fill(9);
        }),
        ("nothing can be read of the second", 20, |path, _| {
            let second = path.with_file_name("1.jnl");
            let length = std::fs::read(&second).unwrap().len();
            std::fs::write(second, vec![9; length]).unwrap();
        }),
    ];
    for (what, left, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = killed_with_two_journals(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&path, &mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let kv = FjallKv::open(folder.path(), going_back()).unwrap();
        assert_eq!(prefix(&kv), left, "{what}");
        drop(kv);
        for _ in 0..2 {
            let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
            assert_eq!(prefix(&kv), left, "{what}");
            commit(&kv, 100);
            kv.sync().unwrap();
        }
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        assert!(holds(&kv, 100..101), "{what}");
        assert!(path.with_file_name("1.damaged").exists(), "{what}");
    }
}

#[test]
fn flushed_commits_need_no_journal() {
    let count = |damage: &dyn Fn(&mut Vec<u8>)| {
        let folder = tempfile::tempdir().unwrap();
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        for number in 0..40 {
            commit(&kv, number);
            if number == 24 {
                kv.flush().unwrap();
            }
        }
        kv.sync().unwrap();
        drop(kv);
        for (path, mut bytes) in files(folder.path()) {
            if path.extension().is_some_and(|e| e == "jnl") {
                damage(&mut bytes);
                std::fs::write(path, bytes).unwrap();
            }
        }
        prefix(&FjallKv::open(folder.path(), going_back()).unwrap())
    };
    assert_eq!(count(&|_| {}), 40);
    assert_eq!(count(&|bytes| bytes.fill(0)), 25);
    assert_eq!(count(&Vec::clear), 25);
    for at in (0..4000).step_by(211) {
        let left = count(&|bytes| bytes[at] ^= 16);
        assert!(left >= 25, "a flipped bit at {at} left {left} commits");
    }
    // A store flushes its engine once more before it closes it.
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    kv.flush().unwrap();
    kv.flush().unwrap();
    drop(kv);
    for (path, _) in files(folder.path()) {
        if path.extension().is_some_and(|e| e == "jnl") {
            std::fs::write(path, b"no journal").unwrap();
        }
    }
    FjallKv::check(folder.path()).unwrap();
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert_eq!(prefix(&kv), 40);
}

#[test]
fn tables_are_read_without_any_journal() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    kv.flush().unwrap();
    drop(kv);
    let remove = || {
        for (path, _) in files(folder.path()) {
            if path.extension().is_some_and(|e| e == "jnl") {
                std::fs::remove_file(path).unwrap();
            }
        }
    };
    remove();
    for round in 0..3 {
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        assert_eq!(prefix(&kv), 40, "round {round}");
        // New commits override those in the tables.
        kv.transact(&mut |txn| {
            txn.put(KEYS, &7_u64.to_be_bytes(), b"new");
            Ok(())
        })
        .unwrap();
        let found = kv.snapshot().unwrap().get(KEYS, &7_u64.to_be_bytes());
        assert_eq!(found.unwrap(), Some(b"new".to_vec()));
        commit(&kv, 7);
        kv.flush().unwrap();
        kv.sync().unwrap();
        drop(kv);
        remove();
    }
}

#[test]
fn an_engine_that_cannot_write_tables_reports_that_and_blocks_no_caller() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    let tables = folder.path().join("keyspaces/1/tables");
    std::fs::remove_dir(&tables).unwrap();
    std::fs::write(&tables, b"no folder").unwrap();
    let started = std::time::Instant::now();
    for _ in 0..2 {
        assert!(matches!(kv.flush(), Err(KvError::Engine { .. })));
    }
    assert!(started.elapsed().as_secs() < 30);
    drop(kv);
    std::fs::remove_file(&tables).unwrap();
    std::fs::create_dir(&tables).unwrap();
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert_eq!(prefix(&kv), 40, "the journals lost commits");
    kv.flush().unwrap();
}

/// An engine with tables and more than one journal.
fn long(folder: &Path) {
    let options = FjallOptions {
        memtable: 4 << 20,
        ..FjallOptions::default()
    };
    let kv = FjallKv::open(folder, options).unwrap();
    for number in 0..120_u64 {
        kv.transact(&mut |txn| {
            let mut bytes = vec![0; 1 << 20];
            SmallRng::seed_from_u64(number).fill_bytes(&mut bytes);
            txn.put(KEYS, &(1000 + number % 8).to_be_bytes(), &bytes);
            Ok(())
        })
        .unwrap();
    }
    commit(&kv, 0);
    kv.sync().unwrap();
}

/// The newest table file.
fn table(folder: &Path) -> PathBuf {
    let tables = files(&folder.join("keyspaces/1/tables"));
    tables.into_keys().next_back().unwrap()
}

#[test]
fn journals_whose_commits_are_in_tables_may_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    long(folder.path());
    assert!(
        !folder.path().join("0.jnl").exists(),
        "the first journal was not deleted"
    );
    FjallKv::check(folder.path()).unwrap();
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert!(holds(&kv, 0..1));
    // This commit is probably in no table yet.
    commit(&kv, 1);
    kv.sync().unwrap();
    drop(kv);
    // The engine still detects the loss of the other journals.
    for (path, _) in files(folder.path()) {
        if path.extension().is_some_and(|e| e == "jnl") {
            std::fs::write(path, b"").unwrap();
        }
    }
    // The check succeeds if the engine had already written those commits to tables.
    if FjallKv::check(folder.path()).is_ok() {
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        assert!(holds(&kv, 0..2));
        return;
    }
    is_reported_and_can_be_accepted(folder.path(), "tables");
}

#[test]
fn damage_to_files_other_than_journals_is_reported_with_its_folder_and_changes_nothing() {
    let first = tempfile::tempdir().unwrap();
    long(first.path());
    let newest = |folder: &Path| {
        let current = std::fs::read(folder.join("keyspaces/1/current")).unwrap();
        let number = u64::from_le_bytes(current[..8].try_into().unwrap());
        folder.join(format!("keyspaces/1/v{number}"))
    };
    let names = [
        ("table", table(first.path()), false),
        ("no table", table(first.path()), true),
        ("version of the tables", newest(first.path()), false),
        ("no version of the tables", newest(first.path()), true),
        ("current", first.path().join("keyspaces/1/current"), false),
        ("no current", first.path().join("keyspaces/1/current"), true),
        ("no names", first.path().join("keyspaces/0/current"), true),
        ("no version", first.path().join("version"), true),
    ];
    for (what, path, gone) in names {
        let folder = tempfile::tempdir().unwrap();
        for (from, bytes) in files(first.path()) {
            let name = from.strip_prefix(first.path()).unwrap();
            // `copies.rs` tests the copies.
            if name.starts_with("weft.copies") {
                continue;
            }
            let to = folder.path().join(name);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, bytes).unwrap();
        }
        let path = folder.path().join(path.strip_prefix(first.path()).unwrap());
        if gone {
            std::fs::remove_file(&path).unwrap();
        } else {
            let mut bytes = std::fs::read(&path).unwrap();
            let from = bytes.len().saturating_sub(40);
            bytes[from..].iter_mut().for_each(|b| *b ^= 0x55);
            std::fs::write(&path, bytes).unwrap();
        }
        let before = files(folder.path());
        let opened = FjallKv::open(folder.path(), FjallOptions::default());
        let error = opened.map(drop).expect_err(what);
        assert!(matches!(error, KvError::Damaged { .. }), "{what}: {error}");
        let said = error.to_string();
        assert!(
            said.contains(folder.path().to_str().unwrap()),
            "{what}: {said}"
        );
        assert!(files(folder.path()) == before, "{what}: a file was changed");
    }
}

fn cases() -> u32 {
    std::env::var("WEFT_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// A flipped bit, a run of zeros, or two swapped runs, anywhere in the journal.
    #[test]
    fn any_damage_is_refused_or_costs_only_unsynced_commits(
        place in any::<u64>(), other in any::<u64>(), how in 0..3_u8, bit in 0..8_u32, length in 1..200_usize
    ) {
        let folder = tempfile::tempdir().unwrap();
        killed(folder.path());
        let path = journal(folder.path());
        let end = content(&path);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let read = |at: u64, length: usize| {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at).unwrap();
            bytes
        };
        let length = length.min(end as usize / 4);
        let (a, b) = (place % (end - length as u64), other % (end - length as u64));
        match how {
            0 => file.write_all_at(&[read(a, 1)[0] ^ (1 << bit)], a).unwrap(),
            1 => file.write_all_at(&vec![0; length], a).unwrap(),
            _ => {
                let (x, y) = (read(a, length), read(b, length));
                file.write_all_at(&x, b).unwrap();
                file.write_all_at(&y, a).unwrap();
            }
        }
        match FjallKv::open(folder.path(), FjallOptions::default()) {
            Ok(kv) => prop_assert!(holds(&kv, 0..30), "synced commits were lost"),
            Err(KvError::Lost { .. } | KvError::Open { .. }) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }
}
