//! The lock table against a model without ranges: the owners of each byte, and the waiting
//! requests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weft_meta::{AcquireOutcome, Family, Lock, LockOwner, LockTable, OnConflict, Span};
use weft_proto::limits::{LOCK_WAITS_MAX, LOCKS_MAX};

/// Bytes of the model.
const BYTES: usize = 12;
const FILES: usize = 2;

fn lock(client: u64, number: u64, exclusive: bool, start: u64, last: u64) -> Lock {
    Lock {
        owner: LockOwner { client, number },
        pid: 1,
        exclusive,
        span: Span { start, last },
    }
}

/// The owners of a byte, each with whether its lock is exclusive.
type Byte = BTreeMap<LockOwner, bool>;
type Place = (usize, usize);

#[derive(Default)]
struct Model {
    /// By file and family.
    bytes: BTreeMap<Place, Vec<Byte>>,
    /// Tickets with the locks that they wait for.
    waiting: BTreeMap<u64, (Place, Lock)>,
}

impl Model {
    fn bytes(&mut self, place: Place) -> &mut Vec<Byte> {
        let empty = || vec![Byte::new(); BYTES];
        self.bytes.entry(place).or_insert_with(empty)
    }

    fn blockers(&mut self, place: Place, wanted: &Lock) -> Vec<LockOwner> {
        let (from, to) = (wanted.span.start as usize, wanted.span.last as usize);
        let mut found = Vec::new();
        for byte in &self.bytes(place)[from..=to] {
            for (owner, exclusive) in byte {
                if *owner != wanted.owner && (*exclusive || wanted.exclusive) {
                    found.push(*owner);
                }
            }
        }
        found
    }

    fn set(&mut self, place: Place, owner: LockOwner, span: Span, kind: Option<bool>) {
        for byte in &mut self.bytes(place)[span.start as usize..=span.last as usize] {
            match kind {
                Some(exclusive) => byte.insert(owner, exclusive),
                None => byte.remove(&owner),
            };
        }
    }

    /// Grants all requests that can be granted, oldest first.
    fn grant(&mut self) -> Vec<u64> {
        let mut granted = Vec::new();
        loop {
            let waiting: Vec<_> = self.waiting.iter().map(|(t, w)| (*t, *w)).collect();
            let free = waiting
                .into_iter()
                .find(|(_, (place, wanted))| self.blockers(*place, wanted).is_empty());
            let Some((ticket, (place, wanted))) = free else {
                return granted;
            };
            self.waiting.remove(&ticket);
            self.set(place, wanted.owner, wanted.span, Some(wanted.exclusive));
            granted.push(ticket);
        }
    }

