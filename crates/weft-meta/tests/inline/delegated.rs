//! Changes of names that a client made in a delegated directory and reports later.

use weft_meta::MetaError;
use weft_proto::Code;
use weft_proto::delegation::*;
use weft_proto::meta::*;

use crate::common::{Volume, at, attaching, who};

crate::on_both_engines! {
    changes_reported_twice_are_applied_once
    a_refused_change_does_not_stop_the_others
    no_other_client_reads_a_delegated_directory
    attributes_set_after_a_file_was_made_are_those_of_the_calls
    a_new_directory_is_delegated_to_its_maker
    a_directory_that_is_not_made_is_not_delegated
    times_of_a_directory_follow_its_last_change
    a_directory_is_removed_in_one_report_with_its_names
    a_directory_that_has_names_is_not_removed
    a_repeated_report_of_a_removed_open_file_and_its_directory_is_done
    further_directories_are_delegated_unless_another_client_has_them
}

fn directory(v: &mut Volume, path: &str) -> u64 {
    v.mkdir(0, path, 0o755).unwrap().id
}

fn delegate(v: &mut Volume, client: u64, directory: u64) -> Result<DelegateReply, MetaError> {
    let now = v.tick();
    let request = DelegateRequest {
        directory,
        ids: 8,
        ..DelegateRequest::default()
    };
    v.meta.by(client).delegate(now, client, &request)
}

fn made(delegation: &DelegateReply, directory: u64, name: &str, number: usize) -> NameChange {
    NameChange {
        who: who(0),
        directory,
        name: name.as_bytes().to_vec().into(),
        file: delegation.first + number as u64,
        time: 5000,
        made: Some(NewFile {
            mode: 0o666,
            umask: 0o22,
            layout: delegation.layouts[number].clone(),
            ..NewFile::default()
        }),
        ..NameChange::default()
    }
}

fn removed(change: &NameChange) -> NameChange {
    NameChange {
        made: None,
        ..change.clone()
    }
}

fn report(v: &Volume, client: u64, changes: &[NameChange]) -> Vec<NameChanged> {
    let request = ChangeNamesRequest {
        changes: changes.to_vec(),
        given_back: Vec::new(),
    };
    let meta = v.meta.by(client);
    meta.change_names(client, &request).unwrap().done
}

fn code(done: &NameChanged) -> Option<Code> {
    let failure = done.refused.as_ref()?;
    Code::try_from(failure.code).ok()
}

fn changes_reported_twice_are_applied_once(v: &mut Volume) {
    let d = directory(v, "/d");
    let delegation = delegate(v, 1, d).unwrap();
    assert!(delegation.granted && delegation.layouts.len() == 8);
    let mut first = made(&delegation, d, "a", 0);
    let file = first.made.as_mut().unwrap();
    (file.data, file.modified, file.writing) = (Some(b"bytes"[..].into()), 6000, true);
    let changes = [
        first.clone(),
        made(&delegation, d, "b", 1),
        made(&delegation, d, "c", 2),
    ];
    for _ in 0..2 {
        let done = report(v, 1, &changes);
        assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
        let attributes = done[0].attributes.as_ref().unwrap();
        assert_eq!((attributes.size, attributes.mode), (5, 0o644));
        assert_eq!((attributes.modified, attributes.created), (6000, 5000));
        assert!(v.meta.is_attached(1, delegation.first));
        assert!(!v.meta.is_attached(1, delegation.first + 1));
    }
    v.detach(1, delegation.first, true);
    assert!(
        !v.meta.is_attached(1, delegation.first),
        "both reports attached the file only once"
    );
    for _ in 0..2 {
        let done = report(v, 1, &[removed(&first), removed(&changes[1])]);
        assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    }
    let attributes = v.stat(0, "/d").unwrap();
    assert_eq!((attributes.size, attributes.changed), (1, 5000));
}

fn set(change: &NameChange, time: i64, request: SetAttributesRequest) -> NameChange {
    NameChange {
        set: Some(Box::new(request)),
        set_time: time,
        modified_time: time,
        ..change.clone()
    }
}

