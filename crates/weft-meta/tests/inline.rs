//! Small files whose bytes are stored with their metadata: when they stay there, when they move to
//! cells, and their state after a crash.

#[path = "inline/delegated.rs"]
mod delegated;
#[path = "inline/kept.rs"]
mod kept;
use crate::common;

use common::{Volume, at, attaching, by_id, creating, who};
use weft_kv::Space;
use weft_meta::{MetaError, SpillEnd, Truncation};
use weft_proto::inline::StoreInlineRequest;
use weft_proto::limits::INLINE_MAX;
use weft_proto::meta::*;

on_both_engines! {
    a_file_is_inline_from_its_creation
    the_size_of_an_inline_file_is_exact_while_it_is_written
    a_client_that_needs_cells_waits_for_the_spill
    an_empty_file_gets_cells_at_once
    a_second_writer_needs_cells
    only_a_writer_stores_inline_bytes_up_to_the_bound
    truncation_within_the_bound_needs_no_server
    a_file_with_cells_never_becomes_inline
    unlinking_an_inline_file_needs_no_intent
    unlinking_while_spilling_adds_a_delete
    a_repeated_spill_empties_the_cells_first
    a_spill_that_servers_refused_is_undone_unless_several_clients_write
    a_writer_that_reconnects_beside_another_needs_cells
    after_a_restart_a_writer_that_may_reconnect_counts_as_attached
    an_unprivileged_store_clears_set_id_bits
}

fn inline(request: AttachRequest) -> AttachRequest {
    AttachRequest {
        inline: true,
        ..request
    }
}

/// A new file that client 1 is writing.
fn small(v: &mut Volume, path: &str, data: &[u8]) -> u64 {
    let mut request = inline(creating(0, path, 0o644, true));
    request.write = true;
    let attached = v.attach(1, &request).unwrap();
    assert_eq!(attached.reply.inline.as_deref(), Some(&b""[..]));
    let id = attached.reply.attributes.id;
    if !data.is_empty() {
        store(v, 1, id, data).unwrap();
    }
    id
}

fn store(v: &mut Volume, client: u64, file: u64, data: &[u8]) -> Result<Attributes, MetaError> {
    let request = StoreInlineRequest {
        file,
        data: data.to_vec().into(),
        modified: 4000,
        ..StoreInlineRequest::default()
    };
    let now = v.tick();
    let reply = v.meta.store_inline(now, client, &request)?;
    Ok(reply.attributes)
}

fn read(v: &mut Volume, path: &str) -> Result<Option<Vec<u8>>, MetaError> {
    let attached = v.attach(7, &inline(attaching(0, path, true, false)))?;
    v.detach(7, attached.reply.attributes.id, false);
    Ok(attached.reply.inline.map(|data| data.to_vec()))
}

/// Spills a file as the service does, without servers.
fn spill(v: &mut Volume, file: u64) -> Option<(Vec<u8>, bool)> {
    let spill = v.meta.begin_spill(file).unwrap()?;
    let now = v.tick();
    v.meta.end_spill(now, file, SpillEnd::Written).unwrap();
    Some((spill.data, spill.empty_first.is_some()))
}

fn a_file_is_inline_from_its_creation(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    let attributes = v.stat(0, "f").unwrap();
    assert!(attributes.inline && attributes.size_exact);
    assert_eq!((attributes.size, attributes.modified), (5, 4000));
    assert_eq!(read(v, "f").unwrap().unwrap(), b"hello");
    v.detach(1, id, true);
    assert_eq!(read(v, "f").unwrap().unwrap(), b"hello");
    // A plain creation begins with cells.
    v.create(0, "g", 0o644).unwrap();
    assert_eq!(read(v, "g").unwrap(), None);
}

fn the_size_of_an_inline_file_is_exact_while_it_is_written(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    v.detach(1, id, true);
    let attached = v.attach(2, &inline(attaching(0, "f", true, true))).unwrap();
    assert!(!attached.committed, "the attach changes nothing");
    assert!(v.stat(0, "f").unwrap().size_exact);
    assert_eq!(store(v, 2, id, b"").unwrap().size, 0);
    v.detach(2, id, true);
    assert!(v.stat(0, "f").unwrap().size_exact);
    assert_eq!(read(v, "f").unwrap().unwrap(), b"");
}

