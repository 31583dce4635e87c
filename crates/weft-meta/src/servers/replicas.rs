//! Which replicas of a server are in sync, and which of them is the primary: the rules by which a
//! server's record changes (`docs/design/0046-replicas.md`).
//!
//! Invariants: the primary is in sync; a replica leaves the set by a record with a higher term, and
//! the last one never leaves it.

use weft_proto::meta::{ReplicaAddress, ReplicaChange, ReplicaSet};

use super::membership::{drop_left, missing};
use crate::records::record::{ReplicaRecord, ServerRecord};

/// The set of a server with replicas; `None` if it has one store.
pub(super) fn set_of(record: &ServerRecord) -> Option<ReplicaSet> {
    let member = |replica: &ReplicaRecord| ReplicaAddress {
        number: replica.number,
        address: replica.address.clone(),
    };
    (!record.replicas.is_empty()).then(|| ReplicaSet {
        term: record.term,
        primary: record.primary,
        in_sync: record.in_sync.clone(),
        members: record.replicas.iter().map(member).collect(),
        leaving: record
            .replicas
            .iter()
            .filter(|r| r.leaving && missing(record) == 0)
            .map(|r| r.number)
            .collect(),
    })
}

/// The record after a change that one of the replicas asks for; `None` if it may not be made.
pub(super) fn changed(
    record: &ServerRecord,
    caller: u32,
    change: ReplicaChange,
    replica: u32,
) -> Option<ServerRecord> {
    let is_in_sync = |number| record.in_sync.contains(&number);
    let by_primary = caller == record.primary;
    let mut next = record.clone();
    match change {
        ReplicaChange::Remove if by_primary && replica != caller && is_in_sync(replica) => {
            next.in_sync.retain(|number| *number != replica);
        }
        ReplicaChange::Add if by_primary && !is_in_sync(replica) => {
            find(record, replica)?;
            next.in_sync.push(replica);
            next.in_sync.sort_unstable();
        }
        ReplicaChange::TakeOver if !by_primary && is_in_sync(caller) => {
            make_primary(&mut next, caller)?;
            next.in_sync = vec![caller];
        }
        ReplicaChange::HandOver if by_primary && replica != caller && is_in_sync(replica) => {
            // It leaves, and everybody else in sync has the same changes.
            if !find(record, caller)?.leaving || find(record, replica)?.leaving {
                return None;
            }
            make_primary(&mut next, replica)?;
            next.in_sync.retain(|number| *number != caller);
        }
        _ => return None,
    }
    settle(&mut next);
    Some(next)
}

/// The record after a replica reported this store, incarnation and address; `None` if it does not
/// change. `successor`: a replica in sync that is up, in case the primary was started again.
/// `stays`: a backup that was started again stays in sync, because its primary is away.
///
/// A new incarnation may lack what was in flight, or unsynced, when the last one ended: it is not
/// in sync any more, unless nobody else is. If the primary is away, too, one of them may have to do
/// without the other: who is in sync is settled when the primary is back.
pub(super) fn reported(
    record: &ServerRecord,
    report: &ReplicaRecord,
    successor: Option<u32>,
    stays: bool,
) -> Option<ServerRecord> {
    let number = report.number;
    let known = find(record, number)?;
    if known == report {
        if number != record.primary || !record.replicas.iter().any(|r| r.restarted) {
            return None;
        }
        // The primary was only away: what restarted meanwhile may lack changes.
        let mut next = record.clone();
        let restarted = next.replicas.iter().filter(|r| r.restarted);
        let restarted: Vec<u32> = restarted.map(|r| r.number).collect();
        next.in_sync.retain(|n| !restarted.contains(n));
        settle(&mut next);
        return Some(next);
    }
    let mut next = record.clone();
    let is_new = known.incarnation != 0 && known.incarnation != report.incarnation;
    if let Some(replica) = next.replicas.iter_mut().find(|r| r.number == number) {
        replica.clone_from(report);
    }
    if !is_new || !record.in_sync.contains(&number) {
        return Some(next);
    }
    if record.primary != number && stays {
        let replica = next.replicas.iter_mut().find(|r| r.number == number)?;
        replica.restarted = true;
        return Some(next);
    }
    if record.primary != number {
        next.in_sync.retain(|other| *other != number);
    } else if let Some(successor) = successor {
        next.in_sync = vec![successor];
        make_primary(&mut next, successor)?;
    } else {
        // What it acknowledged it has, unless its machine lost power; positions tell.
        next.in_sync = vec![number];
    }
    settle(&mut next);
    Some(next)
}

/// The replicas in sync have changed.
fn settle(record: &mut ServerRecord) {
    record.term += 1;
    for replica in &mut record.replicas {
        replica.restarted &= record.in_sync.contains(&replica.number) && record.in_sync.len() > 1;
    }
    drop_left(record);
}

fn find(record: &ServerRecord, number: u32) -> Option<&ReplicaRecord> {
    record.replicas.iter().find(|r| r.number == number)
}