fn times(accessed: i64, modified: i64) -> SetAttributesRequest {
    let time = |nanos| Some(TimeUpdate { now: false, nanos });
    SetAttributesRequest {
        mode: Some(0o640),
        uid: Some(7),
        gid: Some(8),
        accessed: time(accessed),
        modified: time(modified),
        ..SetAttributesRequest::default()
    }
}

fn attributes_set_after_a_file_was_made_are_those_of_the_calls(v: &mut Volume) {
    let d = directory(v, "/d");
    let delegation = delegate(v, 1, d).unwrap();
    let mut new = set(&made(&delegation, d, "a", 0), 7000, times(10, 20));
    let file = new.made.as_mut().unwrap();
    (file.data, file.modified) = (Some(b"bytes"[..].into()), 6000);
    let mut written_later = set(&made(&delegation, d, "b", 1), 7000, times(10, 20));
    let file = written_later.made.as_mut().unwrap();
    (file.data, file.modified) = (Some(b"bytes"[..].into()), 8000);
    let mut in_cells = made(&delegation, d, "c", 2);
    let file = in_cells.made.as_mut().unwrap();
    (file.spilled, file.writing) = (true, true);
    for _ in 0..2 {
        let changes = [new.clone(), written_later.clone(), in_cells.clone()];
        let done = report(v, 1, &changes);
        assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    }
    let first = v.stat(0, "/d/a").unwrap();
    assert_eq!(
        (first.mode, first.uid, first.gid, first.size),
        (0o640, 7, 8, 5)
    );
    assert_eq!(
        (first.accessed, first.modified, first.changed),
        (10, 20, 7000)
    );
    let second = v.stat(0, "/d/b").unwrap();
    assert_eq!((second.modified, second.changed), (8000, 8000));
    let third = v.stat(0, "/d/c").unwrap();
    assert!(
        !third.inline && !third.size_exact,
        "its bytes are on their way"
    );
    // The time was set before the bytes were written, and the mode after that.
    let mut between = set(&made(&delegation, d, "e", 3), 9000, times(10, 20));
    between.modified_time = 7000;
    let file = between.made.as_mut().unwrap();
    (file.data, file.modified) = (Some(b"bytes"[..].into()), 8000);
    report(v, 1, &[between]);
    let between = v.stat(0, "/d/e").unwrap();
    assert_eq!((between.modified, between.changed), (8000, 9000));
    // A change of its own, of a file that is there.
    let changes = SetAttributesRequest {
        mode: Some(0o600),
        ..SetAttributesRequest::default()
    };
    let later = NameChange {
        made: None,
        ..set(&new, 9000, changes)
    };
    let gone = NameChange {
        file: later.file + 1,
        ..later.clone()
    };
    let done = report(v, 1, &[later.clone(), later, gone]);
    assert_eq!(code(&done[2]), Some(Code::Stale));
    let first = v.stat(0, "/d/a").unwrap();
    assert_eq!(
        (first.mode, first.changed, first.modified),
        (0o600, 9000, 20)
    );
}

fn new_directory(delegation: &DelegateReply, directory: u64, name: &str, n: usize) -> NameChange {
    let mut change = made(delegation, directory, name, n);
    change.made.as_mut().unwrap().kind = FileKind::Directory as i32;
    change
}

fn a_new_directory_is_delegated_to_its_maker(v: &mut Volume) {
    let d = directory(v, "/d");
    let delegation = delegate(v, 1, d).unwrap();
    let sub = new_directory(&delegation, d, "sub", 0);
    let done = report(v, 1, std::slice::from_ref(&sub));
    assert!(done[0].refused.is_none() && !done[0].unleased, "{done:?}");
    let inner = made(&delegation, sub.file, "f", 1);
    let deep = new_directory(&delegation, sub.file, "deep", 2);
    let done = report(v, 1, &[inner, deep.clone(), sub.clone()]);
    assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    assert!(done.iter().all(|done| !done.undelegated && !done.unleased));
    v.meta.delegations().end(1, &[d]);
    let by_other = |path: &str| {
        let request = StatRequest {
            who: who(0),
            target: at(path),
        };
        v.meta.by(2).stat(&request)
    };
    assert_eq!(by_other("/d").unwrap().attributes.links, 3);
    assert!(matches!(
        by_other("/d/sub/f"),
        Err(MetaError::Delegated { directories }) if directories == [sub.file]
    ));
    v.meta.delegations().end(1, &[sub.file]);
    let found = by_other("/d/sub").unwrap().attributes;
    assert_eq!((found.links, found.size, found.mode), (3, 2, 0o755 & 0o666));
    assert!(v.meta.leases().holds(1, sub.file) && v.meta.leases().holds(1, deep.file));
}

