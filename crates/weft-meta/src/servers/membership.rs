//! Which replicas a server has: the rules by which they join and leave
//! (`docs/design/0047-servers-that-come-and-go.md`).
//!
//! Invariants: numbers are never given twice; one replica stays; no two that stay are in one
//! failure domain.

use weft_proto::meta::{JoinServerRequest, LeaveServerRequest};

use crate::limits::REPLICAS_MAX;
use crate::records::record::{ReplicaRecord, ServerRecord};

/// Why a replica may not join or leave.
type Refusal = &'static str;

/// The record of a server whose replicas can be changed: a server with one store is its own replica
/// 0. `incarnation`: of its store, 0 if it has not reported.
fn with_replicas(record: &ServerRecord, incarnation: u64) -> ServerRecord {
    let mut record = record.clone();
    if record.replicas.is_empty() {
        record.replicas.push(ReplicaRecord {
            number: 0,
            address: record.address.clone(),
            store: record.store.clone(),
            incarnation,
            ..ReplicaRecord::default()
        });
        (record.in_sync, record.primary, record.term) = (vec![0], 0, 1);
    }
    record
}

/// The replicas that stay.
fn staying(record: &ServerRecord) -> usize {
    record.replicas.iter().filter(|r| !r.leaving).count()
}

/// How many replicas a server lacks. Until it lacks none, none of those that leave is allowed to.
pub(super) fn missing(record: &ServerRecord) -> u32 {
    record.wanted.saturating_sub(staying(record) as u32)
}

/// The record after a store joined as a replica, and the number that it got.
pub(super) fn joined(
    record: &ServerRecord,
    incarnation: u64,
    request: &JoinServerRequest,
) -> Result<(ServerRecord, u32), Refusal> {
    let mut next = with_replicas(record, incarnation);
    if request.missing && missing(&next) == 0 {
        return Err("it lacks no replica: another node was quicker, or it is not needed any more");
    }
    if let Some(replaced) = request.replaces {
        let replaced = next.replicas.iter_mut().find(|r| r.number == replaced);
        replaced
            .ok_or("it has no such replica: `weft server list` shows them")?
            .leaving = true;
    }
    let stay: Vec<&ReplicaRecord> = next.replicas.iter().filter(|r| !r.leaving).collect();
    if stay.len() >= REPLICAS_MAX || next.replicas.len() > REPLICAS_MAX {
        return Err("it has as many replicas as a server may have, which is 4");
    }
    if !request.domain.is_empty() && stay.iter().any(|r| r.domain == request.domain) {
        return Err(
            "it has a replica in this failure domain: choose another server, or replace that replica",
        );
    }
    let above = next.replicas.last().map_or(0, |last| last.number + 1);
    let number = above.max(next.next_replica);
    next.next_replica = number + 1;
    next.replicas.push(ReplicaRecord {
        number,
        address: request.address.clone(),
        store: request.store.to_vec(),
        domain: request.domain.clone(),
        ..ReplicaRecord::default()
    });
    next.term += 1;
    settle(&mut next);
    Ok((next, number))
}

