//! Open files: exact and inexact sizes, names removed before the last close, pending truncates,
//! crashes of clients and of the service.

use crate::common;

use common::{Volume, at, attaching, by_id, creating, who};
use weft_meta::{Intent, MetaError, Truncation};
use weft_proto::meta::*;

on_both_engines! {
    a_size_is_exact_again_when_the_last_writer_has_reported_it
    a_writer_without_writes_leaves_the_size_exact
    a_writer_without_a_report_leaves_the_size_inexact
    a_reader_changes_nothing
    a_writer_that_vanishes_leaves_the_size_inexact
    a_time_set_explicitly_holds_until_a_later_write
    reports_in_any_order_keep_the_latest_write
    an_unlinked_open_file_exists_until_its_last_user_closes_it
    an_unlinked_file_is_deleted_when_its_client_ends
    after_a_restart_clients_report_open_files_again
    after_a_restart_nothing_is_removed_before_the_grace_period_ends
    reporting_twice_changes_nothing
    a_removed_open_directory_stays_empty
    a_truncate_takes_three_steps
    a_truncate_to_the_known_size_needs_no_server
    truncates_of_one_file_run_in_order
    a_truncate_of_a_deleted_file_is_dropped
    a_truncate_beside_an_attached_writer_leaves_the_size_inexact
    a_write_during_a_truncate_leaves_the_size_inexact
    a_reader_that_vanishes_during_a_truncate_has_no_effect_on_the_size
    a_raced_truncate_is_not_made_exact_by_an_idle_writer
    the_end_of_a_lone_writer_determines_the_size
    a_write_end_does_not_determine_a_size_that_others_changed
    a_size_from_before_another_writer_is_discarded
    a_size_from_before_a_truncate_is_discarded
    a_clean_close_needs_no_grace_period
    a_truncate_needs_permission_unless_attached
    a_truncate_clears_set_id_bits
    ending_attachments_together_is_the_same_as_one_by_one
    an_access_time_only_moves_forward_and_changes_nothing_else
    set_group_id_without_group_execution_stays_for_members
    a_lease_is_granted_for_an_empty_directory_only
}

fn open(v: &mut Volume, client: u64, path: &str, write: bool) -> Attributes {
    let request = attaching(0, path, !write, write);
    v.attach(client, &request).unwrap().reply.attributes
}

fn report(
    v: &Volume,
    client: u64,
    file: u64,
    size: Option<u64>,
    modified: Option<i64>,
    detach: bool,
) {
    let request = ReportRequest {
        file,
        modified,
        detach,
        write: true,
        can_ask: size.is_some(),
        ..ReportRequest::default()
    };
    let reply = v.meta.report(client, &request).unwrap();
    if reply.size_wanted {
        let reply = v.meta.report(client, &asked(request, size, &reply));
        assert!(!reply.unwrap().size_wanted);
    }
}

/// The same request with the size that the servers reported after this reply.
fn asked(request: ReportRequest, size: Option<u64>, after: &ReportReply) -> ReportRequest {
    let turn = Some(after.turn);
    ReportRequest {
        size,
        turn,
        ..request
    }
}

fn size(v: &Volume, path: &str) -> (u64, bool) {
    let attributes = v.stat(0, path).unwrap();
    (attributes.size, attributes.size_exact)
}

fn a_size_is_exact_again_when_the_last_writer_has_reported_it(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    assert_eq!(size(v, "f"), (0, true));
    let first = v.attach(1, &attaching(0, "f", false, true)).unwrap();
    assert!(first.committed && !first.reply.attributes.size_exact);
    let second = v.attach(2, &attaching(0, "f", true, true)).unwrap();
    assert!(!second.committed);
    assert_eq!(size(v, "f"), (0, false));
    report(v, 1, f, Some(100), Some(5000), false);
    report(v, 1, f, Some(200), Some(6000), true);
    assert_eq!(size(v, "f"), (0, false));
    report(v, 2, f, Some(300), None, true);
    assert_eq!(size(v, "f"), (300, true));
    assert_eq!(v.stat(0, "f").unwrap().modified, 6000);
}

