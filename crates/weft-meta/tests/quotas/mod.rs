//! Usage and bounds of users, groups and trees. The check of the namespace's invariants compares
//! every usage with the inodes, so the end of each test proves that everything was counted.

use prost::Message;
use weft_kv::{Batch, MemKv, OrderedKv, Space};
use weft_meta::record::{QuotaRecord, VolumeRecord};
use weft_meta::{MetaError, Namespace, Payer, Truncation, Used};
use weft_proto::inline::StoreInlineRequest;
use weft_proto::meta::*;
use weft_proto::quota::*;

use crate::common::{Volume, at, attaching, creating, who};

/// Sets bounds; `None`: there is none.
fn set(
    v: &Volume,
    payer: Payer,
    path: &str,
    (bytes, files): (Option<u64>, Option<u64>),
) -> Result<QuotaInfo, MetaError> {
    let (kind, id) = match payer {
        Payer::User(id) => (QuotaKind::User, id),
        Payer::Group(id) => (QuotaKind::Group, id),
        Payer::Tree(_) => (QuotaKind::Tree, 0),
    };
    let request = SetQuotaRequest {
        who: who(0),
        kind: kind as i32,
        id,
        target: (kind == QuotaKind::Tree).then(|| at(path)),
        bytes: Some(Bound { most: bytes }),
        files: Some(Bound { most: files }),
        clear: false,
    };
    Ok(v.meta.set_quota(&request)?.quota)
}

fn tree(v: &Volume, path: &str, bytes: Option<u64>, files: Option<u64>) -> QuotaInfo {
    set(v, Payer::Tree(0), path, (bytes, files)).unwrap()
}

fn clear(v: &Volume, path: &str) -> Result<QuotaInfo, MetaError> {
    let request = SetQuotaRequest {
        who: who(0),
        kind: QuotaKind::Tree as i32,
        target: Some(at(path)),
        clear: true,
        ..SetQuotaRequest::default()
    };
    Ok(v.meta.set_quota(&request)?.quota)
}

fn used(v: &Volume, payer: Payer) -> (u64, u64) {
    let usage = v.meta.usage().unwrap();
    assert_eq!(usage, v.meta.recount().unwrap());
    let Used { bytes, files } = usage.get(&payer).copied().unwrap_or_default();
    (bytes as u64, files)
}

fn tree_used(v: &Volume, path: &str) -> (u64, u64) {
    used(v, Payer::Tree(v.stat(0, path).unwrap().id))
}

/// Writes a file with cells, and reports that as its writer does when it closes the file.
fn write(v: &mut Volume, uid: u32, path: &str, size: u64) -> Result<u64, MetaError> {
    let mut request = creating(uid, path, 0o666, false);
    request.write = true;
    let file = v.attach(1, &request)?.reply.attributes.id;
    let report = ReportRequest {
        file,
        modified: Some(5),
        detach: true,
        write: true,
        end: Some(size),
        ..ReportRequest::default()
    };
    v.meta.report(1, &report)?;
    Ok(file)
}

/// Writes a small file, whose bytes are stored with its metadata.
fn store(v: &mut Volume, uid: u32, path: &str, bytes: usize) -> Result<(), MetaError> {
    let mut request = creating(uid, path, 0o666, false);
    (request.write, request.inline) = (true, true);
    let file = v.attach(1, &request)?.reply.attributes.id;
    let request = StoreInlineRequest {
        file,
        data: vec![7; bytes].into(),
        detach: true,
        ..StoreInlineRequest::default()
    };
    let stored = v.meta.store_inline(9, 1, &request).map(drop);
    if stored.is_err() {
        v.detach(1, file, true);
    }
    stored
}