fn a_directory_that_is_not_made_is_not_delegated(v: &mut Volume) {
    let d = directory(v, "/d");
    v.create(0, "/d/taken", 0o644).unwrap();
    let delegation = delegate(v, 1, d).unwrap();
    let taken = new_directory(&delegation, d, "taken", 0);
    let within = made(&delegation, taken.file, "f", 1);
    let done = report(v, 1, &[taken.clone(), within]);
    assert_eq!(code(&done[0]), Some(Code::Exists));
    assert!(done[1].refused.is_some());
    assert!(!v.meta.leases().holds(1, taken.file));
    // Whoever gets the id later is not in the way of a delegation that is not there.
    v.meta.delegations().recall(&[taken.file]);
    assert!(v.meta.delegations().recalled_from(1).is_empty());
}

fn times_of_a_directory_follow_its_last_change(v: &mut Volume) {
    let d = directory(v, "/d");
    let delegation = delegate(v, 1, d).unwrap();
    let at = |time, directory_time, change| NameChange {
        time,
        directory_time,
        ..change
    };
    report(v, 1, &[at(5000, 0, made(&delegation, d, "late", 0))]);
    report(v, 1, &[at(4000, 5000, made(&delegation, d, "early", 1))]);
    let attributes = v.stat(0, "/d").unwrap();
    assert_eq!((attributes.modified, attributes.changed), (5000, 5000));
    assert_eq!(v.stat(0, "/d/early").unwrap().changed, 4000);
}

fn a_refused_change_does_not_stop_the_others(v: &mut Volume) {
    let d = directory(v, "/d");
    v.create(0, "/d/b", 0o644).unwrap();
    let delegation = delegate(v, 1, d).unwrap();
    let a = made(&delegation, d, "a", 0);
    let mut unknown = made(&delegation, d, "d", 3);
    unknown.file += 1 << 20;
    let other = NameChange {
        name: b"b"[..].into(),
        ..removed(&a)
    };
    let path = made(&delegation, d, "x/y", 4);
    let all = [
        a.clone(),
        made(&delegation, d, "b", 1),
        unknown,
        other,
        path,
        made(&delegation, d, "c", 2),
    ];
    let done = report(v, 1, &all);
    let codes: Vec<_> = done.iter().map(code).collect();
    assert_eq!(codes[..2], [None, Some(Code::Exists)]);
    assert_eq!(codes[2], Some(Code::Invalid), "its id was never allocated");
    assert_eq!(
        codes[3],
        Some(Code::Stale),
        "the name belongs to another file"
    );
    assert!(codes[4].is_some() && codes[5].is_none(), "{codes:?}");
    // Create and remove a name in one call.
    let again = made(&delegation, d, "e", 5);
    let done = report(v, 1, &[again.clone(), removed(&again)]);
    assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    assert_eq!(v.stat(0, "/d").unwrap().size, 3);
}

fn no_other_client_reads_a_delegated_directory(v: &mut Volume) {
    let d = directory(v, "/d");
    v.create(0, "/d/f", 0o644).unwrap();
    assert!(delegate(v, 1, d).unwrap().granted);
    let conflicts = |result: Result<(), MetaError>| match result {
        Err(MetaError::Delegated { directories }) => assert_eq!(directories, [d]),
        other => panic!("{other:?}"),
    };
    let other = v.meta.by(2);
    let stat = |path: &str| StatRequest {
        who: who(0),
        target: at(path),
    };
    conflicts(other.stat(&stat("/d")).map(drop));
    conflicts(other.stat(&stat("/d/f")).map(drop));
    conflicts(other.stat(&stat("/d/none")).map(drop));
    let request = attaching(0, "/d/f", true, false);
    conflicts(other.attach(7, 2, &request).map(drop));
    conflicts(delegate(v, 2, d).map(drop));
    let list = ListRequest {
        who: who(0),
        target: at("/"),
        ..ListRequest::default()
    };
    conflicts(other.list(&list).map(drop));
    assert!(
        v.meta.by(1).stat(&stat("/d/f")).is_ok(),
        "its holder reads it"
    );
    v.meta.delegations().recall(&[d]);
    assert_eq!(v.meta.delegations().recalled_from(1), [d]);
    v.meta.delegations().end(1, &[d]);
    assert!(other.stat(&stat("/d/f")).is_ok());
    assert!(delegate(v, 2, d).unwrap().granted);
}

