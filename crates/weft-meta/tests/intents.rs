//! Intents: read in pages, superseded by a delete, and cancelled where a server refuses them
//! permanently.

use crate::common;

use common::{Found, Volume, at, attaching, who};
use weft_layout::ServerId;
use weft_meta::{CheckpointTask, Intent};
use weft_proto::checkpoint::*;
use weft_proto::fsck::ListFilesRequest;

on_both_engines! {
    deletes_of_an_unresponsive_server_do_not_hide_later_intents
    a_delete_supersedes_all_other_intents_of_its_file
    after_a_cancelled_truncate_the_servers_are_asked_for_the_size
    a_cancelled_rollback_leaves_the_file_as_it_was
    a_cancelled_checkpoint_is_dropped_where_it_was_made
    a_check_reports_no_tree_that_is_being_rolled_back
    files_are_listed_with_the_checkpoints_of_trees_that_hold_them
}

fn made(v: &mut Volume, path: &str, name: &str) -> u64 {
    let request = MakeCheckpointRequest {
        who: who(0),
        target: at(path),
        name: name.into(),
    };
    let now = v.tick();
    v.meta.make_checkpoint(now, &request).unwrap().number()
}

fn rolled_back(v: &mut Volume, path: &str, name: &str) -> u64 {
    let request = RollBackRequest {
        who: who(0),
        target: at(path),
        name: name.into(),
    };
    let now = v.tick();
    v.meta.roll_back(now, &request).unwrap().number()
}

/// A file with cells and an exact size.
fn sized(v: &mut Volume, path: &str, size: u64) -> u64 {
    let id = v.create(0, path, 0o644).unwrap().id;
    v.truncate(0, path, size).unwrap();
    let intent = v.meta.pending_truncate(id).unwrap().unwrap();
    let now = v.tick();
    v.meta.truncate_done(intent, now).unwrap();
    id
}

fn kinds(v: &Volume) -> Vec<String> {
    let page = v.meta.intents_from(0, 100).unwrap();
    assert!(!page.more);
    let kind = |intent: &Intent| match intent {
        Intent::Delete { .. } => "delete".to_owned(),
        Intent::Truncate { .. } => "truncate".to_owned(),
        Intent::Checkpoint { task, .. } | Intent::Tree { task, .. } => match task {
            CheckpointTask::Make => "make".to_owned(),
            CheckpointTask::RollBack(_) => "roll back".to_owned(),
            CheckpointTask::Drop(of) => format!("drop {of}"),
        },
    };
    page.intents.iter().map(kind).collect()
}

fn deletes_of_an_unresponsive_server_do_not_hide_later_intents(v: &mut Volume) {
    for n in 0..30 {
        v.create(0, &format!("f{n}"), 0o644).unwrap();
        v.unlink(0, &format!("f{n}")).unwrap();
    }
    let id = v.create(0, "g", 0o644).unwrap().id;
    v.truncate(0, "g", 10).unwrap();
    let (mut from, mut all) = (0, Vec::new());
    loop {
        let page = v.meta.intents_from(from, 7).unwrap();
        assert!(page.intents.len() <= 7 && (page.next > from || !page.more));
        all.extend(page.intents);
        from = page.next;
        if !page.more {
            break;
        }
    }
    assert_eq!(all.len(), 31);
    assert_eq!(all[30].file().0, id);
    assert!(all.is_sorted_by_key(Intent::number));
    // Nothing is read twice.
    assert!(v.meta.intents_from(from, 7).unwrap().intents.is_empty());
    let server = all[0].servers()[0];
    let some = v.meta.deletes_from(server, 0, 5, 100).unwrap();
    assert_eq!((some.intents.len(), some.more), (5, true));
    let rest = v.meta.deletes_from(server, some.next, 100, 100).unwrap();
    assert_eq!((rest.intents.len(), rest.more), (25, false));
    let none = v.meta.deletes_from(ServerId(99), 0, 5, 10).unwrap();
    assert_eq!((none.intents.len(), none.more), (0, true));
    v.meta.intent_done(all[0].number()).unwrap();
    assert!(v.meta.intent(all[0].number()).unwrap().is_none());
    assert_eq!(v.meta.intents_from(0, 100).unwrap().intents, all[1..]);
}

fn a_delete_supersedes_all_other_intents_of_its_file(v: &mut Volume) {
    sized(v, "other", 5);
    v.truncate(0, "other", 6).unwrap();
    sized(v, "f", 5);
    let make = made(v, "f", "kept");
    v.meta.checkpoint_done(make, 5, 5000).unwrap();
    v.truncate(0, "f", 3).unwrap();
    rolled_back(v, "f", "kept");
    made(v, "f", "more");
    v.unlink(0, "f").unwrap();
    assert_eq!(kinds(v), ["truncate", "delete"]);
    assert_eq!(v.meta.counts().unwrap().intents, 2);
    v.check();
}