/// The record after a replica was told to leave, or to stay; `None` if nothing changes.
/// `incarnation`: of the server's store, 0 if it has not reported.
pub(super) fn told_to_leave(
    record: &ServerRecord,
    incarnation: u64,
    request: &LeaveServerRequest,
) -> Result<Option<ServerRecord>, Refusal> {
    let (number, stay) = (request.replica, request.stay);
    if record.replicas.is_empty() && number == 0 && stay {
        return Ok(None);
    }
    let mut next = with_replicas(record, incarnation);
    let before = staying(&next) as u32;
    let others = next.replicas.iter().filter(|r| r.number != number);
    let others = others.filter(|r| !r.leaving).count();
    let Some(replica) = next.replicas.iter_mut().find(|r| r.number == number) else {
        return Err("it has no such replica: `weft server list` shows them");
    };
    if replica.leaving != stay {
        return Ok(None);
    }
    let domain = replica.domain.clone();
    if !stay && !request.succeeded && others == 0 {
        return Err(
            "no other replica would stay: let another one take its place with `weft server drain`, `weft join --replace`, or `weft server replace`",
        );
    }
    replica.leaving = !stay;
    if request.succeeded {
        next.wanted = next.wanted.max(before);
    } else if !stay {
        next.wanted = next.wanted.saturating_sub(1);
    }
    let stay_too = next.replicas.iter().filter(|r| !r.leaving);
    if stay && stay_too.clone().count() > REPLICAS_MAX {
        return Err("it would have more than 4 replicas: another one has taken its place");
    }
    let in_domain = stay_too.filter(|r| !domain.is_empty() && r.domain == domain);
    if stay && in_domain.count() > 1 {
        return Err("another one has taken its place in its failure domain");
    }
    next.next_replica = next
        .next_replica
        .max(next.replicas.last().map_or(0, |last| last.number + 1));
    next.term += 1;
    settle(&mut next);
    Ok(Some(next))
}

/// The replicas have changed.
fn settle(record: &mut ServerRecord) {
    drop_left(record);
    if missing(record) == 0 {
        record.wanted = 0;
    }
}

/// Drops the replicas that leave and are not in sync.
pub(super) fn drop_left(record: &mut ServerRecord) {
    let in_sync = &record.in_sync;
    record
        .replicas
        .retain(|r| !r.leaving || in_sync.contains(&r.number));
}

#[cfg(test)]
mod tests {
    use super::super::replicas::set_of;
    use super::*;

    fn plain() -> ServerRecord {
        ServerRecord {
            address: "host0:1".into(),
            store: vec![0],
            ..ServerRecord::default()
        }
    }

    fn asking(replaces: Option<u32>, domain: &str) -> JoinServerRequest {
        JoinServerRequest {
            address: "new:1".into(),
            store: vec![9].into(),
            server: Some(0),
            replaces,
            domain: domain.into(),
            missing: false,
        }
    }

    fn told(
        record: &ServerRecord,
        replica: u32,
        stay: bool,
        succeeded: bool,
    ) -> Result<Option<ServerRecord>, Refusal> {
        let request = LeaveServerRequest {
            server: 0,
            replica,
            stay,
            succeeded,
        };
        told_to_leave(record, 7, &request)
    }

    fn numbers(record: &ServerRecord) -> Vec<(u32, bool)> {
        let replicas = record.replicas.iter();
        replicas.map(|r| (r.number, r.leaving)).collect()
    }

    #[test]
    fn a_plain_server_becomes_replica_0_of_itself() {
        let (record, number) = joined(&plain(), 7, &asking(None, "")).unwrap();
        assert_eq!(number, 1);
        assert_eq!(numbers(&record), [(0, false), (1, false)]);
        assert_eq!((record.in_sync.clone(), record.primary), (vec![0], 0));
        let first = &record.replicas[0];
        assert_eq!((first.incarnation, first.address.as_str()), (7, "host0:1"));
        assert_eq!(record.address, "host0:1");
    }

    #[test]
    fn a_replaced_replica_leaves_at_once_unless_it_is_in_sync() {
        let (two, _) = joined(&plain(), 7, &asking(None, "")).unwrap();
        let (record, number) = joined(&two, 7, &asking(Some(1), "")).unwrap();
        assert_eq!(
            (number, numbers(&record)),
            (2, vec![(0, false), (2, false)])
        );
        let (record, _) = joined(&two, 7, &asking(Some(0), "")).unwrap();
        assert_eq!(numbers(&record), [(0, true), (1, false), (2, false)]);
        assert!(joined(&two, 7, &asking(Some(5), "")).is_err());
    }

