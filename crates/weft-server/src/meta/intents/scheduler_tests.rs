//! The order in which the scheduler starts intents, without any server.

use weft_layout::{FileId, Layout};
use weft_proto::Code;

use super::*;
use crate::meta::servers::RefusalKind;

const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);

fn truncate(number: u64, file: u64, server: ServerId) -> Intent {
    let layout = weft_proto::meta::Layout {
        cells: 1,
        bsu: 4096,
        chunk: 65_536,
        servers: vec![server.0],
        storage: 0,
        parity: 0,
    };
    Intent::Truncate {
        number,
        file: FileId(file),
        layout: Layout::try_from(&layout).unwrap(),
        size: 0,
    }
}

fn delete(number: u64, file: u64, servers: &[ServerId]) -> Intent {
    Intent::Delete {
        number,
        file: FileId(file),
        servers: servers.to_vec(),
    }
}

fn read(scheduler: &mut IntentScheduler, intents: Vec<Intent>) -> Vec<Task> {
    let next = intents.last().map_or(0, Intent::number) + 1;
    let page = IntentPage {
        intents,
        next,
        more: false,
    };
    assert_eq!(scheduler.add(page), []);
    scheduler.take_tasks()
}

fn refusal(server: ServerId, kind: RefusalKind) -> Refusal {
    Refusal {
        server: Some(server),
        kind,
        code: Code::Io,
        reason: format!("server {server}"),
    }
}

fn silent(server: ServerId) -> Refusal {
    refusal(server, RefusalKind::Silent)
}

fn refused(server: ServerId) -> Refusal {
    refusal(server, RefusalKind::Permanent)
}

#[test]
fn intents_about_one_file_run_one_after_the_other() {
    let mut scheduler = IntentScheduler::default();
    let intents = vec![truncate(1, 7, A), truncate(2, 7, A), truncate(3, 8, A)];
    let started = read(&mut scheduler, intents);
    assert_eq!(started, [Task::Intent(1), Task::Intent(3)]);
    assert!(matches!(
        scheduler.status(2),
        IntentStatus::Behind {
            first: 1,
            tries: 0,
            refusal: None
        }
    ));
    scheduler.done(1, Contact::Answered);
    assert_eq!(scheduler.take_tasks(), [Task::Intent(2)]);
    assert!(matches!(scheduler.status(1), IntentStatus::Done));
    assert!(matches!(scheduler.status(4), IntentStatus::NotRead));
}

#[test]
fn an_unresponsive_server_is_tried_by_one_intent_at_a_time_and_delays_no_other_server() {
    let mut scheduler = IntentScheduler::default();
    let started = read(&mut scheduler, vec![truncate(1, 11, A), truncate(2, 12, A)]);
    assert_eq!(started.len(), 2);
    scheduler.failed(1, &silent(A));
    scheduler.failed(2, &silent(A));
    let more = (3..3000).map(|n| truncate(n, n + 10, if n == 2999 { B } else { A }));
    assert_eq!(read(&mut scheduler, more.collect()), [Task::Intent(2999)]);
    scheduler.tick();
    assert_eq!(scheduler.take_tasks(), [Task::Intent(1)]);
    scheduler.failed(1, &silent(A));
    assert_eq!(scheduler.take_tasks(), []);
    // The intent of a waiting caller is tried at once.
    scheduler.schedule(5, Urgency::Forced);
    assert_eq!(scheduler.take_tasks(), [Task::Intent(5)]);
    scheduler.done(5, Contact::Answered);
    assert_eq!(scheduler.take_tasks().len(), SERVER_INTENTS_MAX);
}

#[test]
fn a_refused_intent_waits_for_the_tick_and_is_reported_until_it_is_done() {
    let mut scheduler = IntentScheduler::default();
    read(&mut scheduler, vec![truncate(1, 7, A), truncate(2, 8, A)]);
    scheduler.failed(1, &refused(A));
    scheduler.done(2, Contact::Answered);
    assert_eq!(scheduler.take_tasks(), [], "no retry before the tick");
    assert_eq!(scheduler.refused().len(), 1);
    assert!(scheduler.is_refused(1) && !scheduler.is_refused(2));
    scheduler.tick();
    assert_eq!(scheduler.take_tasks(), [Task::Intent(1)]);
    scheduler.done(1, Contact::Answered);
    assert!(scheduler.refused().is_empty() && scheduler.is_idle());
}

#[test]
fn a_delete_drops_the_waiting_intents_of_its_file() {
    let mut scheduler = IntentScheduler::default();
    read(&mut scheduler, vec![truncate(1, 7, A)]);
    scheduler.failed(1, &refused(A));
    let started = read(&mut scheduler, vec![delete(2, 7, &[A, B])]);
    assert_eq!(started, [Task::Deletes(A), Task::Deletes(B)]);
    assert!(matches!(scheduler.status(1), IntentStatus::Done));
    scheduler.tick();
    assert_eq!(scheduler.take_tasks(), []);
}

#[test]
fn a_delete_is_done_when_all_its_servers_have_completed_it() {
    let mut scheduler = IntentScheduler::default();
    let first = read(
        &mut scheduler,
        (1..2000).map(|n| delete(n, n, &[A, B])).collect(),
    );
    assert_eq!(first, [Task::Deletes(A), Task::Deletes(B)]);
    scheduler.not_deleted(A, (1, 1), silent(A));
    scheduler.deleted(B, 1001, Contact::Answered);
    assert_eq!(scheduler.take_tasks(), [Task::Deletes(B)]);
    scheduler.deleted(B, 2000, Contact::Answered);
    assert_eq!(scheduler.take_tasks(), []);
    assert!(!scheduler.is_deleted(1, &[A, B]) && scheduler.is_deleted(1, &[B]));
    // A later delete does not retry an unresponsive server.
    assert_eq!(read(&mut scheduler, vec![delete(2000, 1, &[A])]), []);
    scheduler.tick();
    assert_eq!(scheduler.take_tasks(), [Task::Deletes(A)]);
    scheduler.deleted(A, 2001, Contact::Answered);
    assert!(scheduler.is_deleted(1999, &[A, B]));
    scheduler.delete_again(A, 1500);
    assert!(!scheduler.is_deleted(1500, &[A]) && scheduler.is_deleted(1499, &[A]));
}
