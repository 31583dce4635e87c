//! Failures and crashes at every step of every operation.
//!
//! A script with every operation runs over an engine that fails at its n-th step, for every n:
//! before the commit (no effect) and after it (an effect without an answer). It also runs over an
//! engine that loses power after every prefix of its commits. Each time the invariants hold, the
//! service opens again, and pending intents can be carried out.

use crate::common;

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Volume, at, attaching, by_id, check, creating, settings, who};
use weft_kv::{Batch, KvError, MemKv, OrderedKv, Reader, Space, Transaction};
use weft_meta::{CheckpointFiles, Intent, MetaError, Namespace, Truncation};
use weft_proto::checkpoint::{MakeCheckpointRequest, RemoveCheckpointRequest, RollBackRequest};
use weft_proto::inline::StoreInlineRequest;
use weft_proto::meta::*;
use weft_proto::quota::{QuotaKind, SetQuotaRequest};

/// When the engine fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// At a step of a transaction or of a snapshot; nothing is written.
    Before,
    /// The commit succeeds, but its answer is an error.
    After,
}

struct Failing {
    inner: Arc<MemKv>,
    fault: Fault,
    /// Steps left until the failure; negative: it has happened, or never will.
    left: AtomicI64,
}

fn broken() -> KvError {
    KvError::Engine {
        doing: "test",
        reason: "this step was to fail".into(),
    }
}

impl Failing {
    fn hit(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 0
    }

    fn step(&self) -> Result<(), KvError> {
        if self.fault == Fault::Before && self.hit() {
            return Err(broken());
        }
        Ok(())
    }
}

struct Snapshot<'a>(Box<dyn Reader + 'a>, &'a Failing);
struct Txn<'a>(&'a mut dyn Transaction, &'a Failing, bool);

macro_rules! reads {
    () => {
        fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
            self.1.step()?;
            self.0.get(space, key)
        }

        fn scan(
            &self,
            space: Space,
            from: Bound<&[u8]>,
            to: Bound<&[u8]>,
            visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        ) -> Result<(), KvError> {
            self.1.step()?;
            self.0.scan(space, from, to, visit)
        }
    };
}

impl Reader for Snapshot<'_> {
    reads!();
}

impl Reader for Txn<'_> {
    reads!();
}

impl Transaction for Txn<'_> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.2 |= self.1.step().is_err();
        self.0.put(space, key, value);
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        self.2 |= self.1.step().is_err();
        self.0.delete(space, key);
    }
}

impl OrderedKv for Failing {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        self.step()?;
        Ok(Box::new(Snapshot(self.inner.snapshot()?, self)))
    }

    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        self.step()?;
        self.inner.transact(&mut |txn| {
            let mut txn = Txn(txn, self, false);
            work(&mut txn)?;
            if txn.2 {
                return Err(broken());
            }
            self.step()
        })?;
        if self.fault == Fault::After && self.hit() {
            return Err(broken());
        }
        Ok(())
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        self.inner.write(batch)
    }

    fn committed(&self) -> u64 {
        self.inner.committed()
    }

    fn sync(&self) -> Result<(), KvError> {
        self.step()?;
        self.inner.sync()
    }
}

type Step = Box<dyn Fn(&Namespace) -> Result<(), MetaError>>;

fn step<T>(run: impl Fn(&Namespace) -> Result<T, MetaError> + 'static) -> Step {
    Box::new(move |meta| run(meta).map(drop))
}

fn mkdir(path: &'static str) -> Step {
    step(move |meta| {
        let request = MakeDirectoryRequest {
            who: who(0),
            target: at(path),
            mode: 0o755,
            umask: 0,
            lease: false,
        };
        meta.make_directory(10, &request)
    })
}

fn attach(client: u64, path: &'static str, create: bool, write: bool) -> Step {
    step(move |meta| {
        let mut request = attaching(0, path, !write, write);
        if create {
            request.create = creating(0, path, 0o644, true).create;
        }
        meta.attach(20, client, &request)
    })
}