fn after_a_cancelled_truncate_the_servers_are_asked_for_the_size(v: &mut Volume) {
    let id = sized(v, "f", 100);
    v.truncate(0, "f", 10).unwrap();
    let number = v.meta.pending_truncate(id).unwrap().unwrap();
    assert!(v.meta.withdraw(number).unwrap().is_some());
    assert_eq!(v.meta.withdraw(number).unwrap(), None);
    assert_eq!(v.meta.pending_truncate(id).unwrap(), None);
    assert!(!v.stat(0, "f").unwrap().size_exact);
    assert!(v.meta.has_unsettled());
    assert_eq!(kinds(v), Vec::<String>::new());
    v.check();
    // A delete is never cancelled.
    v.unlink(0, "f").unwrap();
    let delete = v.meta.pending_intents(9).unwrap()[0].number();
    assert_eq!(v.meta.withdraw(delete).unwrap(), None);
    assert!(v.meta.is_pending(delete).unwrap());
}

fn a_cancelled_rollback_leaves_the_file_as_it_was(v: &mut Volume) {
    let id = sized(v, "f", 100);
    let make = made(v, "f", "c");
    v.meta.checkpoint_done(make, 100, 5000).unwrap();
    let number = rolled_back(v, "f", "c");
    assert!(v.meta.withdraw(number).unwrap().is_some());
    assert_eq!(v.meta.pending_truncate(id).unwrap(), None);
    assert!(v.meta.checkpoint_info(id, "c").unwrap().is_some());
    // A writer that detaches does not make its size exact.
    v.attach(3, &attaching(0, "f", false, true)).unwrap();
    let number = rolled_back(v, "f", "c");
    v.meta.withdraw(number).unwrap();
    v.detach(3, id, true);
    assert!(!v.stat(0, "f").unwrap().size_exact);
    v.check();
}

fn a_cancelled_checkpoint_is_dropped_where_it_was_made(v: &mut Volume) {
    let id = sized(v, "f", 100);
    v.mkdir(0, "d", 0o755).unwrap();
    sized(v, "d/g", 100);
    for path in ["f", "d"] {
        let number = made(v, path, "c");
        assert!(v.meta.withdraw(number).unwrap().is_some());
        assert_eq!(kinds(v), [format!("drop {number}")]);
        v.check();
        let drop = v.meta.pending_intents(9).unwrap().remove(0);
        if path == "f" {
            v.meta.checkpoint_done(drop.number(), 0, 5000).unwrap();
        } else {
            v.meta.tree_done(drop.number(), &[].into(), 5000).unwrap();
        }
        v.check();
    }
    assert!(v.meta.checkpoint_info(id, "c").unwrap().is_none());
    made(v, "f", "c");
}

fn a_check_reports_no_tree_that_is_being_rolled_back(v: &mut Volume) {
    v.mkdir(0, "d", 0o755).unwrap();
    let id = sized(v, "d/g", 100);
    let number = made(v, "d", "c");
    v.meta
        .tree_done(number, &[(id, (100, 1))].into(), 5000)
        .unwrap();
    let number = rolled_back(v, "d", "c");
    assert_eq!(v.meta.pending_truncate(id).unwrap(), Some(number));
    let mut found = Found::default();
    v.meta.check(&mut found).unwrap();
    assert_eq!(found.0, []);
    v.meta.withdraw(number).unwrap();
    assert_eq!(v.meta.pending_truncate(id).unwrap(), None);
    v.check();
}

fn files_are_listed_with_the_checkpoints_of_trees_that_hold_them(v: &mut Volume) {
    v.mkdir(0, "d", 0o755).unwrap();
    let ids = [sized(v, "d/g", 100), sized(v, "d/h", 100)];
    let first = made(v, "d", "first");
    v.meta.tree_done(first, &[].into(), 5000).unwrap();
    let second = made(v, "d", "second");
    v.meta.tree_done(second, &[].into(), 5000).unwrap();
    v.unlink(0, "d/h").unwrap();
    for intent in v.meta.pending_intents(9).unwrap() {
        v.meta.truncate_done(intent.number(), 5000).unwrap();
    }
    let all = v.meta.list_files(&ListFilesRequest::default()).unwrap();
    let again = ListFilesRequest {
        files: ids.to_vec(),
        ..ListFilesRequest::default()
    };
    let again = v.meta.list_files(&again).unwrap().files;
    for (place, id) in ids.into_iter().enumerate() {
        let state = all.files.iter().find(|state| state.file == id).unwrap();
        assert_eq!(*state, again[place]);
        assert!(state.held && !state.owed && state.layout.is_some());
        assert_eq!(state.there, place == 0);
        let numbers: Vec<u64> = state.checkpoints.iter().map(|c| c.number).collect();
        assert_eq!(numbers, [first, second]);
        assert!(state.checkpoints.iter().all(|c| c.there));
    }
}
