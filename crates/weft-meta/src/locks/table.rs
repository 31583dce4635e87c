//! All locks of all files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weft_proto::limits::{LOCK_WAITS_MAX, LOCKS_MAX};

use super::lock::{Family, Lock, LockOwner, Span};
use super::ranges::HeldLocks;
use crate::limits::LOCKS_TOTAL_MAX;

/// The tickets of the requests that a release granted.
pub type Granted = Vec<u64>;

/// What a request does where another lock excludes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// It waits.
    Wait,
    /// It is refused.
    Fail,
}

/// The outcome of a request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The lock is held.
    Granted,
    /// This lock excludes it; the request did not want to wait.
    Blocked(Lock),
    /// It waits under this ticket.
    Waits(u64),
    /// The excluding owner waits for this owner already.
    Deadlock,
    /// The bound of held locks or waiting requests is reached.
    TooMany,
}

#[derive(Debug)]
struct Waiter {
    file: u64,
    family: Family,
    wanted: Lock,
}

#[derive(Debug, Default)]
struct FileLocks {
    whole: HeldLocks,
    range: HeldLocks,
    /// Tickets in arrival order.
    waiting: BTreeSet<u64>,
}

impl FileLocks {
    fn held(&self, family: Family) -> &HeldLocks {
        match family {
            Family::Whole => &self.whole,
            Family::Range => &self.range,
        }
    }

    fn held_mut(&mut self, family: Family) -> &mut HeldLocks {
        match family {
            Family::Whole => &mut self.whole,
            Family::Range => &mut self.range,
        }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.range.is_empty() && self.waiting.is_empty()
    }
}

#[derive(Debug, Default)]
struct ClientLocks {
    locks: usize,
    waits: usize,
    /// Files on which it holds or held something.
    files: BTreeSet<u64>,
}

/// The table.
#[derive(Debug, Default)]
pub struct LockTable {
    files: HashMap<u64, FileLocks>,
    waiters: BTreeMap<u64, Waiter>,
    clients: HashMap<u64, ClientLocks>,
    total: usize,
    next_ticket: u64,
}

impl LockTable {
    /// Asks for a lock. Converting a lock of the family [`Family::Whole`] first releases the old
    /// one, even when the new one is not granted, as on Linux; the requests that this grants are
    /// returned, too.
    pub fn lock(
        &mut self,
        file: u64,
        family: Family,
        wanted: Lock,
        on_conflict: OnConflict,
    ) -> (AcquireOutcome, Granted) {
        let mut granted = Vec::new();
        if family == Family::Whole {
            let locks = self.files.get(&file);
            let own = locks.and_then(|f| f.whole.iter().find(|held| held.owner == wanted.owner));
            match own {
                Some(own) if own.exclusive == wanted.exclusive => {
                    return (AcquireOutcome::Granted, granted);
                }
                Some(_) => granted = self.unlock(file, family, wanted.owner, Span::ALL),
                None => {}
            }
        }
        let blocker = self.blocker(file, family, &wanted);
        let outcome = match blocker {
            None if self.full(wanted.owner.client) => AcquireOutcome::TooMany,
            None => {
                self.hold(file, family, wanted);
                // A lock that became shared may make way for others.
                granted.extend(self.grant(file));
                AcquireOutcome::Granted
            }
            Some(blocker) if on_conflict == OnConflict::Fail => AcquireOutcome::Blocked(blocker),
            Some(_) if family == Family::Range && self.closes_cycle(file, &wanted) => {
                AcquireOutcome::Deadlock
            }
            Some(_) => self.wait(file, family, wanted),
        };
        (outcome, granted)
    }

    /// The first lock that excludes this one.
    pub fn blocker(&self, file: u64, family: Family, wanted: &Lock) -> Option<Lock> {
        let held = self.files.get(&file)?.held(family);
        held.blockers(wanted).min_by_key(|b| b.span.start).copied()
    }