fn detach(client: u64, path: &'static str, write: bool) -> Step {
    step(move |meta| {
        let request = StatRequest {
            who: who(0),
            target: at(path),
        };
        let file = meta.stat(&request)?.attributes.id;
        let request = ReportRequest {
            file,
            modified: write.then_some(30),
            detach: true,
            write,
            end: write.then_some(100),
            ..ReportRequest::default()
        };
        let reply = meta.report(client, &request)?;
        if !reply.size_wanted {
            return Ok(reply);
        }
        let (size, turn) = (Some(100), Some(reply.turn));
        let request = ReportRequest {
            size,
            turn,
            ..request
        };
        meta.report(client, &request)
    })
}

fn rename(source: &'static str, target: &'static str, exchange: bool) -> Step {
    step(move |meta| {
        let request = RenameRequest {
            who: who(0),
            source: at(source),
            target: at(target),
            no_replace: false,
            exchange,
        };
        meta.rename(40, &request)
    })
}

fn unlink(path: &'static str) -> Step {
    step(move |meta| {
        let request = UnlinkRequest {
            who: who(0),
            target: at(path),
        };
        meta.unlink(50, &request)
    })
}

fn rmdir(path: &'static str) -> Step {
    step(move |meta| {
        let request = RemoveDirectoryRequest {
            who: who(0),
            target: at(path),
        };
        meta.remove_directory(60, &request)
    })
}

fn carry(meta: &Namespace) -> Result<(), MetaError> {
    for intent in meta.pending_intents(100)? {
        match intent {
            Intent::Delete { number, .. } => meta.intent_done(number)?,
            Intent::Truncate { number, .. } => drop(meta.truncate_done(number, 70)?),
            Intent::Checkpoint { number, .. } => drop(meta.checkpoint_done(number, 0, 70)?),
            Intent::Tree { number, .. } => meta.tree_done(number, &CheckpointFiles::new(), 70)?,
        }
    }
    Ok(())
}

/// Carries out all intents; those of one file one after the other.
fn carry_out_all(meta: &Namespace) -> Result<(), MetaError> {
    (0..6).try_for_each(|_| carry(meta))
}

fn truncate(path: &'static str, size: u64) -> Step {
    step(move |meta| {
        let request = TruncateRequest {
            who: who(0),
            target: at(path),
            size,
            attached: false,
            grow: false,
        };
        meta.truncate(80, &request)
    })
}

/// Every operation.
fn script() -> Vec<Step> {
    let set_xattr = step(|meta| {
        let request = SetXattrRequest {
            who: who(0),
            target: at("d/f"),
            name: b"user.x".to_vec().into(),
            value: b"v".to_vec().into(),
            create: false,
            replace: false,
        };
        meta.set_xattr(90, &request)
    });
    let link = step(|meta| {
        let request = LinkRequest {
            who: who(0),
            source: at("d/f"),
            target: at("g"),
        };
        meta.link(100, &request)
    });
    let symlink = step(|meta| {
        let request = MakeLinkRequest {
            who: who(0),
            target: at("l"),
            text: b"d".to_vec().into(),
        };
        meta.make_link(110, &request)
    });
    let chmod = step(|meta| {
        let request = SetAttributesRequest {
            who: who(0),
            target: at("g"),
            mode: Some(0o600),
            uid: Some(5),
            ..Default::default()
        };
        meta.set_attributes(120, &request)
    });
    let heartbeat = step(|meta| {
        let request = HeartbeatRequest {
            id: 2,
            address: "elsewhere:1".into(),
            ..Default::default()
        };
        meta.heartbeat(130, &request)
    });
    vec![
        mkdir("d"),
        mkdir("d/e"),
        attach(1, "d/f", true, true),
        detach(1, "d/f", true),
        set_xattr,
        link,
        symlink,
        chmod,
        heartbeat,
        attach(2, "open", true, true),
        attach(3, "d/over", true, false),
        truncate("d/f", 5),
        rename("d/f", "d/over", false),
        step(|meta| meta.session_ended(3)),
        step(carry),
        rename("d/e", "l/e2", false),
        rename("d/e2", "g", true),
        unlink("open"),
        truncate("d/over", 7),
        unlink("d/over"),
        unlink("d/e2"),
        step(carry),
        rmdir("g"),
        unlink("l"),
        step(|meta| meta.session_ended(2)),
        rmdir("d"),
        step(carry),
        step(carry),
    ]
}

fn checkpoint(path: &'static str, name: &'static str) -> Step {
    step(move |meta| {
        let (who, target, name) = (who(0), at(path), name.to_owned());
        meta.make_checkpoint(140, &MakeCheckpointRequest { who, target, name })
    })
}

