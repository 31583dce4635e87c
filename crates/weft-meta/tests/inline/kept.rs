//! Small files that clients keep attached: leases, and files that are attached ahead.

use weft_meta::{Invalidations, MetaError};
use weft_proto::inline::StoreInlineRequest;
use weft_proto::limits::ATTACH_AHEAD_MAX;
use weft_proto::meta::*;

use crate::common::{Volume, attaching, creating};

crate::on_both_engines! {
    a_change_waits_for_every_other_client_that_keeps_the_file
    only_small_files_that_are_read_are_leased
    files_that_follow_are_attached_ahead_as_far_as_they_may_be_read
    files_attached_ahead_are_bounded
    a_detach_ends_the_lease
    a_writer_ends_the_leases_of_a_file_and_no_client_gets_one_while_it_writes
    an_attach_waits_for_writers_that_gather
}

/// Client 1 makes a file with these bytes, and closes it.
fn small(v: &mut Volume, path: &str, data: &[u8]) -> u64 {
    let request = AttachRequest {
        inline: true,
        write: true,
        ..creating(0, path, 0o644, true)
    };
    let id = v.attach(1, &request).unwrap().reply.attributes.id;
    store(v, 1, id, data);
    v.detach(1, id, true);
    id
}

fn store(v: &mut Volume, client: u64, file: u64, data: &[u8]) {
    let request = StoreInlineRequest {
        file,
        data: data.to_vec().into(),
        modified: 4000,
        ..StoreInlineRequest::default()
    };
    let now = v.tick();
    let meta = v.meta.by(client);
    meta.store_inline(now, client, &request).unwrap();
}

fn keeping(path: &str, directory: u64, after: &str, files: u32) -> AttachRequest {
    AttachRequest {
        inline: true,
        keep: Some(KeepSmall {
            directory,
            after: after.as_bytes().to_vec().into(),
            files,
        }),
        ..attaching(0, path, true, false)
    }
}

fn keep(v: &mut Volume, client: u64, path: &str) -> Option<KeptSmall> {
    v.attach(client, &keeping(path, 0, "", 0))
        .unwrap()
        .reply
        .kept
}

fn a_change_waits_for_every_other_client_that_keeps_the_file(v: &mut Volume) {
    let id = small(v, "f", b"bytes");
    for client in [2, 3, 4] {
        assert_eq!(keep(v, client, "f"), Some(KeptSmall::default()));
    }
    let request = AttachRequest {
        inline: true,
        ..attaching(0, "f", true, true)
    };
    v.attach(4, &request).unwrap();
    store(v, 4, id, b"other");
    let leases = v.meta.leases();
    assert!(leases.are_recalled_by(4));
    assert!([2, 3].iter().all(|client| !leases.holds_file(*client, id)));
    assert!(leases.holds_file(4, id), "it knows what it changes");
    let published = v.meta.changes().published();
    assert!(leases.acknowledge(2, published) && leases.are_recalled_by(4));
    assert!(leases.acknowledge(3, published) && !leases.are_recalled_by(4));
    // A client that opens it again after the close keeps it again.
    v.detach(4, id, true);
    keep(v, 2, "f").unwrap();
    assert!(v.meta.leases().holds_file(2, id));
    v.meta.leases().client_ended(2);
    assert!(!v.meta.leases().holds_file(2, id));
}

fn only_small_files_that_are_read_are_leased(v: &mut Volume) {
    let id = small(v, "f", b"bytes");
    let empty = small(v, "empty", b"");
    v.create(0, "cells", 0o644).unwrap();
    for path in ["empty", "cells"] {
        assert_eq!(keep(v, 2, path), None, "{path}");
    }
    let write = AttachRequest {
        write: true,
        ..keeping("f", 0, "", 0)
    };
    assert_eq!(v.attach(2, &write).unwrap().reply.kept, None);
    let leases = v.meta.leases();
    assert!(!leases.holds_file(2, id) && !leases.holds_file(2, empty));
    let plain = AttachRequest {
        keep: None,
        ..keeping("f", 0, "", 0)
    };
    assert_eq!(v.attach(3, &plain).unwrap().reply.kept, None);
}