    /// Releases a range; releasing nothing is no error. Returns the requests that this grants.
    pub fn unlock(&mut self, file: u64, family: Family, owner: LockOwner, span: Span) -> Granted {
        let Some(locks) = self.files.get_mut(&file) else {
            return Vec::new();
        };
        let more = locks.held_mut(family).clear(owner, span);
        self.count(owner.client, more);
        self.grant(file)
    }

    /// Releases all locks of an owner on a file, in both families.
    pub fn release_owner(&mut self, file: u64, owner: LockOwner) -> Granted {
        let mut granted = self.unlock(file, Family::Whole, owner, Span::ALL);
        granted.extend(self.unlock(file, Family::Range, owner, Span::ALL));
        granted
    }

    /// Releases all locks of a client on a file.
    pub fn release_file(&mut self, client: u64, file: u64) -> Granted {
        let Some(locks) = self.files.get_mut(&file) else {
            return Vec::new();
        };
        let mut released = 0;
        for family in [Family::Whole, Family::Range] {
            let held = locks.held_mut(family);
            released += held.remove(|lock| lock.owner.client == client).len();
        }
        self.count(client, -released.cast_signed());
        if let Some(known) = self.clients.get_mut(&client) {
            known.files.remove(&file);
        }
        self.grant(file)
    }

    /// Releases all locks of a client, and cancels its waiting requests.
    pub fn release_client(&mut self, client: u64) -> Granted {
        let waits = self.waiters.iter();
        let waits = waits.filter(|(_, w)| w.wanted.owner.client == client);
        let waits: Vec<u64> = waits.map(|(ticket, _)| *ticket).collect();
        for ticket in waits {
            self.cancel(ticket);
        }
        let files = self.clients.get(&client).map(|c| c.files.clone());
        let mut granted = Vec::new();
        for file in files.into_iter().flatten() {
            granted.extend(self.release_file(client, file));
        }
        self.clients.remove(&client);
        granted
    }

    /// A client reports all locks that it holds, which replaces what was known of it; its waiting
    /// requests stay. Returns the locks that others exclude by now, and the requests that are
    /// granted.
    pub fn reassert(
        &mut self,
        client: u64,
        locks: &[(u64, Family, Lock)],
    ) -> (Vec<(u64, Family, Lock)>, Granted) {
        let before = self.clients.get(&client).map(|c| c.files.clone());
        let mut touched = before.unwrap_or_default();
        for file in &touched {
            if let Some(locks) = self.files.get_mut(file) {
                locks.whole.remove(|lock| lock.owner.client == client);
                locks.range.remove(|lock| lock.owner.client == client);
            }
        }
        if let Some(known) = self.clients.get_mut(&client) {
            self.total -= std::mem::take(&mut known.locks);
        }
        let mut lost = Vec::new();
        for (file, family, lock) in locks {
            touched.insert(*file);
            if self.full(client) || self.blocker(*file, *family, lock).is_some() {
                lost.push((*file, *family, *lock));
            } else {
                self.hold(*file, *family, *lock);
            }
        }
        // No request is granted before all locks are set: held locks stay held.
        let granted = touched.into_iter().flat_map(|file| self.grant(file));
        let granted = granted.collect();
        (lost, granted)
    }

    /// Cancels a waiting request; false where it was granted or cancelled before.
    pub fn cancel(&mut self, ticket: u64) -> bool {
        let Some(waiter) = self.waiters.remove(&ticket) else {
            return false;
        };
        if let Some(client) = self.clients.get_mut(&waiter.wanted.owner.client) {
            client.waits -= 1;
        }
        if let Some(locks) = self.files.get_mut(&waiter.file) {
            locks.waiting.remove(&ticket);
        }
        self.drop_if_empty(waiter.file);
        true
    }

    /// Locks held by all clients.
    pub fn len(&self) -> usize {
        self.total
    }