fn a_writer_without_writes_leaves_the_size_exact(v: &mut Volume) {
    let mut request = creating(0, "f", 0o644, true);
    request.write = true;
    let f = v.attach(1, &request).unwrap().reply.attributes.id;
    assert_eq!(size(v, "f"), (0, false));
    report(v, 1, f, None, None, true);
    assert_eq!(size(v, "f"), (0, true));
    open(v, 1, "f", true);
    open(v, 1, "f", true);
    report(v, 1, f, None, None, true);
    assert_eq!(size(v, "f"), (0, false));
    report(v, 1, f, None, None, true);
    assert_eq!(size(v, "f"), (0, true));
}

fn a_writer_without_a_report_leaves_the_size_inexact(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    open(v, 2, "f", true);
    report(v, 1, f, None, Some(5000), true);
    report(v, 2, f, None, None, true);
    assert_eq!(size(v, "f"), (0, false));
    // The next writer does not know the size either, unless it asks the servers.
    open(v, 1, "f", true);
    report(v, 1, f, None, None, true);
    assert_eq!(size(v, "f"), (0, false));
    open(v, 1, "f", true);
    report(v, 1, f, Some(7), None, true);
    assert_eq!(size(v, "f"), (7, true));
}

fn a_reader_changes_nothing(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    let before = v.stat(0, "f").unwrap();
    assert!(
        !v.attach(1, &attaching(0, "f", true, false))
            .unwrap()
            .committed
    );
    let request = ReportRequest {
        file: f,
        size: Some(99),
        modified: Some(99_999),
        detach: true,
        write: false,
        ..ReportRequest::default()
    };
    v.meta.report(1, &request).unwrap();
    assert_eq!(v.stat(0, "f").unwrap(), before);
    // Detaching a file that was never attached is no error.
    v.detach(7, f, false);
    v.detach(7, 12345, true);
}

fn a_writer_that_vanishes_leaves_the_size_inexact(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    open(v, 2, "f", true);
    v.meta.session_ended(1).unwrap();
    report(v, 2, f, None, None, true);
    assert_eq!(size(v, "f"), (0, false));
    open(v, 2, "f", true);
    v.meta.session_ended(2).unwrap();
    assert_eq!(size(v, "f"), (0, false));
}

fn a_time_set_explicitly_holds_until_a_later_write(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    let change = SetAttributesRequest {
        modified: Some(TimeUpdate {
            now: false,
            nanos: 77_000_000,
        }),
        ..Default::default()
    };
    v.set(0, "f", change).unwrap();
    let set = v.now;
    report(v, 1, f, None, Some(set - 5), false);
    assert_eq!(v.stat(0, "f").unwrap().modified, 77_000_000);
    report(v, 1, f, None, Some(set + 5), true);
    assert_eq!(v.stat(0, "f").unwrap().modified, set + 5);
}

fn reports_in_any_order_keep_the_latest_write(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    report(v, 1, f, None, Some(9000), false);
    report(v, 1, f, None, Some(8000), false);
    let attributes = v.stat(0, "f").unwrap();
    assert_eq!((attributes.modified, attributes.changed), (9000, 9000));
}

fn an_unlinked_open_file_exists_until_its_last_user_closes_it(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", false);
    open(v, 2, "f", true);
    assert_eq!(v.unlink(0, "f").unwrap().links, 0);
    refused!(v.stat(0, "f"), NotFound);
    assert_eq!(v.stat_target(0, by_id(f)).unwrap().links, 0);
    // It can be opened again by its id, written and truncated, but cannot get a name.
    let mut again = attaching(0, "", true, false);
    again.target = by_id(f);
    v.attach(3, &again).unwrap();
    let mut link = LinkRequest {
        who: who(0),
        source: by_id(f),
        target: at("back"),
    };
    refused!(v.meta.link(5, &link), NotFound);
    link.target = at("");
    report(v, 2, f, Some(10), Some(5000), true);
    v.detach(1, f, false);
    v.check();
    assert!(v.carry_deletes().is_empty());
    v.detach(3, f, false);
    assert_eq!(v.carry_deletes(), [f]);
    refused!(v.stat_target(0, by_id(f)), Stale);
}