fn files_that_follow_are_attached_ahead_as_far_as_they_may_be_read(v: &mut Volume) {
    let d = v.mkdir(0, "d", 0o755).unwrap().id;
    small(v, "d/a", b"a");
    small(v, "d/b", b"b");
    small(v, "d/c", b"");
    v.mkdir(0, "d/d", 0o755).unwrap();
    v.create(0, "d/e", 0o644).unwrap();
    let private = small(v, "d/f", b"f");
    v.chmod(0, "d/f", 0o600).unwrap();
    let last = small(v, "d/g", b"g");
    let names = |kept: KeptSmall| -> Vec<String> {
        let name = |small: &SmallFile| String::from_utf8(small.name.to_vec()).unwrap();
        kept.ahead.iter().map(name).collect()
    };
    let by = |uid| AttachRequest {
        who: crate::common::who(uid),
        ..keeping("d/a", d, "a", 64)
    };
    let kept = v.attach(2, &by(7)).unwrap().reply.kept.unwrap();
    assert_eq!(kept.ahead[1].inline, &b"g"[..]);
    assert_eq!(names(kept), ["b", "g"]);
    assert!(v.meta.is_attached(2, last) && v.meta.leases().holds_file(2, last));
    assert!(!v.meta.is_attached(2, private) && !v.meta.leases().holds_file(2, private));
    let kept = v.attach(3, &by(0)).unwrap().reply.kept.unwrap();
    assert_eq!(names(kept), ["b", "f", "g"]);
    // What a user may not read does not end the lease of another one's attachment.
    v.attach(2, &keeping("d/f", 0, "", 0)).unwrap();
    let kept = v.attach(2, &by(7)).unwrap().reply.kept.unwrap();
    assert_eq!(names(kept), ["b", "g"]);
    assert!(v.meta.leases().holds_file(2, private));
    // A directory that may not be searched, or is none, brings nothing.
    v.chmod(0, "d", 0o700).unwrap();
    let hidden = AttachRequest {
        who: crate::common::who(7),
        target: crate::common::by_id(last),
        ..keeping("", d, "a", 64)
    };
    let kept = v.attach(4, &hidden).unwrap().reply.kept.unwrap();
    assert!(kept.ahead.is_empty());
    let kept = v.attach(5, &keeping("d/a", last, "", 64)).unwrap();
    assert!(kept.reply.kept.unwrap().ahead.is_empty());
    // Another client changes names there: nothing of the directory is read.
    let request = weft_proto::delegation::DelegateRequest {
        directory: d,
        ids: 1,
        ..Default::default()
    };
    let now = v.tick();
    assert!(v.meta.by(6).delegate(now, 6, &request).unwrap().granted);
    let target = crate::common::by_id(last);
    let request = AttachRequest {
        target,
        ..keeping("", d, "a", 64)
    };
    let now = v.tick();
    let attached = v.meta.by(8).attach(now, 8, &request).unwrap();
    assert!(attached.reply.kept.unwrap().ahead.is_empty());
}

fn files_attached_ahead_are_bounded(v: &mut Volume) {
    let d = v.mkdir(0, "d", 0o755).unwrap().id;
    for number in 0..2 * ATTACH_AHEAD_MAX {
        small(v, &format!("d/s{number:03}"), b"x");
        small(v, &format!("d/t{number:03}"), &[1; 16 << 10]);
    }
    let count = |v: &mut Volume, after: &str, files| {
        let request = keeping("d/s000", d, after, files);
        let kept = v.attach(2, &request).unwrap().reply.kept.unwrap();
        kept.ahead.len()
    };
    assert_eq!(count(v, "s000", 5), 5);
    assert_eq!(count(v, "s000", u32::MAX), ATTACH_AHEAD_MAX as usize);
    assert_eq!(count(v, "t000", 64), 16, "256 KiB");
    assert_eq!(count(v, "t127", 64), 0);
}

fn a_detach_ends_the_lease(v: &mut Volume) {
    let id = small(v, "f", b"bytes");
    keep(v, 2, "f").unwrap();
    keep(v, 2, "f").unwrap();
    let detach = DetachRequest {
        reading: vec![id],
        ..DetachRequest::default()
    };
    v.meta.by(2).detach(2, &detach).unwrap();
    assert!(v.meta.leases().holds_file(2, id), "one attachment is left");
    v.meta.by(2).detach(2, &detach).unwrap();
    assert!(!v.meta.leases().holds_file(2, id));
    let gone = v.attach(2, &keeping("nothing", 0, "", 0));
    assert!(matches!(gone, Err(MetaError::NotFound { .. })));
}

fn a_writer_ends_the_leases_of_a_file_and_no_client_gets_one_while_it_writes(v: &mut Volume) {
    let id = small(v, "f", b"bytes");
    assert!(keep(v, 2, "f").is_some());
    let writing = AttachRequest {
        inline: true,
        ..attaching(0, "f", true, true)
    };
    v.attach(3, &writing).unwrap();
    let leases = v.meta.leases();
    assert!(leases.are_recalled_by(3) && !leases.holds_file(2, id));
    assert!(leases.acknowledge(2, v.meta.changes().published()));
    assert_eq!(keep(v, 2, "f"), None);
    store(v, 3, id, b"other");
    assert!(!v.meta.leases().are_recalled_by(3), "no lease was granted");
    v.detach(3, id, true);
    assert!(keep(v, 2, "f").is_some());
}

fn an_attach_waits_for_writers_that_gather(v: &mut Volume) {
    let id = v.create(0, "f", 0o644).unwrap().id;
    let request = |write| attaching(0, "f", true, write);
    for client in [1, 2, 3] {
        v.attach(client, &request(client != 3)).unwrap();
    }
    // Clients that do not gather have sent what they wrote.
    v.attach(4, &request(false)).unwrap();
    v.meta.leases().gathers(1);
    v.meta.leases().gathers(3);
    let refused = v.attach(4, &request(false)).unwrap_err();
    assert!(
        matches!(refused, MetaError::Unsent { id: at } if at == id),
        "{refused}"
    );
    v.attach(1, &request(false))
        .expect("it knows what it gathers");
    v.meta.recall_gathered(4, id);
    let (published, leases) = (v.meta.changes().published(), v.meta.leases());
    let asked = |client| match v.meta.changes().since(client, published - 1) {
        Invalidations::Listed { opened, .. } => opened,
        Invalidations::All { .. } => panic!("nothing is lost"),
    };
    assert_eq!([1, 2, 3, 5].map(asked), [vec![id], vec![], vec![], vec![]]);
    assert_eq!(
        leases.recalled_by(4),
        [1].into(),
        "a reader gathers nothing"
    );
    assert!(leases.acknowledge(1, published) && !leases.are_recalled_by(4));
    let now = v.tick();
    v.meta.attach_sent(now, 4, &request(false), id).unwrap();
    // The next open asks again, and asks no client that has ended.
    assert!(v.attach(4, &request(false)).is_err());
    v.meta.leases().client_ended(1);
    v.attach(4, &request(false)).unwrap();
}
