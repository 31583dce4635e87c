//! Group commit: callers that wait together share one sync.
//!
//! The thread that syncs is started with the service: one that is started when it is needed may be
//! one that the system refuses, and then all would wait for ever. A sync that panics is an error of
//! those that waited for it, and the next one goes on.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use weft_kv::OrderedKv;

/// Where blocking work of an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// On threads for blocking work.
    Threads,
    /// Right here: for simulation, where an engine's sync is instantaneous.
    Inline,
}

/// Syncs an engine once for all callers that wait.
pub(crate) struct GroupSync {
    shared: Arc<Shared>,
    /// `None`: a task of the runtime syncs, when there is something to.
    thread: Option<JoinHandle<()>>,
}

type Answer = Result<(), String>;

struct Shared {
    kv: Arc<dyn OrderedKv>,
    state: Mutex<State>,
    more: Condvar,
    /// Commits up to this one are on stable storage.
    durable: AtomicU64,
}

#[derive(Default)]
struct State {
    /// A task syncs.
    running: bool,
    /// No caller comes any more.
    ended: bool,
    waiting: Vec<oneshot::Sender<Answer>>,
}

impl GroupSync {
    /// # Errors
    /// Where the thread cannot be started.
    pub(crate) fn new(kv: Arc<dyn OrderedKv>, blocking: Blocking) -> io::Result<Arc<GroupSync>> {
        let shared = Arc::new(Shared {
            kv,
            state: Mutex::default(),
            more: Condvar::new(),
            durable: AtomicU64::new(0),
        });
        let thread = match blocking {
            Blocking::Inline => None,
            Blocking::Threads => {
                let work = Arc::clone(&shared);
                let thread = std::thread::Builder::new().name("weft-sync".into());
                Some(thread.spawn(move || work.run_until_ended())?)
            }
        };
        Ok(Arc::new(GroupSync { shared, thread }))
    }

    /// Returns once everything committed before the call is on stable storage.
    pub(crate) async fn sync(&self) -> Answer {
        let (done, answer) = oneshot::channel();
        let begin = {
            let mut state = self.shared.lock();
            state.waiting.push(done);
            !std::mem::replace(&mut state.running, true)
        };
        if self.thread.is_some() {
            self.shared.more.notify_one();
        } else if begin {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move { shared.run_while_asked() });
        }
        answer
            .await
            .unwrap_or_else(|_| Err("the service is stopping".to_owned()))
    }

    /// The last commit that a sync of this group covered.
    pub(crate) fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }
}

impl Drop for GroupSync {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.more.notify_one();
        if let Some(thread) = self.thread.take() {
            // The engine is closed by its last owner, and that is to be the caller.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run_until_ended(&self) {
        loop {
            let callers = {
                let mut state = self.lock();
                while state.waiting.is_empty() {
                    if state.ended {
                        return;
                    }
                    let waited = self.more.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
                std::mem::take(&mut state.waiting)
            };
            self.sync_for(callers);
        }
    }

    fn run_while_asked(&self) {
        loop {
            let callers = {
                let mut state = self.lock();
                if state.waiting.is_empty() {
                    state.running = false;
                    return;
                }
                std::mem::take(&mut state.waiting)
            };
            self.sync_for(callers);
        }
    }

    fn sync_for(&self, callers: Vec<oneshot::Sender<Answer>>) {
        let synced = catch_unwind(AssertUnwindSafe(|| {
            let committed = self.kv.committed();
            self.kv.sync().map(|()| committed)
        }));
        let result = match synced {
            Ok(Ok(committed)) => {
                self.durable.fetch_max(committed, Ordering::AcqRel);
                Ok(())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the sync panicked: the service's log says more".to_owned()),
        };
        for caller in callers {
            let _ = caller.send(result.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use weft_kv::{Batch, KvError, MemKv, Reader, Transaction};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Of its syncs the first panics and the second fails.
    struct Failing(MemKv, AtomicUsize);

    impl OrderedKv for Failing {
        fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
            self.0.snapshot()
        }

        fn transact(
            &self,
            work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
        ) -> Result<(), KvError> {
            self.0.transact(work)
        }

        fn write(&self, batch: Batch) -> Result<(), KvError> {
            self.0.write(batch)
        }

        fn committed(&self) -> u64 {
            self.0.committed()
        }

        fn sync(&self) -> Result<(), KvError> {
            match self.1.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("injected"),
                1 => Err(KvError::Engine {
                    doing: "sync",
                    reason: "injected".to_owned(),
                }),
                _ => self.0.sync(),
            }
        }
    }

    #[tokio::test]
    async fn a_sync_that_panics_or_fails_is_an_error_of_its_callers_and_the_next_goes_on() {
        for blocking in [Blocking::Threads, Blocking::Inline] {
            let kv = Arc::new(Failing(MemKv::new(), AtomicUsize::new(0)));
            let group = GroupSync::new(kv.clone(), blocking).unwrap();
            for expected in ["panicked", "injected", ""] {
                let synced = tokio::time::timeout(SOON, group.sync()).await.unwrap();
                match synced {
                    Ok(()) => assert_eq!(expected, ""),
                    Err(said) => assert!(said.contains(expected) && !expected.is_empty()),
                }
            }
            drop(group);
            assert_eq!(Arc::strong_count(&kv), 1, "its thread has ended");
        }
    }

    #[tokio::test]
    async fn callers_that_wait_together_share_a_sync() {
        let kv = Arc::new(Failing(MemKv::new(), AtomicUsize::new(2)));
        let group = GroupSync::new(kv.clone(), Blocking::Threads).unwrap();
        let all = (0..100).map(|_| group.sync());
        for synced in futures_util::future::join_all(all).await {
            synced.unwrap();
        }
        assert!(kv.1.load(Ordering::Relaxed) < 102);
    }
}
