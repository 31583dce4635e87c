//! Damage to tables loses nothing if their copy is good, and is always detected otherwise.
//!
//! The oracle: an engine that opens has every synced commit; one that does not open changes
//! nothing.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use weft_kv::{
    DamagedFile, FjallKv, FjallOptions, KvError, OnLoss, OrderedKv, Reader, Remedy, Space,
};

const KEYS: Space = Space("keys");
const COUNT: u64 = 3000;

fn options() -> FjallOptions {
    FjallOptions {
        memtable: 1 << 20,
        ..FjallOptions::default()
    }
}

fn open(folder: &Path) -> Result<FjallKv, KvError> {
    FjallKv::open(folder, options())
}

fn value(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1000];
    SmallRng::seed_from_u64(number).fill_bytes(&mut bytes);
    bytes
}

fn write(kv: &FjallKv, numbers: std::ops::Range<u64>) {
    for number in numbers {
        kv.transact(&mut |txn| {
            txn.put(KEYS, &number.to_be_bytes(), &value(number));
            Ok(())
        })
        .unwrap();
    }
    kv.sync().unwrap();
}

/// Asserts that the engine has `count` pairs: reads each one, then all in one scan.
fn holds(kv: &FjallKv, count: u64) {
    let snapshot = kv.snapshot().unwrap();
    for number in 0..count {
        let found = snapshot.get(KEYS, &number.to_be_bytes()).unwrap();
        assert_eq!(found, Some(value(number)), "{number}");
    }
    assert_eq!(scan(&*snapshot).unwrap(), count);
}

