//! Random operations on both engines: after every step their results are equal.
//!
//! The embedded engine is closed and reopened in between, so that its recovery is compared too;
//! snapshots stay open across later commits.

use std::ops::{Bound, ControlFlow};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_kv::{
    Batch, FjallKv, FjallOptions, KvError, MemKv, OrderedKv, Reader, Space, scan_prefix,
    transact_with,
};

const SPACES: [Space; 3] = [Space("one"), Space("two"), Space("three")];

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn key(rng: &mut SmallRng) -> Vec<u8> {
    let length = rng.random_range(0..4);
    (0..length)
        .map(|_| *[0, 1, 2, 254, 255].get(rng.random_range(0..5)).unwrap())
        .collect()
}

fn bound(rng: &mut SmallRng) -> Bound<Vec<u8>> {
    match rng.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

/// The results of the reads of one seed: gets and scans, some of them stopped early.
fn look(reader: &dyn Reader, seed: u64) -> Looked {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut gets = Vec::new();
    let mut scans = Vec::new();
    for space in SPACES {
        for _ in 0..4 {
            gets.push(reader.get(space, &key(&mut rng)).unwrap());
        }
        let (from, to) = (bound(&mut rng), bound(&mut rng));
        let limit = rng.random_range(1..40);
        let mut pairs = Pairs::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            pairs.push((key.to_vec(), value.to_vec()));
            if pairs.len() == limit {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let (from, to) = (
            from.as_ref().map(Vec::as_slice),
            to.as_ref().map(Vec::as_slice),
        );
        reader.scan(space, from, to, &mut visit).unwrap();
        scans.push(pairs);
    }
    (gets, scans)
}

type Looked = (Vec<Option<Vec<u8>>>, Vec<Pairs>);
type Step = (Vec<(Space, Vec<u8>, Option<Vec<u8>>)>, bool, u64);

fn transaction(kv: &dyn OrderedKv, (changes, abort, reads): &Step) -> Option<Looked> {
    let mut seen = None;
    let result = transact_with(kv, |txn| {
        for (at, (space, key, value)) in changes.iter().enumerate() {
            match value {
                Some(value) => txn.put(*space, key, value),
                None => txn.delete(*space, key),
            }
            if at == changes.len() / 2 {
                seen = Some(look(txn, *reads));
            }
        }
        if *abort {
            Err(KvError::Aborted)
        } else {
            Ok(())
        }
    });
    assert_eq!(result.is_err(), *abort);
    seen
}

#[test]
fn both_engines_return_the_same_results() {
    for seed in 0..12 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let folder = tempfile::tempdir().unwrap();
        let open = || FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        let mem = MemKv::new();
        for round in 0..4 {
            let fjall = open();
            let mut held = Vec::new();
            for step in 0..120 {
                let context = format!("seed {seed} round {round} step {step}");
                let count = rng.random_range(1..8);
                let changes: Vec<_> = (0..count)
                    .map(|_| {
                        let space = SPACES[rng.random_range(0..3)];
                        let value = rng
                            .random_bool(0.6)
                            .then(|| vec![rng.random(); rng.random_range(0..50)]);
                        (space, key(&mut rng), value)
                    })
                    .collect();
                match rng.random_range(0..10) {
                    0..6 => {
                        let step = (changes, rng.random_bool(0.2), rng.random());
                        assert_eq!(
                            transaction(&mem, &step),
                            transaction(&fjall, &step),
                            "{context}"
                        );
                    }
                    6 => {
                        mem.write(Batch {
                            changes: changes.clone(),
                        })
                        .unwrap();
                        fjall.write(Batch { changes }).unwrap();
                    }
                    7 => held.push((mem.snapshot().unwrap(), fjall.snapshot().unwrap())),
                    8 if !held.is_empty() => {
                        held.swap_remove(rng.random_range(0..held.len()));
                    }
                    _ => {
                        let step = rng.random();
                        let now = (mem.snapshot().unwrap(), fjall.snapshot().unwrap());
                        assert_eq!(look(&*now.0, step), look(&*now.1, step), "{context}");
                    }
                }
                for (ours, theirs) in &held {
                    let step = rng.random();
                    assert_eq!(look(&**ours, step), look(&**theirs, step), "{context}");
                }
            }
        }
    }
}

fn compare(ours: &dyn OrderedKv, theirs: &dyn OrderedKv) {
    let (ours, theirs) = (ours.snapshot().unwrap(), theirs.snapshot().unwrap());
    for space in SPACES {
        let [ours, theirs] = [&ours, &theirs].map(|reader| {
            let mut pairs = Pairs::new();
            let mut visit = |key: &[u8], value: &[u8]| {
                pairs.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            scan_prefix(&**reader, space, &[], &mut visit).unwrap();
            pairs
        });
        assert_eq!(ours.len(), theirs.len());
        assert!(ours == theirs, "the engines differ in {space:?}");
        assert!(ours.len() > 1_000);
    }
}

/// Small memtables make the engine flush and compact all the time, which is where its reports of
/// lost inserts came from (fjall issue 230).
#[test]
fn nothing_is_lost_while_tables_are_flushed_and_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let options = FjallOptions {
        memtable: 128 << 10,
        ..FjallOptions::default()
    };
    let mut rng = SmallRng::seed_from_u64(230);
    let mem = MemKv::new();
    for _ in 0..3 {
        let fjall = FjallKv::open(folder.path(), options).unwrap();
        for _ in 0..2_000 {
            let changes: Vec<_> = (0..8)
                .map(|_| {
                    let key = rng.random_range(0..30_000_u32).to_be_bytes().to_vec();
                    let length = rng.random_range(1..400);
                    let value = rng.random_bool(0.7).then(|| vec![rng.random(); length]);
                    (SPACES[rng.random_range(0..3)], key, value)
                })
                .collect();
            let batch = Batch { changes };
            mem.write(batch.clone()).unwrap();
            fjall.write(batch).unwrap();
        }
        mem.sync().unwrap();
        compare(&mem, &fjall);
        drop(fjall);
        compare(&mem, &FjallKv::open(folder.path(), options).unwrap());
    }
}
