//! Random operations on the namespace and on an oracle, compared after each step.
//!
//! The oracle is a plain tree of nodes with a second implementation of POSIX's rules, without keys,
//! counts or caches: links and sizes are counted when they are needed.

use crate::common;
use crate::oracle;

use common::{Volume, at, creating, who};
use oracle::{Oracle, Outcome};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_meta::MetaError;
use weft_proto::meta::*;

const USERS: [u32; 3] = [0, 1, 2];
const MODES: [u32; 10] = [
    0o777, 0o777, 0o777, 0o755, 0o1777, 0o2777, 0o2775, 0o6755, 0o555, 0o070,
];
const NAMES: [&str; 7] = ["a", "b", "c", "d", ".", "..", "e"];

fn path(rng: &mut SmallRng) -> String {
    let depth = [1, 1, 1, 2, 2, 3][rng.random_range(0..6)];
    let mut path = String::new();
    if rng.random_bool(0.1) {
        path.push('@');
    }
    for level in 0..depth {
        if level > 0 || rng.random_bool(0.2) {
            path.push('/');
        }
        // Dots are rare.
        let among = if rng.random_bool(0.1) { 7 } else { 4 };
        path.push_str(NAMES[rng.random_range(0..among)]);
    }
    if rng.random_bool(0.05) {
        path.push('/');
    }
    path
}

fn outcome<T>(result: Result<T, MetaError>, value: impl FnOnce(T) -> String) -> Outcome {
    match result {
        Ok(found) => Ok(value(found)),
        Err(MetaError::Corrupt { .. } | MetaError::Kv(_)) => panic!("the namespace is damaged"),
        Err(error) => Err(error.code()),
    }
}

/// The attributes that both keep of a file.
fn show(attributes: &Attributes) -> String {
    format!(
        "{} {:o} {}:{} links {} size {}",
        attributes.kind,
        attributes.mode,
        attributes.uid,
        attributes.gid,
        attributes.links,
        attributes.size
    )
}

/// Runs one random operation on both; returns it in words with both outcomes.
fn step(rng: &mut SmallRng, v: &mut Volume, oracle: &mut Oracle) -> (String, Outcome, Outcome) {
    let uid = if rng.random_bool(0.5) {
        0
    } else {
        USERS[rng.random_range(0..3)]
    };
    let (one, two) = (path(rng), path(rng));
    let mode = MODES[rng.random_range(0..MODES.len())];
    let seen = |attributes: Attributes| show(&attributes);
    let done = |()| String::new();
    match rng.random_range(0..17) {
        0..3 => (
            format!("{uid}: mkdir {one} {mode:o}"),
            outcome(v.mkdir(uid, &one, mode), seen),
            oracle.mkdir(uid, &one, mode),
        ),
        3..6 => {
            let exclusive = rng.random_bool(0.4);
            let attached = v.attach(1, &creating(uid, &one, mode, exclusive));
            if let Ok(attached) = &attached {
                v.detach(1, attached.reply.attributes.id, false);
            }
            (
                format!("{uid}: create {one} {mode:o} {exclusive}"),
                outcome(attached, |attached| show(&attached.reply.attributes)),
                oracle.create(uid, &one, mode, exclusive),
            )
        }
        6 => {
            let text = path(rng).replace('@', "");
            (
                format!("{uid}: symlink {one} -> {text}"),
                outcome(v.symlink(uid, &one, &text), seen),
                oracle.symlink(uid, &one, &text),
            )
        }
        7 => (
            format!("{uid}: link {one} {two}"),
            outcome(v.link(uid, &one, &two), seen),
            oracle.link(uid, &one, &two),
        ),
        8 | 9 => (
            format!("{uid}: unlink {one}"),
            outcome(v.unlink(uid, &one), |reply| reply.links.to_string()),
            oracle.unlink(uid, &one),
        ),
        10 => (
            format!("{uid}: rmdir {one}"),
            outcome(v.rmdir(uid, &one), |reply| reply.links.to_string()),
            oracle.rmdir(uid, &one),
        ),
        11..14 => {
            let (no_replace, exchange) = match rng.random_range(0..5) {
                0 => (true, false),
                1 => (false, true),
                _ => (false, false),
            };
            (
                format!("{uid}: rename {one} {two} {no_replace} {exchange}"),
                outcome(v.rename_with(uid, &one, &two, no_replace, exchange), done),
                oracle.rename(uid, &one, &two, no_replace, exchange),
            )
        }
        14 => (
            format!("{uid}: chmod {one} {mode:o}"),
            outcome(v.chmod(uid, &one, mode), seen),
            oracle.chmod(uid, &one, mode),
        ),
        15 => {
            let owner = rng.random_bool(0.5).then(|| USERS[rng.random_range(0..3)]);
            let group = rng
                .random_bool(0.5)
                .then(|| [0, 1, 2, 20][rng.random_range(0..4)]);
            (
                format!("{uid}: chown {one} {owner:?} {group:?}"),
                outcome(v.chown(uid, &one, owner, group), seen),
                oracle.chown(uid, &one, owner, group),
            )
        }
        _ => (
            format!("{uid}: stat {one}"),
            outcome(v.stat(uid, &one), seen),
            oracle.stat(uid, &one),
        ),
    }
}

/// The whole tree as root sees it, by listings.
fn tree(v: &Volume) -> Vec<String> {
    let mut lines = Vec::new();
    let mut todo = vec![String::new()];
    while let Some(directory) = todo.pop() {
        let request = ListRequest {
            who: who(0),
            target: at(&format!("/{directory}")),
            after: Vec::new().into(),
            limit: 0,
        };
        for entry in v.meta.list(&request).unwrap().entries {
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            let path = format!("{directory}/{name}");
            lines.push(format!("{path} {}", show(&entry.attributes)));
            if entry.attributes.kind() == FileKind::Directory {
                todo.push(path);
            }
        }
    }
    lines.sort();
    lines
}

fn run(mut v: Volume, seed: u64, steps: usize) -> (usize, usize) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut oracle = Oracle::new();
    let mut history = Vec::new();
    let (mut succeeded, mut refused) = (0, 0);
    for number in 0..steps {
        let (what, ours, theirs) = step(&mut rng, &mut v, &mut oracle);
        history.push(what);
        let recent = &history[history.len().saturating_sub(12)..];
        assert_eq!(ours, theirs, "seed {seed} step {number}: {recent:#?}");
        if ours.is_ok() {
            succeeded += 1;
        } else {
            refused += 1;
        }
        if number % 16 == 0 || number + 1 == steps {
            assert_eq!(
                tree(&v),
                oracle.tree(),
                "seed {seed} step {number}: {recent:#?}"
            );
        }
        if number % 64 == 0 {
            v.check();
        }
        if number % 400 == 399 {
            v.carry_deletes();
            v.restart();
            v.meta.reap_orphans().unwrap();
        }
    }
    (succeeded, refused)
}

#[test]
fn the_namespace_agrees_with_the_oracle_in_memory() {
    let (mut succeeded, mut refused) = (0, 0);
    for seed in 0..30 {
        let counts = run(Volume::mem(), seed, 1500);
        succeeded += counts.0;
        refused += counts.1;
    }
    // Both outcomes must be frequent, or the comparison proves nothing.
    assert!(
        succeeded > 8_000 && refused > 8_000,
        "{succeeded} succeeded, {refused} were refused"
    );
}

#[test]
fn the_namespace_agrees_with_the_oracle_on_the_engine() {
    for seed in 100..104 {
        run(Volume::fjall(), seed, 1000);
    }
}