fn scan(reader: &dyn Reader) -> Result<u64, KvError> {
    let mut count = 0;
    reader.scan(KEYS, Bound::Unbounded, Bound::Unbounded, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// All files of an engine, by their path within its folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn add(folder: &Path, at: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(folder.join(at)).unwrap() {
            let entry = entry.unwrap();
            let path = at.join(entry.file_name());
            if entry.path().is_dir() {
                add(folder, &path, all);
            } else {
                all.insert(path, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    add(folder, Path::new(""), &mut all);
    all
}

/// The damaged files of an open engine.
fn verify(kv: &FjallKv) -> Vec<DamagedFile> {
    let files = kv.files().unwrap();
    files
        .iter()
        .filter_map(|file| kv.verify(file).unwrap().1)
        .collect()
}

fn restore(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    std::fs::remove_dir_all(folder).unwrap();
    for (path, bytes) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// The files of the tables, without outdated lists.
fn copied(folder: &Path) -> Vec<PathBuf> {
    let counts = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(number) = name.and_then(|name| name.strip_prefix('v')?.parse::<u64>().ok()) else {
            return true;
        };
        let current = std::fs::read(folder.join(path).with_file_name("current")).unwrap();
        current[..8] == number.to_le_bytes()
    };
    let all = files(folder).into_keys();
    all.filter(|path| path.starts_with("keyspaces") || path == Path::new("version"))
        .filter(|path| counts(path))
        .collect()
}

/// The table files. Works for an open engine, whose other files may change.
fn tables(folder: &Path) -> Vec<PathBuf> {
    let tables = Path::new("keyspaces/1/tables");
    let Ok(entries) = std::fs::read_dir(folder.join(tables)) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|e| tables.join(e.unwrap().file_name()))
        .collect();
    names.sort();
    names
}

/// An engine with tables, all of them copied, and some commits in its journal only.
fn sample(folder: &Path) {
    let mut kv = open(folder).unwrap();
    write(&kv, 0..COUNT);
    let started = Instant::now();
    let current = |folder: &Path| std::fs::read(folder.join("keyspaces/1/current")).ok();
    // The engine may write one more table while it is closed.
    while tables(folder).is_empty() || current(folder) != current(&folder.join("weft.copies")) {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "timed out waiting for tables and their copies"
        );
        std::thread::sleep(Duration::from_millis(20));
        kv.copy_tables().unwrap();
        drop(kv);
        kv = open(folder).unwrap();
    }
}

/// Swaps two blocks of a table, each of which stays intact.
fn exchange_blocks(bytes: &mut [u8]) {
    // A block begins with a magic number; two blocks of equal length can be swapped.
    let mark = bytes[..4].to_vec();
    let starts: Vec<usize> = (0..bytes.len() - 4)
        .filter(|at| bytes[*at..*at + 4] == mark)
        .collect();
    let length = |n: usize| starts.get(n + 1).map_or(0, |next| next - starts[n]);
    let pair = (0..starts.len() - 1)
        .flat_map(|a| (a + 1..starts.len() - 1).map(move |b| (a, b)))
        .find(|(a, b)| length(*a) == length(*b))
        .expect("a table has two blocks of one length");
    let (a, b) = (starts[pair.0], starts[pair.1]);
    let (front, behind) = bytes.split_at_mut(b);
    front[a..a + length(pair.0)].swap_with_slice(&mut behind[..length(pair.1)]);
}

#[test]
fn every_damaged_file_is_restored_and_quarantined() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let whole = files(folder.path());
    for path in copied(folder.path()) {
        for how in ["flipped", "zeros", "cut", "empty", "gone"] {
            restore(folder.path(), &whole);
            let own = folder.path().join(&path);
            let mut bytes = whole[&path].clone();
            let middle = bytes.len() / 2;
            match how {
                "flipped" => bytes[middle] ^= 4,
                "zeros" => bytes[middle..].fill(0),
                "cut" => bytes.truncate(middle),
                _ => bytes.clear(),
            }
            if bytes == whole[&path] {
                continue;
            }
            std::fs::write(&own, &bytes).unwrap();
            if how == "gone" {
                std::fs::remove_file(&own).unwrap();
            }
            let found = FjallKv::verify_folder(folder.path()).unwrap();
            assert!(
                found.len() == 1 && found[0].remedy == Remedy::RestoreCopy,
                "{}, {how}: {found:?}",
                path.display()
            );
            let kv = open(folder.path()).unwrap();
            holds(&kv, COUNT);
            write(&kv, COUNT..COUNT + 1);
            drop(kv);
            assert_eq!(
                FjallKv::verify_folder(folder.path()).unwrap(),
                [],
                "{}, {how}",
                path.display()
            );
            let kept = folder.path().join("weft.damaged").join(&path);
            if how == "gone" {
                assert!(!kept.exists());
            } else {
                assert_eq!(
                    std::fs::read(kept).unwrap(),
                    bytes,
                    "{}, {how}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn exchanged_blocks_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let table = folder.path().join(&tables(folder.path())[0]);
    let mut bytes = std::fs::read(&table).unwrap();
    exchange_blocks(&mut bytes);
    std::fs::write(&table, &bytes).unwrap();
    let damaged = files(folder.path());
    holds(&open(folder.path()).unwrap(), COUNT);
    // Without the copy the engine does not open and changes nothing.
    restore(folder.path(), &damaged);
    std::fs::remove_dir_all(folder.path().join("weft.copies")).unwrap();
    let before = files(folder.path());
    let found = FjallKv::verify_folder(folder.path()).unwrap();
    assert!(
        found.len() == 1 && found[0].remedy == Remedy::None,
        "{found:?}"
    );
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, KvError::Damaged { .. }), "{error}");
    assert!(
        error.to_string().contains(table.to_str().unwrap()),
        "{error}"
    );
    assert!(files(folder.path()) == before, "a file was changed");
    // An engine that accepts the damage reports it instead of pairs in the wrong order.
    let accepting = FjallOptions {
        loss: OnLoss::Skip,
        ..options()
    };
    let kv = FjallKv::open(folder.path(), accepting).unwrap();
    let error = scan(&*kv.snapshot().unwrap()).unwrap_err();
    assert!(error.to_string().contains("not in order"), "{error}");
}

#[test]
fn a_damaged_copy_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let table = &tables(folder.path())[0];
    for path in [
        folder.path().join(table),
        folder.path().join("weft.copies").join(table),
    ] {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let before = files(folder.path());
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, KvError::Damaged { .. }), "{error}");
    assert!(files(folder.path()) == before, "a file was changed");
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damage_to_an_open_engine_is_found_and_damaged_copies_are_replaced() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("engine");
    sample(&folder);
    let kv = open(&folder).unwrap();
    kv.copy_tables().unwrap();
    assert_eq!(verify(&kv), []);
    // Files of the same name that do not belong to the engine.
    let others = [
        outer.path().join("current"),
        folder.join("weft.copies/current"),
    ];
    for path in &others {
        std::fs::write(path, b"theirs").unwrap();
    }
    let table = &tables(&folder)[0];
    let copies =
        [table, Path::new("keyspaces/1/current")].map(|path| folder.join("weft.copies").join(path));
    for path in &copies {
        flip(path);
    }
    let bad = verify(&kv);
    assert!(
        !bad.is_empty() && bad.iter().all(|bad| bad.remedy == Remedy::Recopy),
        "{bad:?}"
    );
    kv.copy_tables().unwrap();
    assert_eq!(verify(&kv), []);
    assert!(
        others.iter().all(|path| path.exists()),
        "a foreign file was removed"
    );
    let own = folder.join(table);
    flip(&own);
    let bad = verify(&kv);
    assert_eq!(
        (bad.len(), &bad[0].path, bad[0].remedy),
        (1, &own, Remedy::RestoreCopy)
    );
    // The damage marks the engine as suspect; the next opening verifies all tables.
    assert!(folder.join("weft.suspect").exists());
    drop(kv);
    let kv = open(&folder).unwrap();
    assert!(!folder.join("weft.suspect").exists());
    holds(&kv, COUNT);
    assert_eq!(verify(&kv), []);
}