/// Lets the record describe another replica's store.
fn make_primary(record: &mut ServerRecord, number: u32) -> Option<()> {
    let replica = find(record, number)?.clone();
    record.primary = number;
    record.address = replica.address;
    record.store = replica.store;
    (record.incarnation, record.sequence) = (0, 0);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(number: u32, incarnation: u64) -> ReplicaRecord {
        ReplicaRecord {
            number,
            address: format!("host{number}:1"),
            store: vec![number as u8],
            incarnation,
            ..ReplicaRecord::default()
        }
    }

    fn record(in_sync: &[u32]) -> ServerRecord {
        ServerRecord {
            address: "host0:1".into(),
            store: vec![0],
            incarnation: 10,
            sequence: 99,
            replicas: (0..3).map(|n| replica(n, 10 + u64::from(n))).collect(),
            in_sync: in_sync.to_vec(),
            term: 7,
            ..ServerRecord::default()
        }
    }

    #[test]
    fn the_primary_removes_and_adds_backups_and_nobody_else_does() {
        let all = record(&[0, 1, 2]);
        let without = changed(&all, 0, ReplicaChange::Remove, 1).unwrap();
        assert_eq!((without.term, without.in_sync.clone()), (8, vec![0, 2]));
        let again = changed(&without, 0, ReplicaChange::Add, 1).unwrap();
        assert_eq!((again.term, again.in_sync), (9, vec![0, 1, 2]));
        let refused = [
            (1, ReplicaChange::Remove, 2),
            (0, ReplicaChange::Remove, 0),
            (0, ReplicaChange::Remove, 3),
            (0, ReplicaChange::Add, 1),
            (0, ReplicaChange::Add, 3),
            (0, ReplicaChange::TakeOver, 0),
        ];
        for (caller, change, replica) in refused {
            assert_eq!(changed(&all, caller, change, replica), None, "{change:?}");
        }
    }

    #[test]
    fn only_a_backup_in_sync_takes_over_and_is_alone_then() {
        let next = changed(&record(&[0, 2]), 2, ReplicaChange::TakeOver, 2).unwrap();
        assert_eq!((next.primary, next.in_sync, next.term), (2, vec![2], 8));
        assert_eq!((next.address.as_str(), next.store), ("host2:1", vec![2]));
        assert_eq!((next.incarnation, next.sequence), (0, 0));
        let refused = changed(&record(&[0, 2]), 1, ReplicaChange::TakeOver, 1);
        assert_eq!(refused, None);
    }

    #[test]
    fn a_primary_that_leaves_hands_over_to_one_that_stays() {
        let mut all = record(&[0, 1, 2]);
        assert_eq!(changed(&all, 0, ReplicaChange::HandOver, 1), None);
        all.replicas[0].leaving = true;
        all.replicas[2].leaving = true;
        assert_eq!(changed(&all, 0, ReplicaChange::HandOver, 2), None);
        assert_eq!(changed(&all, 1, ReplicaChange::HandOver, 1), None);
        let next = changed(&all, 0, ReplicaChange::HandOver, 1).unwrap();
        assert_eq!((next.primary, next.in_sync.clone()), (1, vec![1, 2]));
        assert_eq!((next.term, next.address.as_str()), (8, "host1:1"));
        let left: Vec<u32> = next.replicas.iter().map(|r| r.number).collect();
        assert_eq!(left, [1, 2]);
        // The other one goes when the new primary has it removed.
        let next = changed(&next, 1, ReplicaChange::Remove, 2).unwrap();
        assert_eq!((next.replicas.len(), next.in_sync), (1, vec![1]));
    }

    #[test]
    fn a_new_incarnation_is_not_in_sync_unless_nobody_else_is() {
        let all = record(&[0, 1]);
        assert_eq!(reported(&all, &replica(1, 11), None, false), None);
        let backup = reported(&all, &replica(1, 50), None, false).unwrap();
        assert_eq!(
            (backup.term, backup.in_sync, backup.primary),
            (8, vec![0], 0)
        );
        let primary = reported(&all, &replica(0, 50), Some(1), false).unwrap();
        assert_eq!(
            (primary.term, primary.in_sync, primary.primary),
            (8, vec![1], 1)
        );
        assert_eq!(primary.store, [1]);
        // The backup is away: the primary acknowledged nothing that it lacks now.
        let alone = reported(&all, &replica(0, 50), None, false).unwrap();
        assert_eq!((alone.term, alone.in_sync, alone.primary), (8, vec![0], 0));
        // A first report, an address, or one that is not in sync changes no set.
        let mut first = all.clone();
        first.replicas[1].incarnation = 0;
        assert_eq!(
            reported(&first, &replica(1, 50), None, false).unwrap().term,
            7
        );
        let stray = reported(&record(&[0]), &replica(1, 50), None, false).unwrap();
        assert_eq!((stray.term, stray.replicas[1].incarnation), (7, 50));
    }

    #[test]
    fn a_backup_that_restarts_without_its_primary_stays_until_that_is_back() {
        let all = record(&[0, 1]);
        let alone = reported(&all, &replica(1, 50), None, true).unwrap();
        assert_eq!((alone.term, alone.in_sync.clone()), (7, vec![0, 1]));
        // Without the primary it goes on.
        let over = changed(&alone, 1, ReplicaChange::TakeOver, 1).unwrap();
        assert_eq!((over.primary, over.in_sync), (1, vec![1]));
        // The primary was only silent, or was started again, too.
        for incarnation in [10, 60] {
            let next = reported(&alone, &replica(0, incarnation), None, false).unwrap();
            assert_eq!((next.primary, next.in_sync.clone()), (0, vec![0]));
            assert!(!next.replicas.iter().any(|r| r.restarted));
        }
    }
}