fn roll_back(path: &'static str, name: &'static str) -> Step {
    step(move |meta| {
        let (who, target, name) = (who(0), at(path), name.to_owned());
        meta.roll_back(150, &RollBackRequest { who, target, name })
    })
}

fn remove_checkpoint(path: &'static str, name: &'static str) -> Step {
    step(move |meta| {
        let (who, target, name) = (who(0), at(path), name.to_owned());
        meta.remove_checkpoint(&RemoveCheckpointRequest { who, target, name })
    })
}

fn quota(path: &'static str, clear: bool) -> Step {
    step(move |meta| {
        let request = SetQuotaRequest {
            who: who(0),
            kind: QuotaKind::Tree as i32,
            target: Some(at(path)),
            clear,
            ..SetQuotaRequest::default()
        };
        meta.set_quota(&request)
    })
}

/// Every operation that concerns checkpoints of trees, in trees with quotas.
fn tree_script() -> Vec<Step> {
    let inline = || {
        step(|meta| {
            let mut request = creating(0, "d/small", 0o644, false);
            (request.write, request.inline) = (true, true);
            let file = meta.attach(15, 4, &request)?.reply.attributes.id;
            let request = StoreInlineRequest {
                file,
                data: b"small".to_vec().into(),
                modified: 16,
                detach: true,
                ..Default::default()
            };
            meta.store_inline(16, 4, &request)
        })
    };
    vec![
        mkdir("d"),
        mkdir("d/e"),
        quota("d/e", false),
        attach(1, "d/f", true, true),
        detach(1, "d/f", true),
        quota("d", false),
        attach(1, "d/e/g", true, true),
        detach(1, "d/e/g", true),
        inline(),
        checkpoint("d", "one"),
        truncate("d/f", 5),
        step(carry_out_all),
        checkpoint("d/f", "own"),
        step(carry_out_all),
        checkpoint("d", "two"),
        step(carry_out_all),
        rename("d/e/g", "d/h", false),
        unlink("d/f"),
        unlink("d/small"),
        rmdir("d/e"),
        mkdir("d/new"),
        attach(1, "d/new/n", true, true),
        detach(1, "d/new/n", true),
        step(carry_out_all),
        roll_back("d", "one"),
        step(carry_out_all),
        unlink("d/f"),
        quota("d", true),
        remove_checkpoint("d", "one"),
        step(carry_out_all),
        remove_checkpoint("d", "two"),
        step(carry_out_all),
        unlink("d/e/g"),
        unlink("d/small"),
        rmdir("d/e"),
        rmdir("d"),
        step(carry_out_all),
    ]
}

const SCRIPTS: [fn() -> Vec<Step>; 2] = [script, tree_script];

fn survives(kv: &Arc<MemKv>, context: &str) {
    check::invariants(&**kv);
    let meta = Namespace::open(kv.clone()).unwrap();
    meta.reap_orphans().unwrap();
    carry_out_all(&meta).unwrap();
    check::invariants(&**kv);
    let counts = meta.counts().unwrap();
    assert_eq!(counts.intents, 0, "{context}: all intents were carried out");
}

#[test]
fn a_failure_at_any_step_leaves_nothing_half_done() {
    for script in SCRIPTS {
        fails_at_any_step(script);
    }
}

fn fails_at_any_step(script: fn() -> Vec<Step>) {
    let mut hits = 0;
    for fault in [Fault::Before, Fault::After] {
        for fail_at in 0.. {
            let inner = Arc::new(MemKv::new());
            Namespace::format(&*inner, &settings()).unwrap();
            let kv = Arc::new(Failing {
                inner: inner.clone(),
                fault,
                left: AtomicI64::new(i64::MAX),
            });
            let meta = Namespace::open(kv.clone()).unwrap();
            meta.reap_orphans().unwrap();
            kv.left.store(fail_at, Ordering::SeqCst);
            let mut failed = 0;
            for (number, step) in script().iter().enumerate() {
                let context = format!("{fault:?} {fail_at} at operation {number}");
                let before = check::regular_and_owed(&*inner);
                // Operations after a failed step may be refused, but never break anything.
                if let Err(MetaError::Kv(_)) = step(&meta) {
                    failed += 1;
                    check::invariants(&*inner);
                    let after = check::regular_and_owed(&*inner);
                    let known: BTreeSet<u64> = after.0.union(&after.1).copied().collect();
                    let carried: BTreeSet<u64> = before.1.difference(&after.1).copied().collect();
                    let lost = before.0.iter().any(|id| !known.contains(id));
                    assert!(!lost, "{context}: a file has neither inode nor intent");
                    assert!(carried.len() <= 3, "{context}");
                }
            }
            survives(&inner, &format!("{fault:?} {fail_at}"));
            if failed == 0 {
                assert!(kv.left.load(Ordering::SeqCst) >= 0);
                break;
            }
            hits += 1;
        }
    }
    assert!(hits > 200, "only {hits} steps failed");
}

