//! The pending intents of the service, and the callers that wait for theirs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, RwLock, RwLockReadGuard, RwLockWriteGuard};
use weft_proto::{Code, Failure};

use super::scheduler::{IntentScheduler, Urgency};
use crate::limits::WITHDRAWN_MAX;

/// The scheduler, and why intents were withdrawn.
#[derive(Default)]
pub(in crate::meta) struct Intents {
    scheduler: Mutex<IntentScheduler>,
    /// The scheduler has changed.
    changed: Notify,
    /// Held for reading by each running task, for writing by a repair.
    running: RwLock<()>,
    stopped: AtomicBool,
    /// Why intents were withdrawn, for the callers that wait for them.
    withdrawn: Mutex<BTreeMap<u64, Failure>>,
}

impl Intents {
    /// Changes the scheduler, and wakes the loop that starts its tasks.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut IntentScheduler) -> T) -> T {
        let result = change(&mut self.scheduler.lock());
        self.changed.notify_one();
        result
    }

    /// The scheduler, for reads and for taking its tasks.
    pub(super) fn scheduler(&self) -> MutexGuard<'_, IntentScheduler> {
        self.scheduler.lock()
    }

    /// Completes when the scheduler has changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// No task starts any more: waiting callers are notified.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.scheduler.lock().notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Keeps a repair out while a task runs.
    pub(super) async fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.running.read().await
    }

    /// Waits for the running tasks; none starts while the guard lives.
    pub(in crate::meta) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.running.write().await
    }

    /// Retries refused intents, and probes silent servers.
    pub(in crate::meta) fn tick(&self) {
        self.update(IntentScheduler::tick);
    }

    /// A repair has withdrawn an intent: its caller must not take it for done.
    pub(in crate::meta) fn withdrawn_by_repair(&self, number: u64) {
        let what = "it was withdrawn by a repair, and is not done";
        self.note_withdrawn(number, Failure::new(Code::Unavailable, what));
    }

    pub(super) fn note_withdrawn(&self, number: u64, failure: Failure) {
        let mut withdrawn = self.withdrawn.lock();
        withdrawn.insert(number, failure);
        if withdrawn.len() > WITHDRAWN_MAX {
            withdrawn.pop_first();
        }
    }

    pub(super) fn take_withdrawn(&self, number: u64) -> Option<Failure> {
        self.withdrawn.lock().remove(&number)
    }

    /// Whether a server refuses this intent until an administrator acts.
    pub(in crate::meta) fn is_refused(&self, number: u64) -> bool {
        self.scheduler.lock().is_refused(number)
    }

    /// Starts an intent that a caller waits for.
    pub(super) fn start_now(&self, number: u64) {
        self.update(|scheduler| scheduler.schedule(number, Urgency::Forced));
    }
}

/// A caller that waits for an intent, until it is dropped.
pub(super) struct WaitingCaller<'a> {
    intents: &'a Intents,
    number: u64,
    notify: Arc<Notify>,
}

impl<'a> WaitingCaller<'a> {
    pub(super) fn new(intents: &'a Intents, number: u64) -> WaitingCaller<'a> {
        let notify = intents.scheduler.lock().wait(number);
        WaitingCaller {
            intents,
            number,
            notify,
        }
    }

    /// Completes when the status of the intent may have changed.
    pub(super) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        let mut scheduler = self.intents.scheduler.lock();
        scheduler.forget(self.number, &self.notify);
        drop(scheduler);
        self.intents.withdrawn.lock().remove(&self.number);
    }
}