    #[test]
    fn numbers_are_not_given_again() {
        let (two, _) = joined(&plain(), 7, &asking(None, "")).unwrap();
        let one = told(&two, 1, false, false).unwrap().unwrap();
        assert_eq!(numbers(&one), [(0, false)]);
        let (_, number) = joined(&one, 7, &asking(None, "")).unwrap();
        assert_eq!(number, 2);
    }

    #[test]
    fn one_replica_stays_and_a_mark_can_be_taken_back() {
        assert!(told(&plain(), 0, false, false).is_err());
        let (mut two, _) = joined(&plain(), 7, &asking(None, "")).unwrap();
        two.in_sync = vec![0, 1];
        let marked = told(&two, 0, false, false).unwrap().unwrap();
        assert_eq!(numbers(&marked), [(0, true), (1, false)]);
        assert_eq!(told(&marked, 0, false, false), Ok(None));
        assert!(told(&marked, 1, false, false).is_err());
        // Not if another one has taken its place.
        let mut replaced = marked.clone();
        for replica in &mut replaced.replicas {
            replica.domain = "a".into();
        }
        assert!(told(&replaced, 0, true, false).is_err());
        let back = told(&marked, 0, true, false).unwrap().unwrap();
        assert_eq!(numbers(&back), [(0, false), (1, false)]);
        assert!(back.term > marked.term);
    }

    #[test]
    fn no_two_replicas_are_in_one_domain_and_no_more_than_four() {
        let (two, _) = joined(&plain(), 7, &asking(None, "a")).unwrap();
        assert!(joined(&two, 7, &asking(None, "a")).is_err());
        let (three, _) = joined(&two, 7, &asking(None, "b")).unwrap();
        let (four, _) = joined(&three, 7, &asking(None, "")).unwrap();
        assert!(joined(&four, 7, &asking(None, "")).is_err());
        // In the place of the one that is there.
        let (record, _) = joined(&four, 7, &asking(Some(2), "b")).unwrap();
        assert_eq!(record.replicas.len(), 4);
    }

    #[test]
    fn one_that_has_a_successor_leaves_when_that_has_joined() {
        let marked = told(&plain(), 0, false, true).unwrap().unwrap();
        assert_eq!(numbers(&marked), [(0, true)]);
        assert_eq!((missing(&marked), marked.primary), (1, 0));
        assert_eq!(set_of(&marked).unwrap().leaving, []);
        // Only the first join gets the place.
        let fill = JoinServerRequest {
            missing: true,
            ..asking(None, "")
        };
        let (filled, number) = joined(&marked, 7, &fill).unwrap();
        assert_eq!((number, missing(&filled), filled.wanted), (1, 0, 0));
        assert_eq!(set_of(&filled).unwrap().leaving, [0]);
        assert!(joined(&filled, 7, &fill).is_err());
        // It may be taken back before.
        let back = told(&marked, 0, true, false).unwrap().unwrap();
        assert_eq!((numbers(&back), missing(&back)), (vec![(0, false)], 0));
        assert!(joined(&back, 7, &fill).is_err());
    }

    #[test]
    fn a_lost_one_leaves_at_once_and_its_place_stays_free() {
        let (two, _) = joined(&plain(), 7, &asking(None, "")).unwrap();
        let one = told(&two, 1, false, true).unwrap().unwrap();
        assert_eq!((numbers(&one), missing(&one)), (vec![(0, false)], 1));
        // The next one that leaves has no successor: the server has one replica less.
        let (back, _) = joined(&one, 7, &asking(None, "")).unwrap();
        let (three, _) = joined(&back, 7, &asking(None, "")).unwrap();
        let drained = told(&three, 2, false, true).unwrap().unwrap();
        assert_eq!(missing(&drained), 1);
        let fewer = told(&drained, 3, false, false).unwrap().unwrap();
        assert_eq!((numbers(&fewer), missing(&fewer)), (vec![(0, false)], 1));
    }
}