    /// Whether waiting would close a cycle, by trying all paths.
    fn circle(&mut self, place: Place, wanted: &Lock) -> bool {
        let mut reached: Vec<LockOwner> = self.blockers(place, wanted);
        loop {
            let mut more = reached.clone();
            for (_, (place, waits)) in self.waiting.clone() {
                if place.1 == 1 && reached.contains(&waits.owner) {
                    more.extend(self.blockers(place, &waits));
                }
            }
            more.sort_unstable();
            more.dedup();
            if more == reached {
                return reached.contains(&wanted.owner);
            }
            reached = more;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Lock {
        place: Place,
        lock: Lock,
        wait: bool,
    },
    Unlock {
        place: Place,
        lock: Lock,
    },
    ReleaseOwner {
        file: usize,
        lock: Lock,
    },
    ReleaseFile {
        file: usize,
        client: u64,
    },
    ReleaseClient {
        client: u64,
    },
    Cancel {
        nth: usize,
    },
}

fn family(place: Place) -> Family {
    [Family::Whole, Family::Range][place.1]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let last = BYTES as u64 - 1;
    let place = (0..FILES, 0..2_usize);
    let one = (1..3_u64, 1..3_u64, any::<bool>(), 0..=last, 0..=last);
    let one = one.prop_map(|(client, number, exclusive, a, b)| {
        lock(client, number, exclusive, a.min(b), a.max(b))
    });
    let whole = move |place: Place, mut lock: Lock| {
        if place.1 == 0 {
            lock.span = Span { start: 0, last };
        }
        lock
    };
    let step = prop_oneof![
        8 => (place.clone(), one.clone(), any::<bool>()).prop_map(move |(place, lock, wait)| {
            Step::Lock { place, lock: whole(place, lock), wait }
        }),
        4 => (place, one.clone()).prop_map(move |(place, lock)| {
            Step::Unlock { place, lock: whole(place, lock) }
        }),
        1 => (0..FILES, one).prop_map(|(file, lock)| Step::ReleaseOwner { file, lock }),
        1 => (0..FILES, 1..3_u64).prop_map(|(file, client)| Step::ReleaseFile { file, client }),
        1 => (1..3_u64).prop_map(|client| Step::ReleaseClient { client }),
        2 => (0..4_usize).prop_map(|nth| Step::Cancel { nth }),
    ];
    prop::collection::vec(step, 1..60)
}

struct Pair {
    table: LockTable,
    model: Model,
}

impl Pair {
    fn lock(&mut self, place: Place, wanted: Lock, wait: bool) {
        let Pair { table, model } = self;
        let file = place.0 as u64;
        let blocker = table.blocker(file, family(place), &wanted);
        let on_conflict = if wait {
            OnConflict::Wait
        } else {
            OnConflict::Fail
        };
        let (outcome, granted) = table.lock(file, family(place), wanted, on_conflict);
        let mut freed = Vec::new();
        if place.1 == 0 {
            let own = model.bytes(place)[0].get(&wanted.owner).copied();
            if own == Some(wanted.exclusive) {
                assert_eq!((outcome, granted), (AcquireOutcome::Granted, vec![]));
                return;
            }
            model.set(place, wanted.owner, wanted.span, None);
            freed = model.grant();
        }
        let blockers = model.blockers(place, &wanted);
        if place.1 == 1 {
            assert_eq!(blocker.is_none(), blockers.is_empty());
        }
        match outcome {
            AcquireOutcome::Granted => {
                assert!(blockers.is_empty(), "granted beside {blockers:?}");
                model.set(place, wanted.owner, wanted.span, Some(wanted.exclusive));
                freed.extend(model.grant());
            }
            AcquireOutcome::Blocked(by) => {
                assert!(!wait && blockers.contains(&by.owner));
            }
            AcquireOutcome::Deadlock => {
                assert!(wait && place.1 == 1);
                assert!(model.circle(place, &wanted), "this wait is no deadlock");
            }
            AcquireOutcome::Waits(ticket) => {
                assert!(wait && !blockers.is_empty());
                assert!(
                    place.1 == 0 || !model.circle(place, &wanted),
                    "missed a deadlock"
                );
                model.waiting.insert(ticket, (place, wanted));
            }
            AcquireOutcome::TooMany => panic!("the model stays below the bounds"),
        }
        assert_eq!(granted, freed);
    }

    fn step(&mut self, step: &Step) {
        let all = Span {
            start: 0,
            last: BYTES as u64 - 1,
        };
        let granted = match step {
            Step::Lock { place, lock, wait } => return self.lock(*place, *lock, *wait),
            Step::Unlock { place, lock } => {
                self.model.set(*place, lock.owner, lock.span, None);
                let file = place.0 as u64;
                self.table
                    .unlock(file, family(*place), lock.owner, lock.span)
            }
            Step::ReleaseOwner { file, lock } => {
                self.model.set((*file, 0), lock.owner, all, None);
                self.model.set((*file, 1), lock.owner, all, None);
                self.table.release_owner(*file as u64, lock.owner)
            }
            Step::ReleaseFile { file, client } => {
                for number in 1..3 {
                    let owner = lock(*client, number, false, 0, 0).owner;
                    self.model.set((*file, 0), owner, all, None);
                    self.model.set((*file, 1), owner, all, None);
                }
                self.table.release_file(*client, *file as u64)
            }
            Step::ReleaseClient { client } => {
                self.model
                    .waiting
                    .retain(|_, (_, wanted)| wanted.owner.client != *client);
                for place in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    for number in 1..3 {
                        let owner = lock(*client, number, false, 0, 0).owner;
                        self.model.set(place, owner, all, None);
                    }
                }
                self.table.release_client(*client)
            }
            Step::Cancel { nth } => {
                let ticket = self.model.waiting.keys().nth(*nth).copied();
                if let Some(ticket) = ticket {
                    self.model.waiting.remove(&ticket);
                    assert!(self.table.cancel(ticket));
                    assert!(
                        !self.table.cancel(ticket),
                        "a request can be cancelled only once"
                    );
                }
                return;
            }
        };
        let mut granted = granted;
        let mut freed = self.model.grant();
        // The order over several files is not defined.
        granted.sort_unstable();
        freed.sort_unstable();
        assert_eq!(granted, freed);
    }

    /// Compares byte by byte, and expects no more locks than needed.
    fn check(&mut self) {
        for place in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let held = self.table.held(place.0 as u64, family(place));
            let mut bytes = vec![Byte::new(); BYTES];
            for lock in &held {
                let to = (lock.span.last as usize).min(BYTES - 1);
                for byte in &mut bytes[lock.span.start as usize..=to] {
                    let before = byte.insert(lock.owner, lock.exclusive);
                    assert_eq!(before, None, "an owner's locks overlap");
                }
            }
            assert_eq!(&bytes, self.model.bytes(place));
            let joined = |a: &&Lock| {
                held.iter().any(|b| {
                    a.owner == b.owner
                        && a.exclusive == b.exclusive
                        && a.span.last.checked_add(1) == Some(b.span.start)
                })
            };
            assert_eq!(
                held.iter().find(joined),
                None,
                "two adjacent locks were not merged"
            );
        }
        let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let total: usize = places
            .iter()
            .map(|p| self.table.held(p.0 as u64, family(*p)).len())
            .sum();
        assert_eq!(self.table.len(), total);
    }
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_byte_by_byte_model(steps in steps()) {
        let mut pair = Pair { table: LockTable::default(), model: Model::default() };
        for step in &steps {
            pair.step(step);
            pair.check();
        }
    }
}

