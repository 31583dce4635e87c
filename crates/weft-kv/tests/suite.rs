//! One suite for both engines: each one keeps the promises of the trait.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use weft_kv::{
    Batch, FjallKv, FjallOptions, KvError, MemKv, OrderedKv, Reader, Space, scan_prefix,
    transact_with,
};

const A: Space = Space("a");
const B: Space = Space("ab");

fn pairs(reader: &dyn Reader, space: Space) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    reader.scan(space, all.0, all.1, &mut visit).unwrap();
    found
}

fn keys(reader: &dyn Reader, space: Space) -> Vec<Vec<u8>> {
    pairs(reader, space)
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

fn put(kv: &dyn OrderedKv, space: Space, key: &[u8], value: &[u8]) {
    transact_with(kv, |txn| {
        txn.put(space, key, value);
        Ok::<_, KvError>(())
    })
    .unwrap();
}

fn a_transaction_reads_its_own_writes(kv: &dyn OrderedKv) {
    put(kv, A, b"k2", b"old");
    put(kv, A, b"k4", b"old");
    kv.transact(&mut |txn| {
        txn.put(A, b"k1", b"1");
        txn.put(A, b"k2", b"new");
        txn.put(A, b"k3", b"3");
        txn.delete(A, b"k3");
        txn.delete(A, b"k4");
        txn.put(A, b"k5", b"5");
        assert_eq!(txn.get(A, b"k2")?, Some(b"new".to_vec()));
        assert_eq!(txn.get(A, b"k4")?, None);
        assert_eq!(keys(txn, A), [b"k1", b"k2", b"k5"]);
        Ok(())
    })
    .unwrap();
    let snapshot = kv.snapshot().unwrap();
    assert_eq!(keys(&*snapshot, A), [b"k1", b"k2", b"k5"]);
}

#[derive(Debug)]
enum Mine {
    Kv(#[allow(dead_code)] KvError),
    Refused(u32),
}
impl From<KvError> for Mine {
    fn from(error: KvError) -> Self {
        Mine::Kv(error)
    }
}

fn an_error_rolls_everything_back(kv: &dyn OrderedKv) {
    put(kv, A, b"k", b"before");
    let refused: Result<(), Mine> = transact_with(kv, |txn| {
        txn.put(A, b"k", b"after");
        txn.delete(B, b"x");
        Err(Mine::Refused(7))
    });
    assert!(matches!(refused, Err(Mine::Refused(7))));
    let value = kv.snapshot().unwrap().get(A, b"k").unwrap();
    assert_eq!(value, Some(b"before".to_vec()));
}

fn a_snapshot_does_not_see_later_commits(kv: &dyn OrderedKv) {
    put(kv, A, b"k1", b"1");
    put(kv, A, b"k2", b"2");
    let before = kv.snapshot().unwrap();
    put(kv, A, b"k1", b"changed");
    kv.transact(&mut |txn| {
        txn.delete(A, b"k2");
        Ok(())
    })
    .unwrap();
    put(kv, A, b"k0", b"0");
    let after = kv.snapshot().unwrap();
    let (one, two) = (b"1".to_vec(), b"2".to_vec());
    assert_eq!(
        pairs(&*before, A),
        [(b"k1".to_vec(), one), (b"k2".to_vec(), two)]
    );
    assert_eq!(before.get(A, b"k0").unwrap(), None);
    drop(before);
    assert_eq!(keys(&*after, A), [b"k0", b"k1"]);
    drop(after);
    put(kv, A, b"k1", b"again");
    assert_eq!(keys(&*kv.snapshot().unwrap(), A), [b"k0", b"k1"]);
}

fn a_visitor_may_use_the_engine(kv: &dyn OrderedKv) {
    for i in 0..200_u8 {
        put(kv, A, &[i], b"v");
    }
    let snapshot = kv.snapshot().unwrap();
    let mut seen = 0;
    let mut visit = |key: &[u8], _: &[u8]| {
        put(kv, B, key, b"seen");
        seen += 1;
        ControlFlow::Continue(())
    };
    let all = (Bound::Unbounded, Bound::Unbounded);
    snapshot.scan(A, all.0, all.1, &mut visit).unwrap();
    assert_eq!(seen, 200);
    assert_eq!(keys(&*kv.snapshot().unwrap(), B).len(), 200);
}

fn scans_respect_bounds_and_breaks(kv: &dyn OrderedKv) {
    for i in 0..100_u8 {
        put(kv, A, &[1, i], &[i]);
        put(kv, B, &[i], &[i]);
    }
    put(kv, A, &[2], b"");
    let snapshot = kv.snapshot().unwrap();
    let collect = |from: Bound<&[u8]>, to: Bound<&[u8]>, limit: usize| {
        let mut found = Vec::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            found.push(key[key.len() - 1]);
            if found.len() == limit {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        snapshot.scan(B, from, to, &mut visit).unwrap();
        found
    };
    let (five, nine) = ([5_u8], [9_u8]);
    let inside = collect(Bound::Included(&five), Bound::Included(&nine), 99);
    assert_eq!(inside, [5, 6, 7, 8, 9]);
    let inside = collect(Bound::Excluded(&five), Bound::Excluded(&nine), 99);
    assert_eq!(inside, [6, 7, 8]);
    assert_eq!(
        collect(Bound::Included(&nine), Bound::Unbounded, 3),
        [9, 10, 11]
    );
    assert!(collect(Bound::Included(&nine), Bound::Excluded(&five), 3).is_empty());
    assert!(collect(Bound::Excluded(&five), Bound::Excluded(&five), 3).is_empty());
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Continue(())
    };
    scan_prefix(&*snapshot, A, &[1], &mut visit).unwrap();
    assert_eq!(count, 100);
}

fn spaces_do_not_mix(kv: &dyn OrderedKv) {
    put(kv, A, b"b\0k", b"of a");
    put(kv, B, b"k", b"of ab");
    let snapshot = kv.snapshot().unwrap();
    assert_eq!(keys(&*snapshot, A), [b"b\0k".to_vec()]);
    assert_eq!(keys(&*snapshot, B), [b"k".to_vec()]);
    assert_eq!(keys(&*snapshot, Space("none")), Vec::<Vec<u8>>::new());
}

fn the_last_change_of_a_key_in_a_batch_wins(kv: &dyn OrderedKv) {
    let key = b"k".to_vec();
    let other = b"other".to_vec();
    let changes = vec![
        (A, key.clone(), Some(b"1".to_vec())),
        (A, key.clone(), None),
        (A, key.clone(), Some(b"2".to_vec())),
        (A, other.clone(), Some(b"1".to_vec())),
        (A, other, None),
    ];
    kv.write(Batch { changes }).unwrap();
    let snapshot = kv.snapshot().unwrap();
    assert_eq!(pairs(&*snapshot, A), [(key, b"2".to_vec())]);
}

fn long_keys_and_values_are_kept(kv: &dyn OrderedKv) {
    let key = vec![7; 4000];
    let value = vec![9; 300_000];
    put(kv, A, &key, &value);
    put(kv, A, b"empty", b"");
    let snapshot = kv.snapshot().unwrap();
    assert_eq!(snapshot.get(A, &key).unwrap(), Some(value));
    assert_eq!(snapshot.get(A, b"empty").unwrap(), Some(Vec::new()));
}

fn increments_from_many_threads_are_serializable(kv: &dyn OrderedKv) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    transact_with(kv, |txn| {
                        let old = txn.get(A, b"count")?.map_or(0, |v| v[0].into());
                        let new: u32 = old + 1;
                        let round = txn.get(A, b"round")?.map_or(0, |v| v[0]);
                        txn.put(A, b"count", &[(new % 200) as u8]);
                        if new == 200 {
                            txn.put(A, b"round", &[round + 1]);
                        }
                        Ok::<_, KvError>(())
                    })
                    .unwrap();
                }
            });
        }
    });
    let snapshot = kv.snapshot().unwrap();
    assert_eq!(snapshot.get(A, b"round").unwrap(), Some(vec![4]));
    assert_eq!(snapshot.get(A, b"count").unwrap(), Some(vec![0]));
}

