//! Names that a client has changed ahead of the service.

use weft_meta::MetaError;
use weft_proto::Code;
use weft_proto::delegation::*;
use weft_proto::meta::*;

use crate::common::{Volume, at, attaching, who};

crate::on_both_engines! {
    told_twice_is_done_once
    one_that_is_refused_leaves_the_others
    nobody_else_looks_into_a_lent_directory
}

fn directory(v: &mut Volume, path: &str) -> u64 {
    v.mkdir(0, path, 0o755).unwrap().id
}

fn delegate(v: &mut Volume, client: u64, directory: u64) -> Result<DelegateReply, MetaError> {
    let now = v.tick();
    let request = DelegateRequest { directory, ids: 8 };
    v.meta.by(client).delegate(now, client, &request)
}

fn made(lent: &DelegateReply, directory: u64, name: &str, number: usize) -> NameChange {
    NameChange {
        who: who(0),
        directory,
        name: name.as_bytes().to_vec().into(),
        file: lent.first + number as u64,
        time: 5000,
        made: Some(NewFile {
            mode: 0o666,
            umask: 0o22,
            layout: lent.layouts[number].clone(),
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

fn tell(v: &Volume, client: u64, changes: &[NameChange]) -> Vec<NameChanged> {
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

fn told_twice_is_done_once(v: &mut Volume) {
    let d = directory(v, "/d");
    let lent = delegate(v, 1, d).unwrap();
    assert!(lent.granted && lent.layouts.len() == 8);
    let mut first = made(&lent, d, "a", 0);
    let file = first.made.as_mut().unwrap();
    (file.data, file.modified, file.writing) = (Some(b"bytes"[..].into()), 6000, true);
    let changes = [
        first.clone(),
        made(&lent, d, "b", 1),
        made(&lent, d, "c", 2),
    ];
    for _ in 0..2 {
        let done = tell(v, 1, &changes);
        assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
        let attributes = done[0].attributes.as_ref().unwrap();
        assert_eq!((attributes.size, attributes.mode), (5, 0o644));
        assert_eq!((attributes.modified, attributes.created), (6000, 5000));
        assert!(v.meta.is_attached(1, lent.first));
        assert!(!v.meta.is_attached(1, lent.first + 1));
    }
    v.detach(1, lent.first, true);
    assert!(!v.meta.is_attached(1, lent.first), "it counts once");
    for _ in 0..2 {
        let done = tell(v, 1, &[removed(&first), removed(&changes[1])]);
        assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    }
    let attributes = v.stat(0, "/d").unwrap();
    assert_eq!((attributes.size, attributes.changed), (1, 5000));
}

fn one_that_is_refused_leaves_the_others(v: &mut Volume) {
    let d = directory(v, "/d");
    v.create(0, "/d/b", 0o644).unwrap();
    let lent = delegate(v, 1, d).unwrap();
    let a = made(&lent, d, "a", 0);
    let mut unknown = made(&lent, d, "d", 3);
    unknown.file += 1 << 20;
    let other = NameChange {
        name: b"b"[..].into(),
        ..removed(&a)
    };
    let path = made(&lent, d, "x/y", 4);
    let all = [
        a.clone(),
        made(&lent, d, "b", 1),
        unknown,
        other,
        path,
        made(&lent, d, "c", 2),
    ];
    let done = tell(v, 1, &all);
    let codes: Vec<_> = done.iter().map(code).collect();
    assert_eq!(codes[..2], [None, Some(Code::Exists)]);
    assert_eq!(codes[2], Some(Code::Invalid), "its id was never given out");
    assert_eq!(codes[3], Some(Code::Stale), "the name is another file's");
    assert!(codes[4].is_some() && codes[5].is_none(), "{codes:?}");
    // Made and removed in one call.
    let again = made(&lent, d, "e", 5);
    let done = tell(v, 1, &[again.clone(), removed(&again)]);
    assert!(done.iter().all(|done| done.refused.is_none()), "{done:?}");
    assert_eq!(v.stat(0, "/d").unwrap().size, 3);
}

fn nobody_else_looks_into_a_lent_directory(v: &mut Volume) {
    let d = directory(v, "/d");
    v.create(0, "/d/f", 0o644).unwrap();
    assert!(delegate(v, 1, d).unwrap().granted);
    let met = |result: Result<(), MetaError>| match result {
        Err(MetaError::Delegated { directories }) => assert_eq!(directories, [d]),
        other => panic!("{other:?}"),
    };
    let other = v.meta.by(2);
    let stat = |path: &str| StatRequest {
        who: who(0),
        target: at(path),
    };
    met(other.stat(&stat("/d")).map(drop));
    met(other.stat(&stat("/d/f")).map(drop));
    met(other.stat(&stat("/d/none")).map(drop));
    let request = attaching(0, "/d/f", true, false);
    met(other.attach(7, 2, &request).map(drop));
    met(delegate(v, 2, d).map(drop));
    let list = ListRequest {
        who: who(0),
        target: at("/"),
        ..ListRequest::default()
    };
    met(other.list(&list).map(drop));
    assert!(v.meta.by(1).stat(&stat("/d/f")).is_ok(), "its holder does");
    v.meta.delegations().recall(&[d]);
    assert_eq!(v.meta.delegations().recalled_from(1), [d]);
    v.meta.delegations().end(1, &[d]);
    assert!(other.stat(&stat("/d/f")).is_ok());
    assert!(delegate(v, 2, d).unwrap().granted);
}