fn an_unlinked_file_is_deleted_when_its_client_ends(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    let g = v.create(0, "g", 0o644).unwrap().id;
    open(v, 1, "f", true);
    open(v, 1, "f", false);
    open(v, 1, "g", false);
    open(v, 2, "g", false);
    v.unlink(0, "f").unwrap();
    v.unlink(0, "g").unwrap();
    v.meta.session_ended(1).unwrap();
    assert_eq!(v.carry_deletes(), [f]);
    v.meta.session_ended(2).unwrap();
    assert_eq!(v.carry_deletes(), [g]);
    v.meta.session_ended(2).unwrap();
}

fn after_a_restart_clients_report_open_files_again(v: &mut Volume) {
    let kept = v.create(0, "kept", 0o644).unwrap().id;
    let lost = v.create(0, "lost", 0o644).unwrap().id;
    let written = v.create(0, "written", 0o644).unwrap().id;
    let gone = v.create(0, "gone", 0o644).unwrap().id;
    for path in ["kept", "lost"] {
        open(v, 1, path, false);
    }
    open(v, 1, "written", true);
    v.unlink(0, "kept").unwrap();
    v.unlink(0, "lost").unwrap();
    v.unlink(0, "gone").unwrap();
    assert_eq!(v.carry_deletes(), [gone]);
    v.restart();
    let request = ReassertRequest {
        reading: vec![kept, gone],
        writing: vec![written, written],
        ..ReassertRequest::default()
    };
    assert_eq!(v.meta.reassert(1, &request).unwrap().gone, [gone]);
    assert_eq!(v.meta.reap_orphans().unwrap(), 1);
    assert_eq!(v.carry_deletes(), [lost]);
    assert_eq!(v.stat_target(0, by_id(kept)).unwrap().links, 0);
    v.detach(1, kept, false);
    assert_eq!(v.carry_deletes(), [kept]);
    // The client may have written before the restart: only the servers know the size.
    report(v, 1, written, None, None, true);
    assert_eq!(size(v, "written"), (0, false));
    report(v, 1, written, Some(4), None, true);
    assert_eq!(size(v, "written"), (4, true));
}

fn after_a_restart_nothing_is_removed_before_the_grace_period_ends(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", false);
    open(v, 2, "f", true);
    v.restart();
    // Client 1 has not reconnected yet; it may have the file open.
    let request = ReassertRequest {
        reading: vec![],
        writing: vec![f],
        ..ReassertRequest::default()
    };
    v.meta.reassert(2, &request).unwrap();
    v.unlink(0, "f").unwrap();
    report(v, 2, f, Some(3), None, true);
    v.meta.session_ended(2).unwrap();
    assert!(v.carry_deletes().is_empty());
    assert!(!v.stat_target(0, by_id(f)).unwrap().size_exact);
    let request = ReassertRequest {
        reading: vec![f],
        writing: vec![],
        ..ReassertRequest::default()
    };
    assert!(v.meta.reassert(1, &request).unwrap().gone.is_empty());
    assert_eq!(v.meta.reap_orphans().unwrap(), 0);
    v.meta.session_ended(1).unwrap();
    assert_eq!(v.carry_deletes(), [f]);
}

fn reporting_twice_changes_nothing(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    let request = ReassertRequest {
        reading: vec![],
        writing: vec![f],
        ..ReassertRequest::default()
    };
    v.meta.reassert(1, &request).unwrap();
    v.meta.reassert(1, &request).unwrap();
    report(v, 1, f, Some(5), None, true);
    assert_eq!(size(v, "f"), (5, true));
    v.unlink(0, "f").unwrap();
    assert_eq!(v.carry_deletes(), [f]);
}

fn a_removed_open_directory_stays_empty(v: &mut Volume) {
    let d = v.mkdir(0, "d", 0o755).unwrap().id;
    v.mkdir(0, "d/sub", 0o755).unwrap();
    let sub = open(v, 1, "d/sub", false).id;
    v.rmdir(0, "d/sub").unwrap();
    v.rmdir(0, "d").unwrap();
    let list = ListRequest {
        who: who(0),
        target: by_id(sub),
        after: Vec::new().into(),
        limit: 9,
    };
    assert!(v.meta.list(&list).unwrap().entries.is_empty());
    let inside = |path: &str| Target {
        at: sub,
        ..at(path)
    };
    let mut create = creating(0, "", 0o644, false);
    create.target = inside("f");
    refused!(v.attach(1, &create), NotFound);
    refused!(v.stat_target(0, inside("..")), NotFound);
    assert_eq!(v.stat_target(0, inside(".")).unwrap().id, sub);
    assert!(d > 0);
    v.detach(1, sub, false);
    assert!(v.carry_deletes().is_empty());
}