fn concurrent_commits_and_syncs_all_return(kv: &dyn OrderedKv) {
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            scope.spawn(move || {
                for i in 0..20_u8 {
                    put(kv, A, &[thread, i], b"v");
                    kv.sync().unwrap();
                }
            });
        }
    });
    assert_eq!(keys(&*kv.snapshot().unwrap(), A).len(), 160);
}

macro_rules! on_both_engines {
    ($($name:ident)*) => {
        mod mem {
            $(#[test] fn $name() { super::$name(&weft_kv::MemKv::new()); })*
        }
        mod fjall {
            $(#[test] fn $name() {
                let folder = tempfile::tempdir().unwrap();
                let options = weft_kv::FjallOptions::default();
                super::$name(&weft_kv::FjallKv::open(folder.path(), options).unwrap());
            })*
        }
    };
}

on_both_engines! {
    a_transaction_reads_its_own_writes
    an_error_rolls_everything_back
    a_snapshot_does_not_see_later_commits
    a_visitor_may_use_the_engine
    scans_respect_bounds_and_breaks
    spaces_do_not_mix
    the_last_change_of_a_key_in_a_batch_wins
    long_keys_and_values_are_kept
    increments_from_many_threads_are_serializable
    concurrent_commits_and_syncs_all_return
}

