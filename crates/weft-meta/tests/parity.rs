//! Codings of files: what is recorded of them, and what removes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common;

use common::{Volume, at, creating, settings, who};
use weft_kv::MemKv;
use weft_layout::ServerId;
use weft_meta::{CheckpointTask, Intent, MetaError, Namespace};
use weft_proto::checkpoint::*;
use weft_proto::fsck::ListFilesRequest;
use weft_proto::meta::*;
use weft_proto::parity::*;

const SHAPE: u32 = 2 << 8 | 1;

/// A volume whose servers have two replicas each.
fn volume() -> Volume {
    let kv = Arc::new(MemKv::new());
    let mut settings = settings();
    settings.replicas = (1..=4)
        .map(|id| (ServerId(id), 1, format!("other{id}:7000")))
        .collect();
    Namespace::format(&*kv, &settings).unwrap();
    Volume::opened(kv)
}

/// A file with parity, cells and an exact size.
fn file(v: &mut Volume, path: &str) -> u64 {
    let mut request = creating(0, path, 0o644, true);
    request.create.as_mut().unwrap().layout = Some(LayoutOptions {
        parity: Some(SHAPE),
        ..LayoutOptions::default()
    });
    let id = v.attach(1, &request).unwrap().reply.attributes.id;
    v.detach(1, id, false);
    v.truncate(0, path, 100).unwrap();
    let intent = v.meta.pending_truncate(id).unwrap().unwrap();
    let now = v.tick();
    v.meta.truncate_done(intent, now).unwrap();
    id
}

fn list(v: &Volume) -> Vec<ParityState> {
    let reply = v.meta.list_parity(&ListParityRequest { after: 0 }).unwrap();
    assert_eq!(reply.next, 0);
    reply.files
}

fn find(v: &Volume, file: u64) -> Option<ParityState> {
    v.meta
        .find_coding(&FindCodingRequest { file })
        .unwrap()
        .state
}

/// Begins to code a file; its checkpoint is there on return.
fn begin(v: &mut Volume, file: u64) -> Result<Coding, MetaError> {
    let now = v.tick();
    let intent = v.meta.begin_coding(now, &BeginCodingRequest { file })?;
    v.meta.checkpoint_done(intent.number(), 100, now).unwrap();
    let coding = find(v, file).unwrap().coding.unwrap();
    assert_eq!(coding.checkpoint, intent.number());
    Ok(coding)
}

fn end(v: &mut Volume, file: u64, coding: &Coding) -> Result<(), MetaError> {
    let coding = Coding {
        primaries: vec![0; 4],
        ..coding.clone()
    };
    v.meta
        .end_coding(&EndCodingRequest { file, coding })
        .map(drop)
}

/// The pending work: files to delete, and checkpoints to drop.
fn pending(v: &Volume) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut deletes, mut drops) = (BTreeSet::new(), BTreeSet::new());
    for intent in v.meta.intents_from(0, 100).unwrap().intents {
        match intent {
            Intent::Delete { file, servers, .. } => {
                assert_eq!(servers.len(), 4);
                deletes.insert(file.0);
            }
            Intent::Checkpoint {
                task: CheckpointTask::Drop(of),
                ..
            } => {
                drops.insert(of);
            }
            _ => {}
        }
    }
    (deletes, drops)
}

