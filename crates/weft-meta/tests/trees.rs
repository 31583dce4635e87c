//! Checkpoints of trees in the namespace, compared with the tree at the time when they were made.
#![allow(missing_docs)]

use crate::common;

use std::collections::{BTreeMap, HashMap};

use common::{Volume, at, attaching, by_id, creating, who};
use proptest::prelude::*;
use weft_meta::{Append, CheckpointFiles, CheckpointTask, Intent, MetaError, SpillEnd};
use weft_proto::checkpoint::*;
use weft_proto::coord::AppendRequest;
use weft_proto::inline::StoreInlineRequest;
use weft_proto::meta::*;
use weft_proto::quota::{Bound, QuotaKind, SetQuotaRequest};

/// A tree as operations show it: by path the kind, mode, owner, size, time, and text, bytes or
/// attribute.
type Shown = BTreeMap<String, (i32, u32, u32, u64, i64, Vec<u8>)>;

/// A volume whose servers are a table of sizes.
struct World {
    v: Volume,
    sizes: HashMap<u64, u64>,
    kept: HashMap<(u64, u64), u64>,
}

impl World {
    fn new() -> World {
        let mut v = Volume::mem();
        v.mkdir(0, "t", 0o755).unwrap();
        v.mkdir(0, "out", 0o755).unwrap();
        World {
            v,
            sizes: HashMap::new(),
            kept: HashMap::new(),
        }
    }

    /// Carries out all intents, as the service and its servers would.
    fn carry(&mut self) {
        loop {
            let intents = self.v.meta.pending_intents(100).unwrap();
            if intents.is_empty() {
                return;
            }
            for intent in intents {
                let now = self.v.tick();
                match intent {
                    Intent::Delete { number, file, .. } => {
                        assert!(
                            !self.kept.keys().any(|(_, f)| *f == file.0),
                            "cells that a checkpoint holds are deleted"
                        );
                        self.sizes.remove(&file.0);
                        self.v.meta.intent_done(number).unwrap();
                    }
                    Intent::Truncate {
                        number, file, size, ..
                    } => {
                        self.sizes.insert(file.0, size);
                        self.v.meta.truncate_done(number, now).unwrap();
                    }
                    Intent::Tree {
                        number,
                        task,
                        files,
                        ..
                    } => self.carry_tree(number, task, files.iter().map(|f| f.file.0).collect()),
                    Intent::Checkpoint { number, .. } => {
                        self.v.meta.checkpoint_done(number, 0, now).unwrap();
                    }
                }
            }
        }
    }

    fn carry_tree(&mut self, number: u64, task: CheckpointTask, files: Vec<u64>) {
        let mut kept = CheckpointFiles::new();
        for file in files {
            match task {
                CheckpointTask::Make => {
                    let size = self.sizes.get(&file).copied().unwrap_or(0);
                    self.kept.insert((number, file), size);
                    kept.insert(file, (size, i64::MIN));
                }
                CheckpointTask::RollBack(of) => {
                    let size = self.kept[&(of, file)];
                    self.sizes.insert(file, size);
                }
                CheckpointTask::Drop(of) => {
                    self.kept
                        .remove(&(of, file))
                        .expect("the checkpoint exists");
                }
            }
        }
        let now = self.v.tick();
        self.v.meta.tree_done(number, &kept, now).unwrap();
        // Repeating it changes nothing.
        self.v.meta.tree_done(number, &kept, now).unwrap();
    }

    fn checkpoint(&mut self, path: &str, name: &str) -> Result<CheckpointInfo, MetaError> {
        let (who, target, name) = (who(0), at(path), name.to_owned());
        let now = self.v.tick();
        let request = MakeCheckpointRequest {
            who,
            target,
            name: name.clone(),
        };
        let intent = self.v.meta.make_checkpoint(now, &request)?;
        assert!(self.info(path).is_err() || !self.info(path).unwrap().contains_key(&name));
        self.carry();
        let made = self.v.meta.checkpoint_info(intent.file().0, &name)?;
        Ok(made.expect("a checkpoint is listed when all servers have it"))
    }

    fn info(&self, path: &str) -> Result<BTreeMap<String, CheckpointInfo>, MetaError> {
        let request = ListCheckpointsRequest {
            who: who(0),
            target: at(path),
            after: String::new(),
        };
        let list = self.v.meta.list_checkpoints(&request)?.checkpoints;
        Ok(list.into_iter().map(|c| (c.name.clone(), c)).collect())
    }