fn a_client_that_needs_cells_waits_for_the_spill(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    let before = v.stat(0, "f").unwrap();
    let plain = attaching(0, "f", true, false);
    assert!(matches!(v.attach(2, &plain), Err(MetaError::Inline { .. })));
    let begun = v.meta.begin_spill(id).unwrap().unwrap();
    assert_eq!(begun.data, b"hello");
    assert_eq!(begun.empty_first, None);
    // No other call changes the file during the spill.
    assert!(matches!(
        store(v, 1, id, b"x"),
        Err(MetaError::Inline { .. })
    ));
    assert!(matches!(
        v.truncate(0, "f", 1),
        Err(MetaError::Inline { .. })
    ));
    assert!(matches!(read(v, "f"), Err(MetaError::Inline { .. })));
    v.meta.end_spill(5000, id, SpillEnd::Written).unwrap();
    let attached = v.attach(2, &plain).unwrap();
    assert_eq!(attached.reply.inline, None);
    let after = attached.reply.attributes;
    assert!(
        !after.size_exact,
        "the attached writer may write to the cells now"
    );
    assert_eq!((after.size, after.modified), (5, before.modified));
    refused!(store(v, 1, id, b"x"), Spilled);
    assert!(v.meta.begin_spill(id).unwrap().is_none());
}

fn an_empty_file_gets_cells_at_once(v: &mut Volume) {
    let id = small(v, "f", b"");
    let attached = v.attach(2, &attaching(0, "f", true, false)).unwrap();
    assert!(attached.committed);
    assert_eq!(attached.reply.inline, None);
    refused!(store(v, 1, id, b"x"), Spilled);
}

fn a_second_writer_needs_cells(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    let writing = inline(attaching(0, "f", true, true));
    for client in [1, 2] {
        assert!(matches!(
            v.attach(client, &writing),
            Err(MetaError::Inline { .. })
        ));
    }
    assert_eq!(spill(v, id).unwrap(), (b"hello".to_vec(), false));
    assert_eq!(v.attach(2, &writing).unwrap().reply.inline, None);
}

fn only_a_writer_stores_inline_bytes_up_to_the_bound(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    refused!(store(v, 2, id, b"x"), Invalid);
    refused!(store(v, 1, id, &vec![0; INLINE_MAX + 1]), Invalid);
    refused!(store(v, 1, 999, b"x"), Stale);
    store(v, 1, id, &vec![1; INLINE_MAX]).unwrap();
    assert_eq!(read(v, "f").unwrap().unwrap(), vec![1; INLINE_MAX]);
}

fn truncation_within_the_bound_needs_no_server(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    v.detach(1, id, true);
    for (size, expected) in [(3, &b"hel"[..]), (5, b"hel\0\0"), (0, b"")] {
        let Truncation::Done(reply) = v.truncate(0, "f", size).unwrap() else {
            panic!("no server is needed");
        };
        assert_eq!(reply.attributes.size, size);
        assert!(reply.attributes.size_exact);
        assert_eq!(read(v, "f").unwrap().unwrap(), expected);
    }
    let id = small(v, "g", b"hello");
    // Another client writes: the bytes in its memory would undo the truncate.
    assert!(matches!(
        v.truncate(0, "g", 3),
        Err(MetaError::Inline { .. })
    ));
    let request = TruncateRequest {
        who: who(0),
        target: by_id(id),
        size: 3,
        attached: true,
        grow: false,
    };
    v.meta.by(1).truncate(9, &request).unwrap();
    assert_eq!(read(v, "g").unwrap().unwrap(), b"hel");
    v.detach(1, id, true);
    let large = INLINE_MAX as u64 + 1;
    assert!(matches!(
        v.truncate(0, "g", large),
        Err(MetaError::Inline { .. })
    ));
    spill(v, id);
    assert!(matches!(
        v.truncate(0, "g", large).unwrap(),
        Truncation::Pending(_)
    ));
}

fn a_file_with_cells_never_becomes_inline(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    spill(v, id);
    assert_eq!(read(v, "f").unwrap(), None);
    v.truncate(0, "f", 0).unwrap();
    assert_eq!(read(v, "f").unwrap(), None);
}

fn unlinking_an_inline_file_needs_no_intent(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    v.unlink(0, "f").unwrap();
    store(v, 1, id, b"still open").unwrap();
    v.detach(1, id, true);
    assert!(v.carry_deletes().is_empty());
    let reader = v.kv.snapshot().unwrap();
    let key = id.to_be_bytes();
    assert!(reader.get(Space("inline"), &key).unwrap().is_none());
    assert!(reader.get(Space("inodes"), &key).unwrap().is_none());
}

fn unlinking_while_spilling_adds_a_delete(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    v.detach(1, id, true);
    assert!(v.meta.begin_spill(id).unwrap().is_some());
    v.unlink(0, "f").unwrap();
    assert!(v.carry_deletes().is_empty(), "the cells are being written");
    v.meta.end_spill(5000, id, SpillEnd::Written).unwrap();
    assert_eq!(v.carry_deletes(), [id]);
}