#[test]
fn a_file_is_coded_again_and_what_it_had_is_removed() {
    let mut v = volume();
    let id = file(&mut v, "f");
    v.create(0, "plain", 0o644).unwrap();
    let [state] = &list(&v)[..] else { panic!() };
    assert_eq!(
        (state.file, state.layout.parity, state.busy),
        (id, SHAPE, false)
    );
    assert!(state.coded.is_none() && !state.same && !state.pinned);

    let first = begin(&mut v, id).unwrap();
    let coding = Coding {
        parity_file: 7,
        ..first.clone()
    };
    assert!(end(&mut v, id, &coding).is_err(), "another one was begun");
    end(&mut v, id, &first).unwrap();
    end(&mut v, id, &first).expect("the answer was lost");
    let state = find(&v, first.parity_file).unwrap();
    assert_eq!(state.file, id, "a parity file leads to its file");
    assert!(state.same && state.coding.is_none());
    assert_eq!(state.coded.unwrap().checkpoint, first.checkpoint);
    assert_eq!(pending(&v), Default::default());

    // An attempt that came to nothing, and one that counts.
    let abandoned = begin(&mut v, id).unwrap();
    let second = begin(&mut v, id).unwrap();
    assert!(end(&mut v, id, &abandoned).is_err());
    end(&mut v, id, &second).unwrap();
    let gone = [&first, &abandoned];
    let files = gone.map(|coding| coding.parity_file).into();
    assert_eq!(
        pending(&v),
        (files, gone.map(|coding| coding.checkpoint).into())
    );
    assert!(find(&v, first.parity_file).is_none());

    let listed = v.meta.list_checkpoints(&ListCheckpointsRequest {
        who: who(0),
        target: at("f"),
        after: String::new(),
    });
    assert!(listed.unwrap().checkpoints.is_empty());
    let rolled = v.meta.roll_back(
        5,
        &RollBackRequest {
            who: who(0),
            target: at("f"),
            name: format!("\0parity.{}", second.parity_file),
        },
    );
    assert!(matches!(rolled, Err(MetaError::NoCheckpoint { .. })));

    v.unlink(0, "f").unwrap();
    let (deletes, _) = pending(&v);
    assert!(deletes.contains(&id) && deletes.contains(&second.parity_file));
    assert!(find(&v, second.parity_file).is_none() && list(&v).is_empty());
}

#[test]
fn checkpoints_after_a_coding_pin_it() {
    let mut v = volume();
    let id = file(&mut v, "f");
    let make = |v: &mut Volume, name: &str| {
        let now = v.tick();
        let request = MakeCheckpointRequest {
            who: who(0),
            target: at("f"),
            name: name.into(),
        };
        let number = v.meta.make_checkpoint(now, &request).unwrap().number();
        v.meta.checkpoint_done(number, 100, now).unwrap();
    };
    make(&mut v, "before");
    let coding = begin(&mut v, id).unwrap();
    end(&mut v, id, &coding).unwrap();
    assert!(!find(&v, id).unwrap().pinned);
    make(&mut v, "after");
    assert!(find(&v, id).unwrap().pinned);
    assert!(begin(&mut v, id).is_err());
    let removed = v.meta.remove_checkpoint(&RemoveCheckpointRequest {
        who: who(0),
        target: at("f"),
        name: "after".into(),
    });
    v.meta
        .checkpoint_done(removed.unwrap().number(), 0, 9)
        .unwrap();
    assert!(!find(&v, id).unwrap().pinned);
    begin(&mut v, id).unwrap();
}

#[test]
fn a_check_leaves_parity_files_alone() {
    let mut v = volume();
    let id = file(&mut v, "f");
    let coding = begin(&mut v, id).unwrap();
    let listed = |files: Vec<u64>| {
        let request = ListFilesRequest { after: 0, files };
        v.meta.list_files(&request).unwrap().files
    };
    for files in [listed(Vec::new()), listed(vec![coding.parity_file, id])] {
        let parity = files.iter().find(|of| of.file == coding.parity_file);
        assert!(parity.is_some_and(|of| of.owed && !of.there));
        let of_file = files.iter().find(|of| of.file == id).unwrap();
        assert_eq!(of_file.checkpoints[0].number, coding.checkpoint);
    }
}

#[test]
fn parity_is_changed_until_it_is_coded() {
    let mut v = volume();
    let id = file(&mut v, "f");
    let set = |v: &mut Volume, parity: u32| {
        v.set(
            0,
            "f",
            SetAttributesRequest {
                layout: Some(LayoutOptions {
                    parity: Some(parity),
                    ..LayoutOptions::default()
                }),
                ..SetAttributesRequest::default()
            },
        )
    };
    assert!(set(&mut v, 4 << 8 | 1).is_err(), "it has four servers");
    assert!(set(&mut v, 1 << 8 | 2).is_err(), "they have two replicas");
    set(&mut v, 0).unwrap();
    assert!(list(&v).is_empty() && begin(&mut v, id).is_err());
    set(&mut v, 3 << 8 | 1).unwrap();
    let coding = begin(&mut v, id).unwrap();
    assert_eq!(coding.shape, 3 << 8 | 1);
    end(&mut v, id, &coding).unwrap();
    assert!(set(&mut v, 0).is_err() && set(&mut v, SHAPE).is_err());
}