    fn roll_back(&mut self, path: &str, name: &str) -> Result<(), MetaError> {
        let (who, target, name) = (who(0), at(path), name.to_owned());
        let now = self.v.tick();
        let request = RollBackRequest { who, target, name };
        self.v.meta.roll_back(now, &request)?;
        self.carry();
        Ok(())
    }

    fn quota(&mut self, path: &str, bytes: Option<Bound>, clear: bool) -> Result<(), MetaError> {
        let request = SetQuotaRequest {
            who: who(0),
            kind: QuotaKind::Tree as i32,
            target: Some(at(path)),
            bytes,
            clear,
            ..SetQuotaRequest::default()
        };
        self.v.meta.set_quota(&request).map(drop)
    }

    fn remove(&mut self, path: &str, name: &str) -> Result<(), MetaError> {
        let (who, target, name) = (who(0), at(path), name.to_owned());
        let request = RemoveCheckpointRequest { who, target, name };
        self.v.meta.remove_checkpoint(&request)?;
        self.carry();
        Ok(())
    }

    /// Writes a file with cells: `size` are the bytes on its servers then.
    fn write(&mut self, path: &str, size: u64) -> Result<(), MetaError> {
        let mut request = creating(0, path, 0o640, false);
        request.write = true;
        let attached = loop {
            match self.v.attach(1, &request) {
                Err(MetaError::Inline { id }) => self.spill(id),
                other => break other?,
            }
        };
        let file = attached.reply.attributes.id;
        let now = self.v.tick();
        let known = self.sizes.entry(file).or_default();
        *known = size.max(*known);
        let report = ReportRequest {
            file,
            modified: Some(now),
            detach: true,
            write: true,
            end: Some(*known),
            ..ReportRequest::default()
        };
        self.v.meta.report(1, &report)?;
        Ok(())
    }

    fn spill(&mut self, id: u64) {
        let now = self.v.tick();
        if let Some(spill) = self.v.meta.begin_spill(id).unwrap() {
            self.sizes.insert(id, spill.data.len() as u64);
            self.v.meta.end_spill(now, id, SpillEnd::Written).unwrap();
        }
    }

    /// Writes a small file, whose bytes are stored with its metadata unless it was spilled.
    fn store(&mut self, path: &str, data: &[u8]) -> Result<(), MetaError> {
        let mut request = creating(0, path, 0o600, false);
        (request.write, request.inline) = (true, true);
        let attached = self.v.attach(1, &request)?;
        let file = attached.reply.attributes.id;
        if attached.reply.inline.is_none() {
            self.v.detach(1, file, true);
            return self.write(path, data.len() as u64);
        }
        let now = self.v.tick();
        let request = StoreInlineRequest {
            file,
            data: data.to_vec().into(),
            modified: now,
            detach: true,
            ..Default::default()
        };
        self.v.meta.store_inline(now, 1, &request)?;
        Ok(())
    }

    fn shown(&mut self, root: Target) -> Shown {
        let root = self.v.stat_target(0, root).unwrap();
        let mut shown = Shown::new();
        let mut queue = vec![(String::new(), root)];
        while let Some((path, a)) = queue.pop() {
            let mut bytes = Vec::new();
            if a.kind == FileKind::Directory as i32 {
                let request = ListRequest {
                    who: who(0),
                    target: by_id(a.id),
                    after: Vec::new().into(),
                    limit: 0,
                };
                for entry in self.v.meta.list(&request).unwrap().entries {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    queue.push((format!("{path}/{name}"), entry.attributes));
                }
            } else if a.kind == FileKind::Symlink as i32 {
                let (who, target) = (who(0), by_id(a.id));
                let request = ReadLinkRequest { who, target };
                bytes = self.v.meta.read_link(&request).unwrap().text.to_vec();
            } else if a.inline {
                let mut request = attaching(0, "", true, false);
                (request.target, request.inline) = (by_id(a.id), true);
                let attached = self.v.attach(9, &request).unwrap();
                bytes = attached.reply.inline.unwrap().to_vec();
                self.v.detach(9, a.id, false);
            }
            if a.kind != FileKind::Symlink as i32 {
                let request = GetXattrRequest {
                    who: who(0),
                    target: by_id(a.id),
                    name: b"user.x".to_vec().into(),
                };
                if let Ok(reply) = self.v.meta.get_xattr(&request) {
                    bytes.extend(&reply.value);
                }
            }
            let size = if a.size_exact {
                a.size
            } else {
                self.sizes.get(&a.id).copied().unwrap_or(0)
            };
            shown.insert(path, (a.kind, a.mode, a.uid, size, a.modified, bytes));
        }
        shown
    }
}