fn pending(truncation: Result<Truncation, MetaError>) -> u64 {
    match truncation.unwrap() {
        Truncation::Pending(intent) => intent.number(),
        Truncation::Done(reply) => panic!("the truncate finished at once: {reply:?}"),
    }
}

fn a_truncate_takes_three_steps(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap();
    let truncation = v.truncate(0, "f", 1000).unwrap();
    let Truncation::Pending(intent) = truncation else {
        panic!("the servers must set the size");
    };
    // Its future size is charged already; the size is inexact until the servers have set it.
    assert_eq!(size(v, "f"), (1000, false));
    assert_eq!(
        v.meta.pending_intents(9).unwrap().as_slice(),
        std::slice::from_ref(&intent)
    );
    let Intent::Truncate {
        number,
        file,
        layout,
        size: wanted,
    } = intent
    else {
        panic!("not a truncate");
    };
    assert_eq!((file.0, wanted, layout.cells()), (f.id, 1000, 4));
    assert_eq!(v.meta.pending_truncate(f.id).unwrap(), Some(number));
    refused!(v.meta.intent_done(number), Invalid);
    // The service restarts: the intent is still there.
    v.restart();
    v.meta.reap_orphans().unwrap();
    assert_eq!(v.meta.pending_intents(9).unwrap().len(), 1);
    let now = v.tick();
    let reply = v.meta.truncate_done(number, now).unwrap().unwrap();
    // A client that has ended may have written more bytes: the servers are asked.
    assert_eq!(
        (reply.attributes.size, reply.attributes.size_exact),
        (1000, false)
    );
    assert_eq!(v.meta.take_unsettled(0, 9).unwrap().0.len(), 1);
    v.meta.settle(f.id, 1000, 0).unwrap();
    assert_eq!(size(v, "f"), (1000, true));
    assert_eq!(
        (reply.attributes.modified, reply.attributes.changed),
        (now, now)
    );
    assert_eq!(v.meta.truncate_done(number, now).unwrap(), None);
    assert!(v.meta.pending_intents(9).unwrap().is_empty());
    refused!(v.truncate(0, "f", 1 << 63), TooLarge);
    refused!(v.truncate(0, "/", 0), IsDirectory);
    v.symlink(0, "l", "f").unwrap();
    refused!(v.truncate(0, "@l", 0), Invalid);
}

fn a_truncate_to_the_known_size_needs_no_server(v: &mut Volume) {
    v.create(0, "f", 0o644).unwrap();
    let Truncation::Done(reply) = v.truncate(0, "f", 0).unwrap() else {
        panic!("the size of an empty file without a writer is known");
    };
    assert_eq!(
        (reply.attributes.modified, reply.attributes.size),
        (v.now, 0)
    );
    open(v, 1, "f", true);
    pending(v.truncate(0, "f", 0));
}

fn truncates_of_one_file_run_in_order(v: &mut Volume) {
    v.create(0, "f", 0o644).unwrap();
    v.create(0, "g", 0o644).unwrap();
    let first = pending(v.truncate(0, "f", 10));
    let second = pending(v.truncate(0, "f", 20));
    let other = pending(v.truncate(0, "g", 30));
    let numbers = |v: &Volume| -> Vec<u64> {
        v.meta
            .pending_intents(9)
            .unwrap()
            .iter()
            .map(Intent::number)
            .collect()
    };
    assert_eq!(numbers(v), [first, other]);
    assert_eq!(v.meta.pending_intents(1).unwrap().len(), 1);
    v.meta.truncate_done(first, 5000).unwrap();
    assert_eq!(size(v, "f"), (10, false));
    assert_eq!(numbers(v), [second, other]);
    v.meta.truncate_done(other, 5000).unwrap();
    v.meta.truncate_done(second, 5000).unwrap();
    assert_eq!((size(v, "f"), size(v, "g")), ((20, true), (30, true)));
}