#[test]
fn a_clean_close_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4_u8 {
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        assert_eq!(keys(&*kv.snapshot().unwrap(), A).len(), usize::from(round));
        put(&kv, A, &[round], b"v");
        if round % 2 == 0 {
            kv.sync().unwrap();
        }
    }
}

#[test]
fn a_second_open_is_refused_because_the_engine_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let _first = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
    let second = FjallKv::open(folder.path(), FjallOptions::default());
    let message = second.unwrap_err().to_string();
    assert!(message.contains("another process has it open"), "{message}");
    assert!(message.contains(&folder.path().display().to_string()));
}

#[test]
fn power_loss_loses_only_unsynced_commits() {
    let kv = Arc::new(MemKv::new());
    put(&*kv, A, b"kept", b"1");
    put(&*kv, A, b"gone", b"1");
    kv.sync().unwrap();
    put(&*kv, A, b"kept", b"2");
    put(&*kv, A, b"new", b"2");
    kv.transact(&mut |txn| {
        txn.delete(A, b"gone");
        txn.put(A, b"kept", b"3");
        Ok(())
    })
    .unwrap();
    assert_eq!(kv.unsynced(), 3);
    let expected = [
        (b"gone".to_vec(), b"1".to_vec()),
        (b"kept".to_vec(), b"1".to_vec()),
    ];
    let clone = kv.clone_synced();
    assert_eq!(pairs(&*clone.snapshot().unwrap(), A), expected);
    assert_eq!(keys(&*kv.snapshot().unwrap(), A).len(), 2);
    kv.crash_power_loss();
    assert_eq!(pairs(&*kv.snapshot().unwrap(), A), expected);
    put(&*kv, A, b"later", b"4");
    put(&*kv, A, b"later", b"5");
    kv.crash_power_loss_keeping(1);
    assert_eq!(
        kv.snapshot().unwrap().get(A, b"later").unwrap(),
        Some(b"4".to_vec())
    );
    kv.crash_power_loss();
    assert_eq!(
        kv.snapshot().unwrap().get(A, b"later").unwrap(),
        Some(b"4".to_vec())
    );
}