#[test]
fn a_namespace_opens_after_power_loss_at_any_commit() {
    for (which, script) in SCRIPTS.into_iter().enumerate() {
        loses_power_after_any_commit(which == 0, script);
    }
}

fn loses_power_after_any_commit(heartbeat: bool, script: fn() -> Vec<Step>) {
    let run = |kv: &Arc<MemKv>| {
        Namespace::format(&**kv, &settings()).unwrap();
        let meta = Namespace::open(kv.clone()).unwrap();
        meta.reap_orphans().unwrap();
        // A power loss may take every commit since the format.
        let mut carried = Vec::new();
        for (number, step) in script().iter().enumerate() {
            // A heartbeat from a new address syncs by itself.
            if !heartbeat || number != 8 {
                step(&meta).unwrap();
            }
            carried.push((kv.unsynced(), check::regular_and_owed(&**kv)));
        }
        carried
    };
    let whole = Arc::new(MemKv::new());
    let states = run(&whole);
    let commits = whole.unsynced();
    assert!(commits > 20);
    for keep in 0..=commits {
        let kv = Arc::new(MemKv::new());
        run(&kv);
        kv.crash_power_loss_keeping(keep);
        if let Some((_, expected)) = states.iter().find(|(at, _)| *at == keep) {
            assert_eq!(
                &check::regular_and_owed(&*kv),
                expected,
                "the state after {keep} commits"
            );
        }
        survives(&kv, &format!("power loss after {keep} commits"));
    }
}

#[test]
fn a_failed_attach_leaves_no_attachment() {
    let inner = Arc::new(MemKv::new());
    Namespace::format(&*inner, &settings()).unwrap();
    let kv = Arc::new(Failing {
        inner: inner.clone(),
        fault: Fault::Before,
        left: AtomicI64::new(i64::MAX),
    });
    let meta = Namespace::open(kv.clone()).unwrap();
    meta.reap_orphans().unwrap();
    let id = meta
        .attach(1, 1, &creating(0, "f", 0o644, true))
        .unwrap()
        .reply
        .attributes
        .id;
    let report = ReportRequest {
        file: id,
        detach: true,
        ..Default::default()
    };
    meta.report(1, &report).unwrap();
    for fail_at in 0..6 {
        kv.left.store(fail_at, Ordering::SeqCst);
        let result = meta.attach(2, 2, &attaching(0, "f", false, true));
        kv.left.store(i64::MAX, Ordering::SeqCst);
        assert!(result.is_err(), "step {fail_at}");
    }
    let request = UnlinkRequest {
        who: who(0),
        target: at("f"),
    };
    meta.unlink(3, &request).unwrap();
    // No client has it open, so it was deleted at once.
    assert_eq!(meta.counts().unwrap().intents, 1);
    let stat = StatRequest {
        who: who(0),
        target: by_id(id),
    };
    assert!(meta.stat(&stat).is_err());
}

#[test]
fn an_exact_size_is_cleared_before_the_attach_of_a_writer_is_answered() {
    let kv = Arc::new(MemKv::new());
    let mut v = Volume::over(kv.clone());
    v.create(0, "f", 0o644).unwrap();
    kv.sync().unwrap();
    let attached = v.attach(1, &attaching(0, "f", false, true)).unwrap();
    assert!(attached.committed, "the service syncs before it answers");
    kv.sync().unwrap();
    kv.crash_power_loss();
    v.restart();
    assert!(!v.stat(0, "f").unwrap().size_exact);
    let done = v.truncate(0, "f", 0).unwrap();
    assert!(matches!(done, Truncation::Pending(_)));
}