#[test]
fn a_folder_is_repaired_without_opening_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sample(folder);
    let table = &tables(folder)[0];
    flip(&folder.join(table));
    flip(&folder.join("weft.copies/keyspaces/0/current"));
    let bad = FjallKv::verify_folder(folder).unwrap();
    let mends: Vec<Remedy> = bad.iter().map(|bad| bad.remedy).collect();
    assert_eq!(mends, [Remedy::RestoreCopy, Remedy::Recopy], "{bad:?}");
    FjallKv::repair_folder(folder).unwrap();
    assert_eq!(FjallKv::verify_folder(folder).unwrap(), []);
    let kv = open(folder).unwrap();
    holds(&kv, COUNT);
    kv.copy_tables().unwrap();
    assert!(folder.join("weft.copies/keyspaces/0/current").exists());
}

#[test]
fn a_list_is_restored_with_the_tables_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sample(folder);
    let whole = files(folder);
    let current = whole[Path::new("keyspaces/1/current")].clone();
    let mut tagged = current.clone();
    tagged[24] = 1;
    let longer = [&current[..], b"and more"].concat();
    for said in [&current[..12], &current[..3], &tagged, &longer] {
        restore(folder, &whole);
        std::fs::write(folder.join("keyspaces/1/current"), said).unwrap();
        for table in tables(folder) {
            std::fs::remove_file(folder.join(table)).unwrap();
        }
        // The missing tables may have been merged into newer ones, so they are not damage.
        let told = FjallKv::verify_folder(folder).unwrap();
        let paths: Vec<_> = told.iter().map(|bad| bad.path.clone()).collect();
        assert_eq!(paths, [folder.join("keyspaces/1/current")]);
        holds(&open(folder).unwrap(), COUNT);
    }
    // A version number that contradicts all other files is damage.
    for said in [b"FJL\x02", b"FJL\x13", b"FJL\x09"] {
        restore(folder, &whole);
        std::fs::write(folder.join("version"), said).unwrap();
        holds(&open(folder).unwrap(), COUNT);
    }
    // The engine does not change the files of another version.
    restore(folder, &whole);
    std::fs::write(folder.join("version"), b"FJL\x09").unwrap();
    std::fs::write(folder.join("keyspaces/1/current"), &longer).unwrap();
    let before = files(folder);
    assert!(open(folder).is_err());
    assert!(files(folder) == before, "a file was changed");
}

#[test]
fn a_table_damaged_before_its_copy_does_not_stop_the_copies_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sample(folder);
    std::fs::remove_dir_all(folder.join("weft.copies")).unwrap();
    let kv = open(folder).unwrap();
    let all = tables(folder);
    flip(&folder.join(&all[0]));
    let error = kv.copy_tables().unwrap_err();
    assert!(
        error.to_string().contains("does not match its list"),
        "{error}"
    );
    let copied: Vec<bool> = all
        .iter()
        .map(|table| folder.join("weft.copies").join(table).exists())
        .collect();
    assert!(
        !copied[0] && copied[1..].iter().all(|copied| *copied),
        "{copied:?}"
    );
    assert!(!folder.join("weft.copies/keyspaces/1/current").exists());
    assert!(!folder.join("weft.copies/unfinished").exists());
    assert!(folder.join("weft.copies/keyspaces/0/current").exists());
    let bad = verify(&kv);
    assert_eq!((bad.len(), bad[0].remedy), (1, Remedy::None), "{bad:?}");
}