fn a_truncate_of_a_deleted_file_is_dropped(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    let number = pending(v.truncate(0, "f", 10));
    v.unlink(0, "f").unwrap();
    // The delete replaces the truncate, which a server may refuse.
    assert!(!v.meta.is_pending(number).unwrap());
    let intents = v.meta.pending_intents(9).unwrap();
    assert!(
        matches!(intents[..], [Intent::Delete { .. }]),
        "{intents:?}"
    );
    assert_eq!(v.meta.counts().unwrap().intents, 1);
    assert_eq!(v.meta.truncate_done(number, 5000).unwrap(), None);
    assert_eq!(v.carry_deletes(), [f]);
}

fn a_truncate_beside_an_attached_writer_leaves_the_size_inexact(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    let number = pending(v.truncate(0, "f", 10));
    v.meta.truncate_done(number, 5000).unwrap();
    assert_eq!(size(v, "f"), (10, false));
    report(v, 1, f, Some(12), Some(5001), true);
    assert_eq!(size(v, "f"), (12, true));
}

fn a_write_during_a_truncate_leaves_the_size_inexact(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    let number = pending(v.truncate(0, "f", 10));
    open(v, 1, "f", true);
    report(v, 1, f, Some(50), Some(5001), true);
    assert!(!size(v, "f").1);
    v.meta.truncate_done(number, 6000).unwrap();
    assert!(!size(v, "f").1);
    // The same with a client that crashes, and with one that writes across a restart.
    let number = pending(v.truncate(0, "f", 10));
    open(v, 1, "f", true);
    v.meta.session_ended(1).unwrap();
    v.meta.truncate_done(number, 6000).unwrap();
    assert!(!size(v, "f").1);
    let number = pending(v.truncate(0, "f", 11));
    v.restart();
    v.meta.truncate_done(number, 6000).unwrap();
    assert_eq!(size(v, "f"), (11, false));
    v.meta.reap_orphans().unwrap();
    let number = pending(v.truncate(0, "f", 12));
    v.meta.truncate_done(number, 6000).unwrap();
    // The crashed client may have written other forks, and the servers were not asked since.
    assert_eq!(size(v, "f"), (12, false));
    assert_eq!(v.meta.take_unsettled(0, 9).unwrap().0.len(), 1);
    v.meta.settle(f, 12, 0).unwrap();
    assert_eq!(size(v, "f"), (12, true));
}

fn a_reader_that_vanishes_during_a_truncate_has_no_effect_on_the_size(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    open(v, 2, "f", false);
    let number = pending(v.truncate(0, "f", 10));
    v.meta.session_ended(2).unwrap();
    v.meta.truncate_done(number, 5000).unwrap();
    report(v, 1, f, None, None, true);
    assert_eq!(size(v, "f"), (10, true));
}

fn a_raced_truncate_is_not_made_exact_by_an_idle_writer(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    open(v, 2, "f", true);
    let number = pending(v.truncate(0, "f", 10));
    v.meta.session_ended(2).unwrap();
    v.meta.truncate_done(number, 5000).unwrap();
    report(v, 1, f, None, None, true);
    assert!(!size(v, "f").1);
}

/// Ends the attachment of a writer that wrote up to `end`; returns whether the size is wanted.
fn ends(v: &Volume, client: u64, file: u64, end: u64) -> bool {
    let request = ReportRequest {
        file,
        modified: Some(5000),
        detach: true,
        write: true,
        end: Some(end),
        ..ReportRequest::default()
    };
    v.meta.report(client, &request).unwrap().size_wanted
}

fn the_end_of_a_lone_writer_determines_the_size(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    assert!(!ends(v, 1, f, 100));
    assert_eq!(size(v, "f"), (100, true));
    // A write inside the file leaves its size.
    open(v, 1, "f", true);
    assert!(!ends(v, 1, f, 50));
    assert_eq!(size(v, "f"), (100, true));
}

fn a_write_end_does_not_determine_a_size_that_others_changed(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    open(v, 2, "f", true);
    // The first writer detaches without the size; the last must ask, and stays attached until then.
    assert!(!ends(v, 1, f, 100));
    assert_eq!(size(v, "f"), (0, false));
    assert!(ends(v, 2, f, 50));
    v.unlink(0, "f").unwrap();
    assert!(v.carry_deletes().is_empty());
    report(v, 2, f, Some(100), Some(5000), true);
    assert_eq!(v.carry_deletes(), [f]);
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    let number = pending(v.truncate(0, "f", 10));
    v.meta.truncate_done(number, 5000).unwrap();
    assert!(ends(v, 1, f, 5));
    report(v, 1, f, Some(10), None, true);
    assert_eq!(size(v, "f"), (10, true));
}