fn a_repeated_spill_empties_the_cells_first(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    assert!(v.meta.begin_spill(id).unwrap().is_some());
    v.meta.end_spill(5000, id, SpillEnd::Failed).unwrap();
    assert!(
        v.stat(0, "f").unwrap().inline,
        "the bytes of the record are still valid"
    );
    v.restart();
    assert!(matches!(read(v, "f"), Err(MetaError::Inline { .. })));
    let first = v.meta.begin_spill(id).unwrap().unwrap();
    v.restart();
    let second = v.meta.begin_spill(id).unwrap().unwrap();
    assert!(
        second.empty_first > first.empty_first,
        "servers skip numbers they have seen"
    );
    v.meta.end_spill(5000, id, SpillEnd::Written).unwrap();
    assert_eq!(read(v, "f").unwrap(), None);
}

fn a_spill_that_servers_refused_is_undone_unless_several_clients_write(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    let first = v.meta.begin_spill(id).unwrap().unwrap();
    assert!(v.meta.undo_spill(id).unwrap());
    v.meta.end_spill(5000, id, SpillEnd::Failed).unwrap();
    assert_eq!(read(v, "f").unwrap().as_deref(), Some(&b"hello"[..]));
    store(v, 1, id, b"hello again").unwrap();
    // The next spill has new numbers, and finds empty cells.
    let second = v.meta.begin_spill(id).unwrap().unwrap();
    assert!(second.extend > first.undo && second.undo > second.extend);
    assert_eq!(
        (second.data, second.empty_first),
        (b"hello again".to_vec(), None)
    );
    v.meta.end_spill(5000, id, SpillEnd::Failed).unwrap();
    // Two writers need the cells.
    v.attach(2, &inline(attaching(0, "f", true, true)))
        .unwrap_err();
    v.meta.session_ended(1).unwrap();
    v.meta.begin_spill(id).unwrap().unwrap();
    assert!(v.meta.undo_spill(id).unwrap());
    v.meta.end_spill(5000, id, SpillEnd::Failed).unwrap();
    v.attach(2, &inline(attaching(0, "f", true, true))).unwrap();
    let back = ReassertRequest {
        writing: vec![id],
        ..ReassertRequest::default()
    };
    v.meta.reassert(1, &back).unwrap();
    v.meta.begin_spill(id).unwrap().unwrap();
    assert!(!v.meta.undo_spill(id).unwrap());
    v.meta.end_spill(5000, id, SpillEnd::Written).unwrap();
}

fn a_writer_that_reconnects_beside_another_needs_cells(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    v.meta.session_ended(1).unwrap();
    v.attach(2, &inline(attaching(0, "f", true, true))).unwrap();
    let request = ReassertRequest {
        writing: vec![id],
        ..ReassertRequest::default()
    };
    v.meta.reassert(1, &request).unwrap();
    assert!(matches!(
        store(v, 2, id, b"x"),
        Err(MetaError::Inline { .. })
    ));
    assert_eq!(spill(v, id).unwrap().0, b"hello");
    refused!(store(v, 1, id, b"x"), Spilled);
}

fn after_a_restart_a_writer_that_may_reconnect_counts_as_attached(v: &mut Volume) {
    let id = small(v, "f", b"hello");
    v.restart();
    let writing = inline(attaching(0, "f", true, true));
    assert!(matches!(
        v.attach(2, &writing),
        Err(MetaError::Inline { .. })
    ));
    let request = ReassertRequest {
        writing: vec![id],
        ..ReassertRequest::default()
    };
    v.meta.reassert(1, &request).unwrap();
    assert!(v.stat(0, "f").unwrap().size_exact);
    assert_eq!(store(v, 1, id, b"longer").unwrap().size, 6);
    v.meta.reap_orphans().unwrap();
    v.detach(1, id, true);
    assert!(v.attach(2, &writing).unwrap().reply.inline.is_some());
}

fn an_unprivileged_store_clears_set_id_bits(v: &mut Volume) {
    let id = small(v, "f", b"");
    v.chmod(0, "f", 0o6755).unwrap();
    let request = StoreInlineRequest {
        file: id,
        data: b"x".to_vec().into(),
        modified: 1,
        detach: true,
        kill_priv: true,
        set: None,
    };
    let reply = v.meta.store_inline(9, 1, &request).unwrap();
    assert_eq!(reply.attributes.mode, 0o755);
    assert!(!v.meta.is_attached(1, id));
    v.chmod(0, "f", 0o6755).unwrap();
    let change = SetAttributesRequest {
        who: who(0),
        target: at("f"),
        kill_priv: true,
        ..SetAttributesRequest::default()
    };
    assert_eq!(
        v.meta.set_attributes(9, &change).unwrap().attributes.mode,
        0o755
    );
}