#[test]
fn copies_follow_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let kv = open(folder.path()).unwrap();
    // The engine writes and deletes tables between the copies.
    for round in 1..6 {
        write(&kv, round * COUNT..(round + 1) * COUNT);
        kv.copy_tables().unwrap();
    }
    holds(&kv, 6 * COUNT);
    drop(kv);
    // Once no more tables are written, the copies are exactly the tables.
    let kv = open(folder.path()).unwrap();
    kv.copy_tables().unwrap();
    drop(kv);
    let second = folder.path().join("weft.copies");
    let (mut own, theirs) = (copied(folder.path()), copied(&second));
    // The version file never changes and needs no copy.
    own.retain(|path| path != Path::new("version"));
    assert_eq!(own, theirs);
    for path in own {
        let read = |folder: &Path| std::fs::read(folder.join(&path)).unwrap();
        assert!(read(folder.path()) == read(&second), "{}", path.display());
    }
}

#[test]
fn closing_an_engine_completes_the_copy_of_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&open(folder).unwrap(), 0..COUNT);
    let current = |folder: &Path| std::fs::read(folder.join("keyspaces/1/current")).ok();
    // The engine may write one more table while it is being closed; the next closing copies it.
    let whole = (0..8).any(|_| {
        drop(open(folder).unwrap());
        !tables(folder).is_empty() && current(folder) == current(&folder.join("weft.copies"))
    });
    assert!(whole, "the close left tables without a copy");
    let second = folder.join("weft.copies");
    for path in tables(folder) {
        let read = |folder: &Path| std::fs::read(folder.join(&path)).unwrap();
        assert!(read(folder) == read(&second), "{}", path.display());
    }
}

#[test]
fn an_outdated_list_is_not_taken_for_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let old = files(folder.path());
    let kv = open(folder.path()).unwrap();
    // More commits than the journals hold.
    for round in 1..20 {
        write(&kv, round * COUNT..(round + 1) * COUNT);
    }
    drop(kv);
    let gone = !folder.path().join("0.jnl").exists();
    // Restore the old copies.
    std::fs::remove_dir_all(folder.path().join("weft.copies")).unwrap();
    for (path, bytes) in old
        .iter()
        .filter(|(path, _)| path.starts_with("weft.copies"))
    {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let newer = tables(folder.path());
    std::fs::write(folder.path().join("keyspaces/1/current"), b"?").unwrap();
    match open(folder.path()) {
        Ok(kv) => {
            assert!(
                !gone,
                "the engine opened without the commits of the first journal"
            );
            holds(&kv, 20 * COUNT);
        }
        Err(error) => {
            assert!(gone && matches!(error, KvError::Lost { .. }), "{error}");
            for table in newer {
                let kept = folder.path().join("weft.damaged").join(&table);
                assert!(kept.exists(), "{} is gone", table.display());
            }
        }
    }
}

fn cases() -> u32 {
    let cases = std::env::var("WEFT_CASES").ok();
    cases.and_then(|n| n.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// A flipped bit, a run of zeros or two swapped runs, anywhere in any of the files.
    #[test]
    fn damage_anywhere_in_the_tables_is_repaired(
        file in any::<usize>(), place in any::<usize>(), other in any::<usize>(), how in 0..3_u8, length in 1..9000_usize
    ) {
        thread_local!(static SAMPLE: BTreeMap<PathBuf, Vec<u8>> = {
            let folder = tempfile::tempdir().unwrap();
            sample(folder.path());
            files(folder.path())
        });
        let folder = tempfile::tempdir().unwrap();
        SAMPLE.with(|files| restore(folder.path(), files));
        let names = copied(folder.path());
        let path = folder.path().join(&names[file % names.len()]);
        let mut bytes = std::fs::read(&path).unwrap();
        prop_assume!(!bytes.is_empty());
        let length = length.min(bytes.len() / 2).max(1);
        let (a, b) = (place % (bytes.len() - length + 1), other % (bytes.len() - length + 1));
        match how {
            0 => bytes[a] ^= 1 << (other % 8),
            1 => bytes[a..a + length].fill(0),
            _ => (0..length).for_each(|i| bytes.swap(a + i, b + i)),
        }
        std::fs::write(&path, bytes).unwrap();
        let kv = open(folder.path()).unwrap();
        holds(&kv, COUNT);
    }
}