/// The servers answered before another client attached, wrote more, and detached.
fn a_size_from_before_another_writer_is_discarded(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    let request = ReportRequest {
        file: f,
        modified: Some(5000),
        detach: true,
        write: true,
        end: Some(100),
        ..ReportRequest::default()
    };
    for other in [1, 2] {
        open(v, 1, "f", true);
        open(v, other, "f", true);
        report(v, other, f, None, Some(4000), true);
        let wanted = v.meta.report(1, &request).unwrap();
        assert!(wanted.size_wanted);
        open(v, other, "f", true);
        assert!(
            !ends(v, other, f, 200),
            "the first writer is still attached"
        );
        let late = v.meta.report(1, &asked(request, Some(100), &wanted));
        let late = late.unwrap();
        assert!(late.size_wanted && late.turn != wanted.turn);
        assert!(!size(v, "f").1);
        v.meta.report(1, &asked(request, Some(200), &late)).unwrap();
        assert_eq!(size(v, "f"), (200, true));
        // An attached client will report the size.
        open(v, 1, "f", true);
        open(v, other, "f", true);
        report(v, other, f, None, Some(4000), true);
        let wanted = v.meta.report(1, &request).unwrap();
        open(v, other, "f", true);
        let late = v.meta.report(1, &asked(request, Some(200), &wanted));
        assert!(!late.unwrap().size_wanted);
        assert!(!size(v, "f").1);
        assert!(ends(v, other, f, 300));
        report(v, other, f, Some(300), None, true);
        assert_eq!(size(v, "f"), (300, true));
    }
}

fn a_size_from_before_a_truncate_is_discarded(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    open(v, 1, "f", true);
    let request = ReportRequest {
        file: f,
        modified: Some(5000),
        detach: true,
        write: true,
        can_ask: true,
        ..ReportRequest::default()
    };
    let wanted = v.meta.report(1, &request).unwrap();
    assert!(wanted.size_wanted);
    let number = pending(v.truncate(0, "f", 10));
    v.meta.truncate_done(number, 6000).unwrap();
    let late = v.meta.report(1, &asked(request, Some(100), &wanted));
    let late = late.unwrap();
    assert!(late.size_wanted);
    // A turn from before the restart is not valid after it.
    v.restart();
    let writing = ReassertRequest {
        writing: vec![f],
        ..ReassertRequest::default()
    };
    v.meta.reassert(1, &writing).unwrap();
    v.meta.reap_orphans().unwrap();
    let again = v.meta.report(1, &asked(request, Some(100), &late)).unwrap();
    assert!(again.size_wanted);
    v.meta.report(1, &asked(request, Some(10), &again)).unwrap();
    assert_eq!(size(v, "f"), (10, true));
}

fn a_clean_close_needs_no_grace_period(v: &mut Volume) {
    v.create(0, "f", 0o644).unwrap();
    v.meta.close().unwrap();
    v.restart();
    v.unlink(0, "f").unwrap();
    assert_eq!(v.carry_deletes().len(), 1, "the file was deleted at once");
    // A grace period is needed after a crash, and if a client had a file open.
    v.create(0, "g", 0o644).unwrap();
    v.restart();
    v.unlink(0, "g").unwrap();
    assert!(v.carry_deletes().is_empty());
    v.meta.reap_orphans().unwrap();
    v.create(0, "h", 0o644).unwrap();
    open(v, 1, "h", false);
    v.meta.close().unwrap();
    v.restart();
    v.unlink(0, "h").unwrap();
    assert_eq!(v.carry_deletes().len(), 1, "only the earlier intent");
}

fn a_truncate_needs_permission_unless_attached(v: &mut Volume) {
    let f = v.create(1, "f", 0o444).unwrap().id;
    refused!(v.truncate(1, "f", 5), Permission);
    let request = TruncateRequest {
        who: who(1),
        target: by_id(f),
        size: 5,
        attached: true,
        grow: false,
    };
    pending(v.meta.truncate(5000, &request));
}

