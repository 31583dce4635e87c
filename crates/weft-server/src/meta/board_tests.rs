//! What the board gives out when, without any server.

use weft_layout::{FileId, Layout};
use weft_proto::Code;

use super::*;

const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);

fn truncate(number: u64, file: u64, server: ServerId) -> Intent {
    let layout = weft_proto::meta::Layout {
        cells: 1,
        bsu: 4096,
        chunk: 65_536,
        servers: vec![server.0],
        storage: 0,
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

fn read(board: &mut Board, intents: Vec<Intent>) -> Vec<Work> {
    let next = intents.last().map_or(0, Intent::number) + 1;
    let page = OwedPage {
        intents,
        next,
        more: false,
    };
    assert_eq!(board.add(page), []);
    board.take_work()
}

fn refusal(server: ServerId, silent: bool) -> Refusal {
    Refusal {
        server: Some(server),
        silent,
        lasting: !silent,
        code: Code::Io,
        reason: format!("server {server}"),
    }
}

#[test]
fn of_one_file_one_intent_after_the_other_is_begun() {
    let mut board = Board::default();
    let intents = vec![truncate(1, 7, A), truncate(2, 7, A), truncate(3, 8, A)];
    let begun = read(&mut board, intents);
    assert_eq!(begun, [Work::Intent(1), Work::Intent(3)]);
    assert!(matches!(board.standing(2), Standing::Behind(1, 0, None)));
    board.done(1, true);
    assert_eq!(board.take_work(), [Work::Intent(2)]);
    assert!(matches!(board.standing(1), Standing::Done));
    assert!(matches!(board.standing(4), Standing::NotRead));
}

#[test]
fn a_silent_server_is_asked_by_one_intent_at_a_time_and_holds_up_no_other_server() {
    let mut board = Board::default();
    let begun = read(&mut board, vec![truncate(1, 11, A), truncate(2, 12, A)]);
    assert_eq!(begun.len(), 2);
    board.failed(1, &refusal(A, true));
    board.failed(2, &refusal(A, true));
    let more = (3..3000).map(|n| truncate(n, n + 10, if n == 2999 { B } else { A }));
    assert_eq!(read(&mut board, more.collect()), [Work::Intent(2999)]);
    board.tick();
    assert_eq!(board.take_work(), [Work::Intent(1)]);
    board.failed(1, &refusal(A, true));
    assert_eq!(board.take_work(), []);
    // A caller's own is tried at once.
    board.wake(5, true);
    assert_eq!(board.take_work(), [Work::Intent(5)]);
    board.done(5, true);
    assert_eq!(board.take_work().len(), UNDER_WAY);
}

#[test]
fn what_is_refused_waits_for_the_tick_and_is_told_until_it_is_done() {
    let mut board = Board::default();
    read(&mut board, vec![truncate(1, 7, A), truncate(2, 8, A)]);
    board.failed(1, &refusal(A, false));
    board.done(2, true);
    assert_eq!(board.take_work(), [], "a hot loop");
    assert_eq!(board.refused().len(), 1);
    assert!(board.is_refused(1) && !board.is_refused(2));
    board.tick();
    assert_eq!(board.take_work(), [Work::Intent(1)]);
    board.done(1, true);
    assert!(board.refused().is_empty() && board.is_idle());
}

#[test]
fn a_delete_takes_what_is_not_under_way_of_its_file_along() {
    let mut board = Board::default();
    read(&mut board, vec![truncate(1, 7, A)]);
    board.failed(1, &refusal(A, false));
    let begun = read(&mut board, vec![delete(2, 7, &[A, B])]);
    assert_eq!(begun, [Work::Deletes(A), Work::Deletes(B)]);
    assert!(matches!(board.standing(1), Standing::Done));
    board.tick();
    assert_eq!(board.take_work(), []);
}

#[test]
fn deletes_are_done_when_each_of_their_servers_has_come_behind_them() {
    let mut board = Board::default();
    let first = read(
        &mut board,
        (1..2000).map(|n| delete(n, n, &[A, B])).collect(),
    );
    assert_eq!(first, [Work::Deletes(A), Work::Deletes(B)]);
    board.not_deleted(A, (1, 1), refusal(A, true));
    board.deleted(B, 1001, true);
    assert_eq!(board.take_work(), [Work::Deletes(B)]);
    board.deleted(B, 2000, true);
    assert_eq!(board.take_work(), []);
    assert!(!board.is_deleted(1, &[A, B]) && board.is_deleted(1, &[B]));
    // What comes later is no reason to ask a silent server.
    assert_eq!(read(&mut board, vec![delete(2000, 1, &[A])]), []);
    board.tick();
    assert_eq!(board.take_work(), [Work::Deletes(A)]);
    board.deleted(A, 2001, true);
    assert!(board.is_deleted(1999, &[A, B]));
    board.delete_again(A, 1500);
    assert!(!board.is_deleted(1500, &[A]) && board.is_deleted(1499, &[A]));
}
