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
}

fn directory(v: &mut Volume, path: &str) -> u64 {
    v.mkdir(0, path, 0o755).unwrap().id
}

fn delegate(v: &mut Volume, client: u64, directory: u64) -> Result<DelegateReply, MetaError> {
    let now = v.tick();
    let request = DelegateRequest { directory, ids: 8 };
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