#[test]
fn users_groups_and_trees_are_charged_for_their_files() {
    let mut v = Volume::mem();
    v.mkdir(0, "t", 0o777).unwrap();
    write(&mut v, 1, "t/a", 1000).unwrap();
    assert_eq!(tree(&v, "t", None, None).bytes, 1000);
    v.mkdir(0, "t/in", 0o777).unwrap();
    store(&mut v, 2, "t/in/b", 50).unwrap();
    v.symlink(2, "t/in/link", "somewhere").unwrap();
    assert_eq!(used(&v, Payer::User(1)), (1000, 1));
    assert_eq!(used(&v, Payer::User(2)), (50, 2));
    assert_eq!(used(&v, Payer::Group(2)), (50, 2));
    assert_eq!(tree_used(&v, "t"), (1050, 5));
    v.chown(0, "t/a", Some(2), Some(20)).unwrap();
    assert_eq!(used(&v, Payer::User(1)), (0, 0));
    assert_eq!(used(&v, Payer::User(2)), (1050, 3));
    assert_eq!(used(&v, Payer::Group(20)), (1000, 1));
    // A checkpoint is free.
    let checkpoint = weft_proto::checkpoint::MakeCheckpointRequest {
        who: who(0),
        target: at("t"),
        name: "c".into(),
    };
    v.meta.make_checkpoint(70, &checkpoint).unwrap();
    assert_eq!(tree_used(&v, "t"), (1050, 5));
    v.unlink(0, "t/a").unwrap();
    assert_eq!(tree_used(&v, "t"), (50, 4));
    v.check();
}

#[test]
fn an_operation_that_would_exceed_a_bound_is_refused_and_changes_nothing() {
    let mut v = Volume::mem();
    set(&v, Payer::User(1), "", (Some(100), Some(3))).unwrap();
    store(&mut v, 1, "a", 60).unwrap();
    refused!(store(&mut v, 1, "b", 41), QuotaExceeded);
    assert_eq!(v.stat(1, "b").unwrap().size, 0);
    store(&mut v, 1, "b", 40).unwrap();
    v.mkdir(1, "c", 0o755).unwrap();
    refused!(v.mkdir(1, "d", 0o755), QuotaExceeded);
    refused!(v.create(1, "d", 0o644), QuotaExceeded);
    refused!(v.symlink(1, "d", "x"), QuotaExceeded);
    refused!(v.stat(1, "d"), NotFound);
    let error = v.create(1, "d", 0o644).unwrap_err().to_string();
    assert!(
        error.contains("user 1 would use 4 files, and 3 are allowed"),
        "{error}"
    );
    // Also when root changes the owner: the owner is charged.
    store(&mut v, 2, "other", 1).unwrap();
    refused!(v.chown(0, "other", Some(1), None), QuotaExceeded);
    refused!(v.truncate(1, "a", 61), QuotaExceeded);
    v.truncate(1, "a", 10).unwrap();
    v.unlink(1, "b").unwrap();
    v.chown(0, "other", Some(1), None).unwrap();
    assert_eq!(used(&v, Payer::User(1)), (11, 3));
    // A bound below the usage allows no growth, but every reduction.
    set(&v, Payer::User(1), "", (Some(5), Some(1))).unwrap();
    refused!(store(&mut v, 1, "a", 11), QuotaExceeded);
    store(&mut v, 1, "a", 9).unwrap();
    v.rename(1, "a", "renamed").unwrap();
    v.unlink(1, "renamed").unwrap();
    set(&v, Payer::User(1), "", (None, None)).unwrap();
    v.create(1, "d", 0o644).unwrap();
    // A tree is named by its path.
    v.mkdir(0, "e", 0o755).unwrap();
    v.mkdir(0, "e/in", 0o755).unwrap();
    set(&v, Payer::Tree(0), "e/in", (None, Some(1))).unwrap();
    let error = v.create(0, "e/in/f", 0o644).unwrap_err().to_string();
    assert!(
        error.contains("the tree /e/in would use 2 files, and 1 are allowed"),
        "{error}"
    );
    v.check();
}

#[test]
fn written_bytes_are_charged_beyond_the_bound() {
    let mut v = Volume::mem();
    set(&v, Payer::Group(1), "", (Some(1000), None)).unwrap();
    write(&mut v, 1, "f", 5000).unwrap();
    assert_eq!(used(&v, Payer::Group(1)), (5000, 1));
    refused!(store(&mut v, 1, "g", 1), QuotaExceeded);
    // A truncate is an intent first, and counts when the servers have done it.
    let Truncation::Pending(intent) = v.truncate(1, "f", 400).unwrap() else {
        panic!("the servers have bytes of it");
    };
    assert_eq!(used(&v, Payer::Group(1)), (5000, 2));
    v.meta.truncate_done(intent.number(), 20).unwrap();
    assert_eq!(used(&v, Payer::Group(1)), (400, 2));
    // Growth by a truncate counts at once: several together cannot exceed a bound.
    v.truncate(1, "f", 900).unwrap();
    refused!(v.truncate(1, "g", 600), QuotaExceeded);
    v.check();
}