    /// Whether no lock is held.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Locks held on a file in a family, in no particular order.
    pub fn held(&self, file: u64, family: Family) -> Vec<Lock> {
        let locks = self.files.get(&file).into_iter();
        locks
            .flat_map(|locks| locks.held(family).iter().copied())
            .collect()
    }

    /// Whether the bounds of held locks are reached. One more range may become three locks.
    fn full(&self, client: u64) -> bool {
        let held = self.clients.get(&client).map_or(0, |c| c.locks);
        held + 2 > LOCKS_MAX || self.total + 2 > LOCKS_TOTAL_MAX
    }

    fn hold(&mut self, file: u64, family: Family, lock: Lock) {
        let client = lock.owner.client;
        let locks = self.files.entry(file).or_default();
        let more = locks.held_mut(family).set(lock);
        self.clients.entry(client).or_default().files.insert(file);
        self.count(client, more);
    }

    fn wait(&mut self, file: u64, family: Family, wanted: Lock) -> AcquireOutcome {
        let client = self.clients.entry(wanted.owner.client).or_default();
        if client.waits >= LOCK_WAITS_MAX {
            return AcquireOutcome::TooMany;
        }
        client.waits += 1;
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let locks = self.files.entry(file).or_default();
        locks.waiting.insert(ticket);
        let waiter = Waiter {
            file,
            family,
            wanted,
        };
        self.waiters.insert(ticket, waiter);
        AcquireOutcome::Waits(ticket)
    }

    /// Grants the requests that no lock excludes any more, oldest first.
    fn grant(&mut self, file: u64) -> Granted {
        let mut granted = Vec::new();
        while let Some((ticket, family, wanted)) = self.first_free(file) {
            self.cancel(ticket);
            // The number of waiting requests is bounded, and so is the excess over the bound here.
            self.hold(file, family, wanted);
            granted.push(ticket);
        }
        self.drop_if_empty(file);
        granted
    }

    /// The oldest request for a lock of this file that no lock excludes.
    fn first_free(&self, file: u64) -> Option<(u64, Family, Lock)> {
        let locks = self.files.get(&file)?;
        locks.waiting.iter().find_map(|ticket| {
            let waiter = self.waiters.get(ticket)?;
            let held = locks.held(waiter.family);
            let free = held.blockers(&waiter.wanted).next().is_none();
            free.then_some((*ticket, waiter.family, waiter.wanted))
        })
    }

    /// Whether an owner that excludes this request waits, directly or through others, for its
    /// owner.
    fn closes_cycle(&self, file: u64, wanted: &Lock) -> bool {
        let mut waits: HashMap<LockOwner, Vec<&Waiter>> = HashMap::new();
        for waiter in self.waiters.values() {
            if waiter.family == Family::Range {
                waits.entry(waiter.wanted.owner).or_default().push(waiter);
            }
        }
        let blockers = |file: u64, wanted: &Lock| -> Vec<LockOwner> {
            let locks = self.files.get(&file);
            let held = locks.map(|locks| locks.range.blockers(wanted).map(|b| b.owner));
            held.into_iter().flatten().collect()
        };
        let mut seen = BTreeSet::new();
        let mut unvisited = blockers(file, wanted);
        while let Some(owner) = unvisited.pop() {
            if owner == wanted.owner {
                return true;
            }
            if seen.insert(owner) {
                for waiter in waits.get(&owner).into_iter().flatten() {
                    unvisited.extend(blockers(waiter.file, &waiter.wanted));
                }
            }
        }
        false
    }

    fn count(&mut self, client: u64, more: isize) {
        self.total = self.total.saturating_add_signed(more);
        if let Some(client) = self.clients.get_mut(&client) {
            client.locks = client.locks.saturating_add_signed(more);
        }
    }

    fn drop_if_empty(&mut self, file: u64) {
        if self.files.get(&file).is_some_and(FileLocks::is_empty) {
            self.files.remove(&file);
        }
    }
}
