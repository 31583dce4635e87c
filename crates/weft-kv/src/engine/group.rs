//! Group commit: many callers share one sync of the disk.
//!
//! A sync that began before a caller arrived may miss that caller's commit, so the caller waits
//! for the next one. A caller that finds no sync running runs it, for all callers that have arrived
//! by then.
//!
//! Invariant: once the disk has failed a sync, nothing here reports success again. The kernel may
//! have dropped the dirty pages, so a later success would prove nothing. A sync that could not
//! begin, for want of a descriptor say, fails its callers only; the next one may succeed.

use std::io;

use parking_lot::{Condvar, Mutex};

use super::transient::is_transient;
use crate::KvError;

/// Why a sync failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyncFailure {
    /// The disk failed it, or the outcome is unknown.
    Permanent(String),
    /// It could not begin, or only the watermark could not be written.
    Transient(String),
}

impl SyncFailure {
    /// Transient if the system may grant later what it refuses now.
    pub(crate) fn of_refusal(error: &io::Error) -> SyncFailure {
        let reason = error.to_string();
        if is_transient(error) {
            SyncFailure::Transient(reason)
        } else {
            SyncFailure::Permanent(reason)
        }
    }
}

#[derive(Debug, Default)]
struct SyncState {
    /// Syncs begun.
    begun: u64,
    /// Syncs that succeeded: all numbers up to this one.
    done: u64,
    running: bool,
    failed: Option<String>,
}

/// The queue in front of one disk sync.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    state: Mutex<SyncState>,
    changed: Condvar,
}

impl GroupCommit {
    /// Returns when a sync that began after this call has succeeded; `sync` runs one.
    pub(crate) fn join(
        &self,
        sync: impl FnOnce() -> Result<(), SyncFailure>,
    ) -> Result<(), KvError> {
        let mut state = self.state.lock();
        let wanted = state.begun + 1;
        loop {
            if let Some(reason) = &state.failed {
                let reason = reason.clone();
                return Err(KvError::Poisoned { reason });
            }
            if state.done >= wanted {
                return Ok(());
            }
            if !state.running {
                break;
            }
            self.changed.wait(&mut state);
        }
        state.running = true;
        state.begun += 1;
        let number = state.begun;
        drop(state);
        // A panic must not leave other callers waiting for ever.
        let guard = UnwindGuard(self);
        let outcome = sync();
        std::mem::forget(guard);
        let mut state = self.state.lock();
        state.running = false;
        let result = match outcome {
            Ok(()) => {
                state.done = number;
                Ok(())
            }
            Err(SyncFailure::Permanent(reason)) => {
                state.failed = Some(reason.clone());
                Err(KvError::Poisoned { reason })
            }
            Err(SyncFailure::Transient(reason)) => Err(KvError::NotSynced { reason }),
        };
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Fails if a sync or commit has failed permanently.
    pub(crate) fn check(&self) -> Result<(), KvError> {
        match &self.state.lock().failed {
            None => Ok(()),
            Some(reason) => Err(KvError::Poisoned {
                reason: reason.clone(),
            }),
        }
    }

    /// Records a failure that happened outside a sync.
    pub(crate) fn poison(&self, reason: String) {
        self.state.lock().failed.get_or_insert(reason);
        self.changed.notify_all();
    }
}

/// Ends a sync that panicked. What it did is unknown.
struct UnwindGuard<'a>(&'a GroupCommit);

impl Drop for UnwindGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.running = false;
        let reason = || "a sync panicked".to_owned();
        state.failed.get_or_insert_with(reason);
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn callers_that_arrive_during_a_sync_share_the_next_one() {
        let group = Arc::new(GroupCommit::default());
        let syncs = Arc::new(AtomicUsize::new(0));
        let entered = Arc::new(Barrier::new(2));
        let leave = Arc::new(Barrier::new(2));
        let first = {
            let (group, syncs) = (group.clone(), syncs.clone());
            let (entered, leave) = (entered.clone(), leave.clone());
            std::thread::spawn(move || {
                group.join(|| {
                    syncs.fetch_add(1, Ordering::SeqCst);
                    entered.wait();
                    leave.wait();
                    Ok(())
                })
            })
        };
        entered.wait();
        let late: Vec<_> = (0..16)
            .map(|_| {
                let (group, syncs) = (group.clone(), syncs.clone());
                std::thread::spawn(move || {
                    group.join(|| {
                        syncs.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    })
                })
            })
            .collect();
        // The callers cannot finish while the first sync runs; give them time to queue behind it.
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(syncs.load(Ordering::SeqCst), 1);
        leave.wait();
        first.join().unwrap().unwrap();
        for thread in late {
            thread.join().unwrap().unwrap();
        }
        assert_eq!(syncs.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_failed_sync_is_never_forgotten() {
        let group = GroupCommit::default();
        group.join(|| Ok(())).unwrap();
        let failed = group.join(|| Err(SyncFailure::Permanent("no more disk".into())));
        assert!(matches!(failed, Err(KvError::Poisoned { .. })));
        let later = group.join(|| Ok(()));
        assert!(matches!(later, Err(KvError::Poisoned { .. })));
        assert!(group.check().is_err());
    }

    #[test]
    fn a_sync_that_could_not_begin_fails_only_its_callers() {
        let group = GroupCommit::default();
        let refused = group.join(|| Err(SyncFailure::Transient("too many open files".into())));
        assert!(matches!(refused, Err(KvError::NotSynced { .. })));
        group.check().unwrap();
        group.join(|| Ok(())).unwrap();
    }

    #[test]
    fn a_sync_that_panics_leaves_no_caller_waiting() {
        let group = Arc::new(GroupCommit::default());
        let panicking = Arc::clone(&group);
        let panicked = std::thread::spawn(move || panicking.join(|| panic!("injected")));
        assert!(panicked.join().is_err());
        let later = group.join(|| Ok(()));
        assert!(matches!(later, Err(KvError::Poisoned { .. })));
    }
}
