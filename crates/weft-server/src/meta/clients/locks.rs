//! Locks: the table of `weft-meta`, and the calls that wait for it.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_meta::{AcquireOutcome, Family, Granted, Lock, LockOwner, LockTable, OnConflict, Span};
use weft_proto::coord::{HeldLock, LockOutcome};

/// The locks of a volume.
#[derive(Default)]
pub(in crate::meta) struct Locks(Mutex<LockState>);

#[derive(Default)]
struct LockState {
    table: LockTable,
    /// The waiting calls, by ticket.
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

/// What a lock call leads to.
pub(in crate::meta) enum LockAnswer {
    /// Its file is not attached by the client.
    NotAttached,
    /// The reply, with the lock that is in the way.
    Ended(LockOutcome, Option<HeldLock>),
    Waits(LockTicket),
}

/// A call that waits for a lock. Its lock must be used, or be returned by [`Locks::abandon`].
pub(in crate::meta) struct LockTicket {
    number: u64,
    granted: oneshot::Receiver<()>,
    file: u64,
    family: Family,
    lock: Lock,
    /// What the owner held in the range before.
    before: Vec<Lock>,
}

impl LockTicket {
    /// Whether the lock was granted; completes when that is decided.
    pub(in crate::meta) async fn granted(&mut self) -> bool {
        (&mut self.granted).await.is_ok()
    }
}

impl LockState {
    fn wake(&mut self, granted: Granted) {
        for ticket in granted {
            if let Some(waiter) = self.waiting.remove(&ticket) {
                // A call that is gone returns the lock itself.
                let _ = waiter.send(());
            }
        }
    }

    /// Returns a lock that was granted to a call that is gone: its owner holds again what it held
    /// in the range before, except where others have locked meanwhile.
    fn take_back(&mut self, file: u64, family: Family, lock: Lock, before: &[Lock]) {
        let mut at = lock.span.start;
        let mut gaps = Vec::new();
        for held in before {
            if at < held.span.start {
                let last = held.span.start - 1;
                gaps.push(Span { start: at, last });
            }
            let (_, granted) = self.table.lock(file, family, *held, OnConflict::Fail);
            self.wake(granted);
            match held.span.last.checked_add(1) {
                Some(next) => at = next,
                None => return self.unlock_spans(file, family, lock.owner, gaps),
            }
        }
        if at <= lock.span.last {
            let last = lock.span.last;
            gaps.push(Span { start: at, last });
        }
        self.unlock_spans(file, family, lock.owner, gaps);
    }

    fn unlock_spans(&mut self, file: u64, family: Family, owner: LockOwner, spans: Vec<Span>) {
        for span in spans {
            let granted = self.table.unlock(file, family, owner, span);
            self.wake(granted);
        }
    }

    /// What the owner of a lock holds in its range, ascending.
    fn before(&self, file: u64, family: Family, lock: &Lock) -> Vec<Lock> {
        if family == Family::Whole {
            return Vec::new();
        }
        let held = self.table.held(file, family).into_iter().filter(|held| {
            held.owner == lock.owner
                && held.span.start <= lock.span.last
                && lock.span.start <= held.span.last
        });
        let clipped = held.map(|held| Lock {
            span: Span {
                start: held.span.start.max(lock.span.start),
                last: held.span.last.min(lock.span.last),
            },
            ..held
        });
        let mut clipped: Vec<Lock> = clipped.collect();
        clipped.sort_by_key(|held| held.span.start);
        clipped
    }
}

impl Locks {
    /// Releases the locks of a client that is gone for good.
    pub(in crate::meta) fn client_ended(&self, client: u64) {
        let mut state = self.0.lock();
        let granted = state.table.release_client(client);
        state.wake(granted);
    }

    /// Releases a client's locks on a file that it no longer has attached.
    pub(in crate::meta) fn detached(&self, client: u64, file: u64) {
        let mut state = self.0.lock();
        let granted = state.table.release_file(client, file);
        state.wake(granted);
    }

    /// A client reasserts its locks. Returns those that others hold by now.
    pub(in crate::meta) fn reassert(
        &self,
        client: u64,
        reasserted: &[HeldLock],
        attached: impl Fn(u64) -> bool,
    ) -> Vec<HeldLock> {
        let mut lost = Vec::new();
        let mut locks = Vec::new();
        for held in reasserted {
            match Lock::from_wire(client, held) {
                Some((family, lock)) if attached(held.file) => {
                    locks.push((held.file, family, lock));
                }
                _ => lost.push(*held),
            }
        }
        let mut state = self.0.lock();
        let (refused, granted) = state.table.reassert(client, &locks);
        state.wake(granted);
        let refused = refused.iter();
        lost.extend(refused.map(|(file, family, lock)| lock.to_wire(*file, *family)));
        lost
    }

    /// Releases all locks of an owner on a file.
    pub(in crate::meta) fn release_owner(&self, file: u64, owner: LockOwner) {
        let mut state = self.0.lock();
        let granted = state.table.release_owner(file, owner);
        state.wake(granted);
    }

    /// Releases the range of a lock.
    pub(in crate::meta) fn unlock(&self, file: u64, family: Family, lock: &Lock) {
        let mut state = self.0.lock();
        let granted = state.table.unlock(file, family, lock.owner, lock.span);
        state.wake(granted);
    }

    /// Takes a lock, or waits for it. `attached` is asked in one step with it, so that the locks of
    /// a file that is detached meanwhile are released.
    pub(in crate::meta) fn lock(
        &self,
        file: u64,
        family: Family,
        lock: Lock,
        on_conflict: OnConflict,
        attached: impl FnOnce() -> bool,
    ) -> LockAnswer {
        let mut state = self.0.lock();
        if !attached() {
            return LockAnswer::NotAttached;
        }
        let before = state.before(file, family, &lock);
        let (outcome, others) = state.table.lock(file, family, lock, on_conflict);
        state.wake(others);
        match outcome {
            AcquireOutcome::Waits(number) => {
                let (sender, granted) = oneshot::channel();
                state.waiting.insert(number, sender);
                LockAnswer::Waits(LockTicket {
                    number,
                    granted,
                    file,
                    family,
                    lock,
                    before,
                })
            }
            AcquireOutcome::Granted => LockAnswer::Ended(LockOutcome::Granted, None),
            AcquireOutcome::Blocked(blocker) => {
                let blocker = blocker.to_wire(file, family);
                LockAnswer::Ended(LockOutcome::Held, Some(blocker))
            }
            AcquireOutcome::Deadlock => LockAnswer::Ended(LockOutcome::Deadlock, None),
            AcquireOutcome::TooMany => LockAnswer::Ended(LockOutcome::TooMany, None),
        }
    }

    /// The caller is gone: stops waiting, or returns the lock if it was granted meanwhile.
    pub(in crate::meta) fn abandon(&self, ticket: LockTicket) {
        let LockTicket {
            number,
            granted: _,
            file,
            family,
            lock,
            before,
        } = ticket;
        let mut state = self.0.lock();
        state.waiting.remove(&number);
        if !state.table.cancel(number) {
            state.take_back(file, family, lock, &before);
        }
    }

    /// The lock that would be in the way of this one.
    pub(in crate::meta) fn blocker(&self, file: u64, family: Family, lock: &Lock) -> Option<Lock> {
        self.0.lock().table.blocker(file, family, lock)
    }
}