fn a_truncate_clears_set_id_bits(v: &mut Volume) {
    v.create(1, "f", 0o6777).unwrap();
    let number = pending(v.truncate(0, "f", 5));
    v.meta.truncate_done(number, 5000).unwrap();
    assert_eq!(v.stat(0, "f").unwrap().mode, 0o6777);
    pending(v.truncate(2, "f", 6));
    assert_eq!(v.stat(0, "f").unwrap().mode, 0o777);
}

fn ending_attachments_together_is_the_same_as_one_by_one(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    let g = v.create(0, "g", 0o644).unwrap().id;
    for _ in 0..2 {
        open(v, 1, "f", false);
    }
    assert!(
        v.attach(1, &attaching(0, "g", false, true))
            .unwrap()
            .reply
            .sole
    );
    assert_eq!(size(v, "g"), (0, false));
    v.unlink(0, "f").unwrap();
    let ends = |reading: &[u64], writing: &[u64]| DetachRequest {
        reading: reading.to_vec(),
        writing: writing.to_vec(),
        ..DetachRequest::default()
    };
    v.meta.detach(1, &ends(&[f], &[g])).unwrap();
    assert_eq!(size(v, "g"), (0, true), "its writer changed nothing");
    assert!(v.meta.is_attached(1, f));
    // The last one deletes the orphan; missing files are skipped.
    v.meta.detach(1, &ends(&[f, 1 << 40], &[g])).unwrap();
    assert!(!v.meta.is_attached(1, f));
    assert_eq!(v.meta.counts().unwrap().files, 2);
    let many = vec![g; weft_proto::limits::DETACH_MAX + 1];
    assert!(v.meta.detach(1, &ends(&many, &[])).is_err());
}

fn an_access_time_only_moves_forward_and_changes_nothing_else(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap().id;
    let d = v.mkdir(0, "d", 0o755).unwrap().id;
    let before = [v.stat(0, "f").unwrap(), v.stat(0, "d").unwrap()];
    let published = v.meta.changes().published();
    let request = |times: &[(u64, i64)]| DetachRequest {
        accessed: times
            .iter()
            .map(|(file, time)| Accessed {
                file: *file,
                time: *time,
            })
            .collect(),
        ..DetachRequest::default()
    };
    let late = before[0].accessed + 1000;
    let times = [(f, late), (1 << 40, late), (d, late + 1)];
    v.meta.detach(1, &request(&times)).unwrap();
    v.meta.detach(1, &request(&[(f, late - 1)])).unwrap();
    let after = [v.stat(0, "f").unwrap(), v.stat(0, "d").unwrap()];
    for (accessed, (before, after)) in (late..).zip(before.into_iter().zip(after)) {
        assert_eq!(after, Attributes { accessed, ..before });
    }
    assert_eq!(
        v.meta.changes().published(),
        published,
        "no watcher is notified"
    );
    let many: Vec<_> = (0..=weft_proto::limits::DETACH_MAX as u64)
        .map(|file| (file, 1))
        .collect();
    assert!(v.meta.detach(1, &request(&many)).is_err());
}

fn set_group_id_without_group_execution_stays_for_members(v: &mut Volume) {
    let id = v.create(0, "f", 0o666).unwrap().id;
    let gid = v.stat(0, "f").unwrap().gid;
    let stripped = |v: &mut Volume, uid, groups: &[u32]| {
        v.chmod(0, "f", 0o6666).unwrap();
        let request = SetAttributesRequest {
            who: Credentials {
                uid,
                gid: 999,
                groups: groups.to_vec(),
            },
            target: by_id(id),
            kill_priv: true,
            ..SetAttributesRequest::default()
        };
        v.meta.set_attributes(9, &request).unwrap().attributes.mode
    };
    assert_eq!(stripped(v, 7, &[]), 0o666);
    assert_eq!(stripped(v, 7, &[gid]), 0o2666);
    assert_eq!(
        stripped(v, 0, &[]),
        0o2666,
        "root acts for an unknown caller"
    );
}

fn a_lease_is_granted_for_an_empty_directory_only(v: &mut Volume) {
    let d = v.mkdir(0, "d", 0o755).unwrap().id;
    assert!(v.meta.lease(1, d).unwrap());
    v.create(0, "d/f", 0o644).unwrap();
    assert!(!v.meta.lease(1, d).unwrap());
}