/// Attaches a file for writing, for another client.
fn join(v: &mut Volume, client: u64, path: &str) {
    v.attach(client, &attaching(0, path, false, true)).unwrap();
}

fn leave(v: &mut Volume, client: u64, file: u64, forks: bool) {
    let report = ReportRequest {
        file,
        modified: Some(7),
        detach: true,
        write: true,
        end: Some(1000).filter(|_| !forks),
        forks,
        ..ReportRequest::default()
    };
    v.meta.report(client, &report).unwrap();
}

/// Whether the service must ask for a file's lengths; if so, this is the answer.
fn settles(v: &Volume, file: u64, answer: (u64, u64)) -> bool {
    let taken = v.meta.take_unsettled(0, 9).unwrap().0;
    let asked = taken.iter().any(|of| of.file == file);
    if asked {
        v.meta.settle(file, answer.0, answer.1).unwrap();
    }
    asked
}

#[test]
fn other_forks_are_charged_when_the_servers_have_reported_their_length() {
    let mut v = Volume::mem();
    let file = write(&mut v, 1, "f", 1000).unwrap();
    assert_eq!(used(&v, Payer::User(1)), (1000, 1));
    assert!(!settles(&v, file, (0, 0)), "no client wrote other forks");
    // The last writer does not know what others wrote.
    join(&mut v, 1, "f");
    join(&mut v, 2, "f");
    leave(&mut v, 1, file, true);
    leave(&mut v, 2, file, false);
    assert!(!v.stat(0, "f").unwrap().size_exact);
    assert!(settles(&v, file, (1000, 500)));
    assert!(v.stat(0, "f").unwrap().size_exact);
    assert_eq!(v.stat(0, "f").unwrap().size, 1000);
    assert_eq!(used(&v, Payer::User(1)), (1500, 1));
    // Writers of only `data` do not change that.
    join(&mut v, 1, "f");
    leave(&mut v, 1, file, false);
    assert!(!settles(&v, file, (0, 0)));
    assert_eq!(used(&v, Payer::User(1)), (1500, 1));
    // A client that vanishes may have written them, also while another one continues.
    join(&mut v, 1, "f");
    join(&mut v, 2, "f");
    v.meta.session_ended(1).unwrap();
    leave(&mut v, 2, file, false);
    assert!(settles(&v, file, (1000, 700)));
    assert_eq!(used(&v, Payer::User(1)), (1700, 1));
    // They count for a bound, and are removed with the file.
    set(&v, Payer::User(1), "", (Some(1800), None)).unwrap();
    refused!(store(&mut v, 1, "g", 101), QuotaExceeded);
    v.chown(0, "f", Some(2), None).unwrap();
    // The refused file exists, and is empty.
    assert_eq!(used(&v, Payer::User(1)), (0, 1));
    assert_eq!(used(&v, Payer::User(2)), (1700, 1));
    v.unlink(0, "f").unwrap();
    assert_eq!(used(&v, Payer::User(2)), (0, 0));
}

#[test]
fn quota_trees_are_inherited_and_can_be_nested() {
    let mut v = Volume::mem();
    for path in ["t", "t/u", "t/u/w", "out"] {
        v.mkdir(0, path, 0o777).unwrap();
    }
    write(&mut v, 1, "t/u/w/f", 10).unwrap();
    // The inner one first, then the outer, then one in between.
    tree(&v, "t/u/w", Some(500), None);
    let outer = tree(&v, "t", None, Some(8));
    assert_eq!(
        (outer.bytes, outer.files, &outer.path[..]),
        (10, 4, &b"/t"[..])
    );
    tree(&v, "t/u", Some(100), None);
    let request = QuotasOfRequest {
        who: who(1),
        target: at("t/u/w/f"),
    };
    let paths = |v: &Volume| {
        let quotas = v.meta.quotas_of(&request).unwrap().quotas;
        let trees = quotas.iter().filter(|q| q.kind() == QuotaKind::Tree);
        let path = |q: &QuotaInfo| String::from_utf8(q.path.to_vec()).unwrap();
        trees.map(path).collect::<Vec<_>>()
    };
    assert_eq!(paths(&v), ["/t/u/w", "/t/u", "/t"]);
    refused!(store(&mut v, 1, "t/u/w/g", 91), QuotaExceeded);
    refused!(v.truncate(1, "t/u/w/f", 101), QuotaExceeded);
    for name in ["a", "b", "c"] {
        v.mkdir(1, &format!("t/u/w/{name}"), 0o777).unwrap();
    }
    refused!(v.mkdir(1, "t/more", 0o777), QuotaExceeded);
    v.check();
    clear(&v, "t/u").unwrap();
    assert_eq!(paths(&v), ["/t/u/w", "/t"]);
    refused!(clear(&v, "t/u"), Invalid);
    store(&mut v, 1, "t/u/w/g", 91).unwrap();
    clear(&v, "t").unwrap();
    clear(&v, "t/u/w").unwrap();
    assert!(
        v.meta
            .usage()
            .unwrap()
            .keys()
            .all(|p| !matches!(p, Payer::Tree(_)))
    );
    v.check();
}