fn filled() -> World {
    let mut w = World::new();
    w.v.mkdir(0, "t/d", 0o750).unwrap();
    w.write("t/d/big", 1 << 30).unwrap();
    w.store("t/small", b"a few bytes").unwrap();
    w.v.symlink(0, "t/link", "d/big").unwrap();
    w.v.link(0, "t/d/big", "t/again").unwrap();
    w.v.chown(0, "t/small", Some(5), Some(6)).unwrap();
    w
}

#[test]
fn a_checkpoint_keeps_its_tree_through_all_later_changes() {
    let mut w = filled();
    let before = w.shown(at("t"));
    let made = w.checkpoint("t", "c").unwrap();
    assert_eq!((made.names, made.size), (5, (1 << 30) + 11));
    w.v.unlink(0, "t/d/big").unwrap();
    w.v.unlink(0, "t/again").unwrap();
    w.v.rename(0, "t/small", "out/moved").unwrap();
    w.store("out/moved", b"others").unwrap();
    w.v.rmdir(0, "t/d").unwrap();
    w.v.chmod(0, "t", 0o700).unwrap();
    w.carry();
    w.v.check();
    assert!(w.shown(by_id(made.image)) == before);
    // Files of a checkpoint are found by path, like any other file.
    let kept = w.v.stat(0, "t/.weft/checkpoints/c/d/big").unwrap();
    assert_eq!((kept.size, kept.checkpoint), (1 << 30, made.number));
    let link = w.v.stat(0, "t/.weft/checkpoints/c/link").unwrap();
    assert_eq!(link.id, kept.id, "a link resolves within the checkpoint");
    w.roll_back("t", "c").unwrap();
    w.v.check();
    assert!(w.shown(at("t")) == before);
    // A file that was moved out has both names, and one content.
    let (inside, outside) = (w.v.stat(0, "t/small"), w.v.stat(0, "out/moved"));
    assert_eq!(inside.unwrap().id, outside.unwrap().id);
    w.remove("t", "c").unwrap();
    w.v.check();
    assert!(w.shown(at("t")) == before);
    assert!(w.kept.is_empty());
    refused!(w.roll_back("t", "c"), NotFound);
}

#[test]
fn the_cells_of_a_deleted_file_are_deleted_with_its_last_checkpoint() {
    let mut w = filled();
    w.checkpoint("t", "one").unwrap();
    w.checkpoint("t/d", "two").unwrap();
    let id = w.v.stat(0, "t/d/big").unwrap().id;
    w.checkpoint("t/d/big", "own").unwrap();
    w.v.unlink(0, "t/d/big").unwrap();
    w.v.unlink(0, "t/again").unwrap();
    w.carry();
    assert_eq!(
        w.sizes[&id], 0,
        "the cells that only the file had are deleted"
    );
    w.remove("t", "one").unwrap();
    w.v.check();
    assert!(w.sizes.contains_key(&id));
    w.remove("t/d", "two").unwrap();
    w.v.check();
    assert!(!w.sizes.contains_key(&id));
    assert_eq!(w.v.meta.counts().unwrap().intents, 0);
}