#[test]
fn whole_file_locks_and_range_locks_do_not_conflict() {
    let mut table = LockTable::default();
    let all = lock(1, 1, true, 0, u64::MAX);
    assert_eq!(
        table.lock(7, Family::Whole, all, OnConflict::Fail).0,
        AcquireOutcome::Granted
    );
    let other = lock(2, 1, true, 0, u64::MAX);
    assert_eq!(
        table.lock(7, Family::Range, other, OnConflict::Fail).0,
        AcquireOutcome::Granted
    );
    assert_eq!(
        table.lock(7, Family::Whole, other, OnConflict::Fail).0,
        AcquireOutcome::Blocked(all)
    );
}

#[test]
fn a_request_that_would_deadlock_is_refused() {
    let mut table = LockTable::default();
    let (a, b) = (lock(1, 1, true, 0, 0), lock(2, 1, true, 1, 1));
    table.lock(7, Family::Range, a, OnConflict::Wait);
    table.lock(8, Family::Range, b, OnConflict::Wait);
    let waits = table
        .lock(8, Family::Range, lock(1, 1, true, 0, 5), OnConflict::Wait)
        .0;
    assert!(matches!(waits, AcquireOutcome::Waits(_)));
    let closes = table
        .lock(7, Family::Range, lock(2, 1, false, 0, 0), OnConflict::Wait)
        .0;
    assert_eq!(closes, AcquireOutcome::Deadlock);
}

#[test]
fn reasserted_locks_hold_unless_a_conflicting_lock_was_granted() {
    let mut table = LockTable::default();
    let mine = lock(1, 1, true, 0, 9);
    table.lock(7, Family::Range, mine, OnConflict::Fail);
    table.lock(7, Family::Range, lock(1, 2, true, 20, 29), OnConflict::Fail);
    let waiting = table
        .lock(7, Family::Range, lock(2, 1, true, 20, 29), OnConflict::Wait)
        .0;
    let AcquireOutcome::Waits(ticket) = waiting else {
        panic!("the range is held")
    };
    // The second lock is not reasserted: it is released, and granted to the waiting request.
    let (lost, granted) = table.reassert(1, &[(7, Family::Range, mine)]);
    assert_eq!((lost.len(), granted), (0, vec![ticket]));
    let taken = (7, Family::Range, lock(1, 2, true, 20, 29));
    let (lost, granted) = table.reassert(1, &[(7, Family::Range, mine), taken]);
    assert_eq!((lost, granted), (vec![taken], vec![]));
    assert_eq!(table.len(), 2);
    table.release_client(1);
    table.release_client(2);
    assert!(table.is_empty());
}

#[test]
fn locks_and_waits_of_a_client_are_bounded() {
    let mut table = LockTable::default();
    let mut held = 0;
    while table
        .lock(
            7,
            Family::Range,
            lock(1, 1, true, held * 2, held * 2),
            OnConflict::Fail,
        )
        .0
        == AcquireOutcome::Granted
    {
        held += 1;
    }
    assert!(held as usize <= LOCKS_MAX && held as usize > LOCKS_MAX - 4);
    let all = lock(2, 1, true, 0, u64::MAX);
    let mut waits = 0;
    while matches!(
        table.lock(7, Family::Range, all, OnConflict::Wait).0,
        AcquireOutcome::Waits(_)
    ) {
        waits += 1;
    }
    assert_eq!(waits, LOCK_WAITS_MAX);
    assert_eq!(
        table.lock(7, Family::Range, all, OnConflict::Wait).0,
        AcquireOutcome::TooMany
    );
    assert_eq!(
        table.release_client(1).len(),
        waits,
        "all waits of one owner are granted at once"
    );
}
