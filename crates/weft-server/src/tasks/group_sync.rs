//! Group commit: callers that wait at the same time share one sync.
//!
//! The sync thread starts with the service: if it were started on demand, the system could refuse
//! it, and all callers would wait forever. When a sync panics, its callers get an error and the
//! next sync goes on.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use weft_kv::OrderedKv;

use crate::config::Blocking;

/// Syncs an engine once for all waiting callers.
pub(crate) struct GroupSync {
    syncer: Arc<Syncer>,
    /// `None`: a task of the runtime syncs on demand.
    thread: Option<JoinHandle<()>>,
}

type SyncResult = Result<(), String>;

struct Syncer {
    kv: Arc<dyn OrderedKv>,
    queue: Mutex<SyncQueue>,
    more: Condvar,
    /// Commits up to this one are on stable storage.
    durable: AtomicU64,
}

#[derive(Default)]
struct SyncQueue {
    /// A task is syncing.
    running: bool,
    /// The service is gone: no more callers arrive.
    ended: bool,
    waiting: Vec<oneshot::Sender<SyncResult>>,
}

impl GroupSync {
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn new(kv: Arc<dyn OrderedKv>, blocking: Blocking) -> io::Result<Arc<GroupSync>> {
        let syncer = Arc::new(Syncer {
            kv,
            queue: Mutex::default(),
            more: Condvar::new(),
            durable: AtomicU64::new(0),
        });
        let thread = match blocking {
            Blocking::Inline => None,
            Blocking::Threads => {
                let work = Arc::clone(&syncer);
                let thread = std::thread::Builder::new().name("weft-sync".into());
                Some(thread.spawn(move || work.run_until_ended())?)
            }
        };
        Ok(Arc::new(GroupSync { syncer, thread }))
    }

    /// Returns once everything committed before the call is on stable storage.
    pub(crate) async fn sync(&self) -> SyncResult {
        let (done, answer) = oneshot::channel();
        let begin = {
            let mut queue = self.syncer.queue.lock();
            queue.waiting.push(done);
            !std::mem::replace(&mut queue.running, true)
        };
        if self.thread.is_some() {
            self.syncer.more.notify_one();
        } else if begin {
            let syncer = Arc::clone(&self.syncer);
            tokio::spawn(async move { syncer.run_while_asked() });
        }
        answer
            .await
            .unwrap_or_else(|_| Err("the service is stopping".to_owned()))
    }

    /// The last commit that a sync of this group covered.
    pub(crate) fn durable(&self) -> u64 {
        self.syncer.durable.load(Ordering::Acquire)
    }
}

impl Drop for GroupSync {
    fn drop(&mut self) {
        self.syncer.queue.lock().ended = true;
        self.syncer.more.notify_one();
        if let Some(thread) = self.thread.take() {
            // The last owner closes the engine, and that must be the caller.
            let _ = thread.join();
        }
    }
}

impl Syncer {
    fn run_until_ended(&self) {
        loop {
            let callers = {
                let mut queue = self.queue.lock();
                while queue.waiting.is_empty() {
                    if queue.ended {
                        return;
                    }
                    self.more.wait(&mut queue);
                }
                std::mem::take(&mut queue.waiting)
            };
            self.sync_for(callers);
        }
    }

    fn run_while_asked(&self) {
        loop {
            let callers = {
                let mut queue = self.queue.lock();
                if queue.waiting.is_empty() {
                    queue.running = false;
                    return;
                }
                std::mem::take(&mut queue.waiting)
            };
            self.sync_for(callers);
        }
    }

    fn sync_for(&self, callers: Vec<oneshot::Sender<SyncResult>>) {
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
            Err(_) => Err("the sync panicked; see the log of the metadata service".to_owned()),
        };
        for caller in callers {
            let _ = caller.send(result.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use weft_kv::{Batch, KvError, MemKv, Reader, Transaction};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Its first sync panics and its second fails.
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
    async fn a_sync_that_panics_or_fails_is_reported_to_its_callers_and_the_next_one_succeeds() {
        for blocking in [Blocking::Threads, Blocking::Inline] {
            let kv = Arc::new(Failing(MemKv::new(), AtomicUsize::new(0)));
            let group = GroupSync::new(kv.clone(), blocking).unwrap();
            for expected in ["panicked", "injected", ""] {
                let synced = tokio::time::timeout(TIMEOUT, group.sync()).await.unwrap();
                match synced {
                    Ok(()) => assert_eq!(expected, ""),
                    Err(said) => assert!(said.contains(expected) && !expected.is_empty()),
                }
            }
            drop(group);
            assert_eq!(Arc::strong_count(&kv), 1, "the sync thread has ended");
        }
    }

    #[tokio::test]
    async fn callers_that_wait_at_the_same_time_share_a_sync() {
        let kv = Arc::new(Failing(MemKv::new(), AtomicUsize::new(2)));
        let group = GroupSync::new(kv.clone(), Blocking::Threads).unwrap();
        let all = (0..100).map(|_| group.sync());
        for synced in futures_util::future::join_all(all).await {
            synced.unwrap();
        }
        assert!(kv.1.load(Ordering::Relaxed) < 102);
    }
}