fn removal(parent: u64, name: &str, file: u64) -> NameChange {
    NameChange {
        who: who(0),
        directory: parent,
        name: name.as_bytes().to_vec().into(),
        file,
        time: 6000,
        ..NameChange::default()
    }
}

fn a_directory_is_removed_in_one_report_with_its_names(v: &mut Volume) {
    let parent = directory(v, "/p");
    let d = directory(v, "/p/d");
    let (above, below) = (delegate(v, 1, parent).unwrap(), delegate(v, 1, d).unwrap());
    assert!(above.granted && below.granted);
    let file = made(&below, d, "a", 0);
    assert!(
        report(v, 1, std::slice::from_ref(&file))[0]
            .refused
            .is_none()
    );
    let gone = [removed(&file), removal(parent, "d", d)];
    for _ in 0..2 {
        let done = report(v, 1, &gone);
        assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    }
    let attributes = v.stat(0, "/p").unwrap();
    assert_eq!((attributes.size, attributes.links), (0, 2));
    assert_eq!(attributes.changed, 6000);
    let delegations = v.meta.delegations();
    assert!(delegations.holds(1, parent) && !delegations.holds(1, d));
}

fn a_directory_that_has_names_is_not_removed(v: &mut Volume) {
    let parent = directory(v, "/p");
    let d = directory(v, "/p/d");
    directory(v, "/p/d/below");
    assert!(delegate(v, 1, parent).unwrap().granted);
    let done = report(v, 1, &[removal(parent, "d", d)]);
    assert_eq!(code(&done[0]), Some(Code::NotEmpty));
    assert!(v.stat(0, "/p/d/below").is_ok());
}

fn further_directories_are_delegated_unless_another_client_has_them(v: &mut Volume) {
    let [a, b, c] = ["/a", "/b", "/c"].map(|path| directory(v, path));
    assert!(delegate(v, 2, b).unwrap().granted);
    let file = 1 << 40;
    let request = DelegateRequest {
        directory: a,
        ids: 1,
        also: vec![b, c, file],
    };
    let now = v.tick();
    let reply = v.meta.by(1).delegate(now, 1, &request).unwrap();
    assert!(reply.granted);
    assert_eq!(reply.also, [c]);
    let delegations = v.meta.delegations();
    assert!(delegations.holds(2, b) && delegations.holds(1, c) && !delegations.holds(1, b));
}

fn a_repeated_report_of_a_removed_open_file_and_its_directory_is_done(v: &mut Volume) {
    let parent = directory(v, "/p");
    let d = directory(v, "/p/d");
    assert!(delegate(v, 1, parent).unwrap().granted);
    let below = delegate(v, 1, d).unwrap();
    let mut file = made(&below, d, "a", 0);
    file.made.as_mut().unwrap().writing = true;
    assert!(
        report(v, 1, std::slice::from_ref(&file))[0]
            .refused
            .is_none()
    );
    assert!(v.meta.is_attached(1, below.first));
    let mut mode = removed(&file);
    mode.set = Some(Box::new(SetAttributesRequest {
        mode: Some(0o600),
        ..SetAttributesRequest::default()
    }));
    let gone = [mode, removed(&file), removal(parent, "d", d)];
    for _ in 0..2 {
        let done = report(v, 1, &gone);
        assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    }
    assert!(v.meta.is_attached(1, below.first));
    assert_eq!(v.stat(0, "/p").unwrap().size, 0);
}