#[test]
fn only_files_with_one_name_move_between_trees() {
    let mut v = Volume::mem();
    for path in ["t", "t/d", "u", "u/d"] {
        v.mkdir(0, path, 0o777).unwrap();
    }
    tree(&v, "t", Some(100), None);
    write(&mut v, 1, "t/f", 60).unwrap();
    write(&mut v, 1, "u/big", 70).unwrap();
    refused!(v.rename(0, "t/d", "u/moved"), CrossDevice);
    refused!(v.rename(0, "u/d", "t/moved"), CrossDevice);
    refused!(v.link(0, "t/f", "u/f"), CrossDevice);
    refused!(v.link(0, "u/big", "t/big"), CrossDevice);
    refused!(v.rename(0, "u/big", "t/big"), QuotaExceeded);
    v.rename(0, "t/f", "u/f").unwrap();
    assert_eq!(tree_used(&v, "t"), (0, 2));
    v.rename_with(0, "u/big", "t/d", false, true).unwrap_err();
    v.rename(0, "u/big", "t/d/big").unwrap();
    v.rename_with(0, "u/f", "t/d/big", false, true).unwrap();
    assert_eq!(tree_used(&v, "t"), (60, 3));
    v.link(0, "t/d/big", "t/again").unwrap();
    refused!(v.rename(0, "t/again", "u/again"), CrossDevice);
    // A directory with a quota moves within the tree that contains it.
    tree(&v, "u/d", None, None);
    v.rename(0, "u/d", "d").unwrap();
    refused!(v.rename(0, "d", "t/d2"), CrossDevice);
    v.check();
}

#[test]
fn an_open_deleted_file_is_charged_until_it_is_removed() {
    let mut v = Volume::mem();
    v.mkdir(0, "t", 0o777).unwrap();
    let id = tree(&v, "t", Some(100), None).id;
    let file = write(&mut v, 1, "t/f", 90).unwrap();
    v.attach(2, &attaching(1, "t/f", true, false)).unwrap();
    v.unlink(1, "t/f").unwrap();
    assert_eq!(used(&v, Payer::Tree(id)), (90, 2));
    v.rmdir(0, "t").unwrap();
    assert_eq!(used(&v, Payer::Tree(id)), (90, 1));
    v.check();
    v.detach(2, file, false);
    assert_eq!(used(&v, Payer::Tree(id)), (0, 0));
    v.check();
}

#[test]
fn only_root_sets_quotas_and_users_see_their_own() {
    let mut v = Volume::mem();
    v.mkdir(1, "mine", 0o755).unwrap();
    tree(&v, "mine", None, Some(5));
    v.mkdir(2, "hidden", 0o700).unwrap();
    tree(&v, "hidden", None, None);
    let request = SetQuotaRequest {
        who: who(1),
        kind: QuotaKind::User as i32,
        id: 1,
        ..SetQuotaRequest::default()
    };
    refused!(v.meta.set_quota(&request), NotOwner);
    refused!(set(&v, Payer::Tree(0), "absent", (None, None)), NotFound);
    let seen = |uid| {
        let request = ListQuotasRequest {
            who: who(uid),
            ..ListQuotasRequest::default()
        };
        let quotas = v.meta.list_quotas(&request).unwrap().quotas;
        quotas.iter().map(|q| (q.kind, q.id)).collect::<Vec<_>>()
    };
    let mine = v.stat(0, "mine").unwrap().id;
    assert_eq!(seen(1), [(1, 1), (2, 1), (3, mine)]);
    assert_eq!(seen(0).len(), 8);
    assert_eq!(seen(7), []);
    let request = QuotasOfRequest {
        who: who(1),
        target: at("hidden/x"),
    };
    refused!(v.meta.quotas_of(&request), Permission);
    // A page continues after the previous one.
    let request = ListQuotasRequest {
        who: who(0),
        kind: QuotaKind::Group as i32,
        after: Some(1),
    };
    let next = v.meta.list_quotas(&request).unwrap().quotas;
    assert_eq!((next[0].kind, next[0].id), (2, 2));
    assert_eq!(next.len(), 3);
}