#[test]
fn everything_in_a_checkpoint_is_read_only() {
    let mut w = filled();
    w.checkpoint("t", "c").unwrap();
    let kept = "t/.weft/checkpoints/c";
    let before = w.shown(at(kept));
    let small = format!("{kept}/small");
    refused!(w.v.chmod(0, &small, 0o777), ReadOnly);
    refused!(w.v.unlink(0, &small), ReadOnly);
    refused!(w.v.rename(0, &small, "out/x"), ReadOnly);
    refused!(w.v.rename(0, "t/small", &format!("{kept}/x")), ReadOnly);
    refused!(w.v.link(0, &small, "out/x"), ReadOnly);
    refused!(w.v.mkdir(0, &format!("{kept}/x"), 0o755), ReadOnly);
    refused!(w.v.create(0, &format!("{kept}/x"), 0o644), ReadOnly);
    refused!(w.v.rmdir(0, &format!("{kept}/d")), NotEmpty);
    refused!(w.v.truncate(0, &small, 0), ReadOnly);
    refused!(w.v.truncate(0, &format!("{kept}/d/big"), 0), ReadOnly);
    refused!(w.v.attach(1, &attaching(0, &small, false, true)), ReadOnly);
    refused!(w.checkpoint(kept, "again"), ReadOnly);
    w.v.check();
    assert!(w.shown(at(kept)) == before);
    // For a reader that cannot handle inline files the bytes are spilled; they stay in the
    // checkpoint.
    let reading = attaching(0, &small, true, false);
    let Err(MetaError::Inline { id }) = w.v.attach(2, &reading) else {
        panic!("the bytes of a small file are stored with its metadata");
    };
    w.spill(id);
    let attached = w.v.attach(2, &reading).unwrap().reply;
    assert_eq!((attached.attributes.source, attached.inline), (0, None));
    w.v.detach(2, id, false);
    w.v.unlink(0, "t/small").unwrap();
    w.roll_back("t", "c").unwrap();
    w.v.check();
    assert_eq!(w.v.stat(0, "t/small").unwrap().size, 11);
    w.remove("t", "c").unwrap();
    assert!(!w.sizes.contains_key(&id), "its cells are deleted");
    w.v.check();
}

#[test]
fn impossible_operations_are_refused() {
    let mut w = filled();
    refused!(w.checkpoint("t/link/x", "c"), NotDirectory);
    refused!(w.checkpoint("@t/link", "c"), Invalid);
    for name in ["", "a/b", ".", "..", "a\0b"] {
        refused!(w.checkpoint("t", name), Invalid);
    }
    refused!(w.checkpoint("t", &"n".repeat(256)), NameTooLong);
    w.checkpoint("t", "c").unwrap();
    refused!(w.checkpoint("t", "c"), Exists);
    for result in [w.roll_back("t", "d"), w.remove("t", "d")] {
        let said = result.unwrap_err().to_string();
        assert!(said.contains("there is no checkpoint d"), "{said}");
    }
    refused!(w.v.stat(0, "t/.weft/checkpoints/d"), NotFound);
    // A directory with checkpoints stays, also below one that is rolled back.
    w.v.mkdir(0, "t/new", 0o755).unwrap();
    w.checkpoint("t/new", "inner").unwrap();
    refused!(w.v.rmdir(0, "t/new"), NotEmpty);
    refused!(w.roll_back("t", "c"), NotEmpty);
    w.remove("t/new", "inner").unwrap();
    // So do the checkpoints of a file that a rollback would recreate.
    w.write("t/small", 50_000).unwrap();
    w.checkpoint("t/small", "own").unwrap();
    let said = w.roll_back("t", "c").unwrap_err();
    assert!(
        said.to_string()
            .contains("small was stored with its metadata then"),
        "{said}"
    );
    assert_eq!(said.code(), weft_proto::Code::NotEmpty);
    assert!(w.info("t/small").unwrap().contains_key("own"));
    w.remove("t/small", "own").unwrap();
    w.roll_back("t", "c").unwrap();
    refused!(w.v.stat(0, "t/new"), NotFound);
    // Only root rolls back files of others.
    w.v.chown(0, "t", Some(7), None).unwrap();
    let request = RollBackRequest {
        who: who(7),
        target: at("t"),
        name: "c".into(),
    };
    refused!(w.v.meta.roll_back(5000, &request), NotOwner);
    w.v.check();
}

