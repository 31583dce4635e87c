//! A journal that lost what was on stable storage is never opened as if nothing had happened.
//!
//! The oracle: an engine that opens holds at least what was synced; one that does not changed nothing.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weft_kv::{FjallKv, FjallOptions, KvError, OrderedKv, Space};

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

/// Where the journal's content ends and the zeros begin.
fn content(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    bytes.iter().rposition(|b| *b != 0).unwrap() as u64 + 1
}

/// Whether all of these commits are there.
fn holds(kv: &FjallKv, numbers: std::ops::Range<u64>) -> bool {
    let snapshot = kv.snapshot().unwrap();
    let mut numbers = numbers;
    numbers.all(|n| snapshot.get(KEYS, &n.to_be_bytes()).unwrap() == Some(value(n)))
}

#[test]
fn a_journal_cut_before_what_was_synced_is_refused_and_left_as_it_is() {
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
        "the damage is still there to look at"
    );
    // Whoever wants to goes on without.
    let accept = FjallOptions {
        accept_loss: true,
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

#[test]
fn a_torn_end_behind_what_was_synced_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let path = journal(folder.path());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(content(&path) - 30).unwrap();
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert!(holds(&kv, 0..39) && !holds(&kv, 39..40));
    // Numbers go on without a gap.
    for number in 39..60 {
        commit(&kv, number);
    }
    kv.sync().unwrap();
    drop(kv);
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    assert!(holds(&kv, 0..60));
}

fn cases() -> u32 {
    std::env::var("WEFT_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// A flip, a run of zeros, or a swap of two runs anywhere in the journal.
    #[test]
    fn any_damage_is_refused_or_costs_only_what_was_not_synced(
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
            Ok(kv) => prop_assert!(holds(&kv, 0..30), "what was synced is gone"),
            Err(KvError::Lost { .. } | KvError::Open { .. }) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }
}