#[test]
fn a_volume_that_was_never_counted_is_counted_when_it_is_opened() {
    let kv = std::sync::Arc::new(MemKv::new());
    let mut v = Volume::over(kv.clone());
    write(&mut v, 1, "f", 1 << 40).unwrap();
    store(&mut v, 2, "g", 5).unwrap();
    let usage = v.meta.usage().unwrap();
    let get = |space, key: &[u8]| kv.snapshot().unwrap().get(Space(space), key).unwrap();
    let mut volume = VolumeRecord::decode(&get("volume", b"volume").unwrap()[..]).unwrap();
    volume.format = 1;
    let mut changes = vec![(
        Space("volume"),
        b"volume".to_vec(),
        Some(volume.encode_to_vec()),
    )];
    // A crash during an earlier count left nothing, or all of it.
    for (kind, id) in [(1_u8, 1_u64), (1, 2), (1, 0), (2, 0), (2, 1), (2, 2)] {
        changes.push((
            Space("quotas"),
            [&[kind][..], &id.to_be_bytes()].concat(),
            None,
        ));
    }
    kv.write(Batch { changes }).unwrap();
    assert!(v.meta.usage().unwrap().is_empty());
    v.restart();
    assert_eq!(v.meta.usage().unwrap(), usage);
    v.check();
    let volume = VolumeRecord::decode(&get("volume", b"volume").unwrap()[..]).unwrap();
    assert_eq!(volume.format, 2);
}

#[test]
fn the_usage_of_sparse_files_may_exceed_64_bits() {
    let mut v = Volume::mem();
    let most = i64::MAX as u64;
    for name in ["a", "b", "c"] {
        write(&mut v, 1, name, most).unwrap();
    }
    let total = v.meta.usage().unwrap()[&Payer::User(1)].bytes;
    assert_eq!(total, 3 * u128::from(most));
    v.unlink(1, "b").unwrap();
    v.unlink(1, "c").unwrap();
    assert_eq!(used(&v, Payer::User(1)), (most, 1));
    v.check();
}

#[test]
fn a_damaged_record_does_not_block_repairs() {
    let mut v = Volume::mem();
    store(&mut v, 1, "f", 5).unwrap();
    let key = [&[1][..], &1_u64.to_be_bytes()].concat();
    let wrong = QuotaRecord {
        bytes: 1,
        files: 9,
        ..QuotaRecord::default()
    };
    let broken = vec![0xff; 3];
    for value in [wrong.encode_to_vec(), broken] {
        let changes = vec![(Space("quotas"), key.clone(), Some(value))];
        v.kv.write(Batch { changes }).unwrap();
        let mut found = Vec::new();
        v.meta.check(&mut Findings(&mut found)).unwrap();
        assert!(!found.is_empty());
        assert!(
            found
                .iter()
                .all(|f| f.fault() == weft_proto::fsck::Fault::Usage),
            "{found:?}"
        );
        for finding in &found {
            v.meta.repair(50, finding, None).unwrap();
        }
        found.clear();
        v.meta.check(&mut Findings(&mut found)).unwrap();
        assert_eq!(found, []);
        v.check();
    }
}

struct Findings<'a>(&'a mut Vec<weft_proto::fsck::Finding>);

impl weft_meta::CheckObserver for Findings<'_> {
    fn seen(&mut self, _: u64, _: u64) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }

    fn found(&mut self, finding: weft_proto::fsck::Finding) {
        self.0.push(finding);
    }
}

#[test]
fn a_reopened_volume_enforces_its_bounds() {
    let mut v = Volume::mem();
    set(&v, Payer::User(1), "", (None, Some(0))).unwrap();
    v.meta = Namespace::open(v.kv.clone()).unwrap();
    refused!(v.create(1, "f", 0o644), QuotaExceeded);
}