/// The writer is not yet notified of the rollback.
#[test]
fn an_append_after_a_rollback_goes_after_the_restored_bytes() {
    let mut w = World::new();
    let mut request = creating(0, "t/f", 0o644, true);
    (request.write, request.inline) = (true, true);
    let file = w.v.attach(1, &request).unwrap().reply.attributes.id;
    let store = |w: &mut World, data: &[u8]| {
        let request = StoreInlineRequest {
            file,
            data: data.to_vec().into(),
            modified: 4000,
            ..StoreInlineRequest::default()
        };
        let now = w.v.tick();
        w.v.meta.store_inline(now, 1, &request).unwrap();
    };
    store(&mut w, &[7; 200]);
    w.checkpoint("t", "c").unwrap();
    store(&mut w, b"");
    w.roll_back("t", "c").unwrap();
    let request = AppendRequest {
        file,
        length: 5,
        known_end: 0,
    };
    assert_eq!(w.v.meta.append(1, &request).unwrap(), Append::At(200));
    assert_eq!(w.v.meta.append(1, &request).unwrap(), Append::At(205));
    w.v.check();
}

#[test]
fn an_intent_of_a_tree_stays_in_order_with_those_of_its_files() {
    let mut w = filled();
    w.v.truncate(0, "t/d/big", 5).unwrap();
    let request = MakeCheckpointRequest {
        who: who(0),
        target: at("t"),
        name: "c".into(),
    };
    w.v.meta.make_checkpoint(5000, &request).unwrap();
    w.v.truncate(0, "t/d/big", 9).unwrap();
    w.write("out/other", 7).unwrap();
    w.v.truncate(0, "out/other", 1).unwrap();
    let now = w.v.meta.pending_intents(100).unwrap();
    assert_eq!(
        now.len(),
        2,
        "the first intent of the file, and that of another file"
    );
    w.carry();
    assert_eq!(w.v.stat(0, "t/.weft/checkpoints/c/d/big").unwrap().size, 5);
    assert_eq!(w.v.stat(0, "t/d/big").unwrap().size, 9);
}

#[test]
fn a_rollback_restores_the_name_of_an_open_unlinked_file() {
    let mut w = filled();
    w.checkpoint("t", "c").unwrap();
    let id = w.v.stat(0, "t/d/big").unwrap().id;
    w.v.attach(3, &attaching(0, "t/d/big", true, false))
        .unwrap();
    w.v.unlink(0, "t/again").unwrap();
    w.v.unlink(0, "t/d/big").unwrap();
    w.roll_back("t", "c").unwrap();
    w.v.check();
    w.v.detach(3, id, false);
    assert_eq!(w.v.stat(0, "t/d/big").unwrap().id, id);
    assert_eq!(w.v.stat(0, "t/again").unwrap().links, 2);
    w.v.check();
}

#[test]
#[ignore = "measures; run alone"]
fn the_cost_of_a_checkpoint_of_many_files() {
    let mut w = World::new();
    w.v = Volume::fjall();
    w.v.mkdir(0, "t", 0o755).unwrap();
    let mut made = 0;
    for files in [1000, 10_000, 100_000] {
        while made < files {
            if made % 1000 == 0 {
                w.v.mkdir(0, &format!("t/{}", made / 1000), 0o755).unwrap();
            }
            let path = format!("t/{}/{made}", made / 1000);
            w.v.create(0, &path, 0o644).unwrap();
            made += 1;
        }
        let mut took = Vec::new();
        let mut time = |w: &mut World, what: fn(&mut World)| {
            let started = std::time::Instant::now();
            what(w);
            took.push(started.elapsed());
        };
        time(&mut w, |w| drop(w.checkpoint("t", "c").unwrap()));
        time(&mut w, |w| w.roll_back("t", "c").unwrap());
        time(&mut w, |w| w.remove("t", "c").unwrap());
        println!("{files} files: made, rolled back, dropped in {took:?}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Mkdir(usize),
    Write(usize, u64),
    Store(usize, Vec<u8>),
    Rename(usize, usize),
    Link(usize, usize),
    Unlink(usize),
    Rmdir(usize),
    Chmod(usize, u32),
    Chown(usize, u32),
    Quota(usize, Option<u64>),
    Clear(usize),
    Truncate(usize, u64),
    Make(usize),
    RollBack(usize),
    Drop(usize),
}

const PATHS: [&str; 8] = [
    "t/a", "t/b", "t/c", "t/a/x", "t/a/y", "t/b/x", "out/m", "out/n",
];

fn op() -> impl Strategy<Value = Op> {
    let place = || 0..PATHS.len();
    prop_oneof![
        2 => place().prop_map(Op::Mkdir),
        4 => (place(), 1..50_000_u64).prop_map(|(p, n)| Op::Write(p, n)),
        4 => (place(), proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(p, d)| Op::Store(p, d)),
        3 => (place(), place()).prop_map(|(a, b)| Op::Rename(a, b)),
        2 => (place(), place()).prop_map(|(a, b)| Op::Link(a, b)),
        3 => place().prop_map(Op::Unlink),
        1 => place().prop_map(Op::Rmdir),
        1 => (place(), 0..0o1000_u32).prop_map(|(p, m)| Op::Chmod(p, m)),
        2 => (place(), 0..3_u32).prop_map(|(p, uid)| Op::Chown(p, uid)),
        1 => (place(), proptest::option::of(20_000..200_000_u64)).prop_map(|(p, n)| Op::Quota(p, n)),
        1 => place().prop_map(Op::Clear),
        1 => (place(), 0..30_000_u64).prop_map(|(p, n)| Op::Truncate(p, n)),
        2 => (0..3_usize).prop_map(Op::Make),
        2 => (0..3_usize).prop_map(Op::RollBack),
        1 => (0..3_usize).prop_map(Op::Drop),
    ]
}

fn run(w: &mut World, kept: &mut BTreeMap<usize, (Shown, u64)>, op: Op) {
    // A refusal is legal here: only successful answers are compared.
    let _refused = match op {
        Op::Mkdir(p) => w.v.mkdir(0, PATHS[p], 0o755).map(drop),
        Op::Write(p, size) => w.write(PATHS[p], size),
        Op::Store(p, data) => w.store(PATHS[p], &data),
        Op::Rename(a, b) => w.v.rename(0, PATHS[a], PATHS[b]),
        Op::Link(a, b) => w.v.link(0, PATHS[a], PATHS[b]).map(drop),
        Op::Unlink(p) => w.v.unlink(0, PATHS[p]).map(drop),
        Op::Rmdir(p) => w.v.rmdir(0, PATHS[p]).map(drop),
        Op::Chmod(p, mode) => w.v.chmod(0, PATHS[p], mode).map(drop),
        Op::Chown(p, uid) => {
            let path = format!("@{}", PATHS[p]);
            w.v.chown(0, &path, Some(uid), Some(uid)).map(drop)
        }
        Op::Quota(p, most) => {
            let bytes = Some(Bound { most });
            w.quota(PATHS[p], bytes, false)
        }
        Op::Clear(p) => w.quota(PATHS[p], None, true),
        Op::Truncate(p, size) => loop {
            match w.v.truncate(0, PATHS[p], size) {
                Err(MetaError::Inline { id }) => w.spill(id),
                other => break other.map(drop),
            }
        },
        Op::Make(n) => {
            w.carry();
            let shown = w.shown(at("t"));
            let made = w.checkpoint("t", &n.to_string());
            assert_eq!(made.is_ok(), !kept.contains_key(&n));
            made.map(|made| drop(kept.insert(n, (shown, made.image))))
        }
        Op::RollBack(n) => {
            let done = w.roll_back("t", &n.to_string());
            let quota = matches!(
                done,
                Err(MetaError::QuotaExceeded { .. } | MetaError::CrossDevice { .. })
            );
            assert_eq!(done.is_ok() || quota, kept.contains_key(&n));
            if let Some((shown, _)) = kept.get(&n).filter(|_| !quota) {
                assert!(w.shown(at("t")) == *shown, "rolled back to {n}");
            }
            done
        }
        Op::Drop(n) => {
            let done = w.remove("t", &n.to_string());
            assert_eq!(done.is_ok(), kept.remove(&n).is_some());
            done
        }
    };
}

fn cases() -> u32 {
    let cases = std::env::var("WEFT_CASES")
        .ok()
        .and_then(|c| c.parse().ok());
    cases.unwrap_or(60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn checkpoints_show_the_old_tree_after_any_operations(ops in proptest::collection::vec(op(), 1..60)) {
        let mut w = World::new();
        let mut kept = BTreeMap::new();
        for op in ops {
            run(&mut w, &mut kept, op);
            w.v.check();
        }
        w.carry();
        for (shown, image) in kept.values() {
            prop_assert!(w.shown(by_id(*image)) == *shown);
        }
        for n in kept.keys() {
            w.remove("t", &n.to_string()).unwrap();
        }
        w.v.check();
        prop_assert!(w.kept.is_empty());
    }
}
