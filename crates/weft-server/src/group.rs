//! Group commit: callers that wait together share one sync.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use weft_kv::{KvError, OrderedKv};

/// Where blocking work of an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// On the runtime's threads for blocking work.
    Threads,
    /// Right here: for simulation, where an engine's sync is instantaneous.
    Inline,
}

/// Syncs an engine once for all callers that wait.
pub(crate) struct GroupSync {
    kv: Arc<dyn OrderedKv>,
    blocking: Blocking,
    state: Mutex<State>,
    /// Commits up to this one are on stable storage.
    durable: AtomicU64,
}

type Answer = Result<(), String>;

#[derive(Default)]
struct State {
    running: bool,
    waiting: Vec<oneshot::Sender<Answer>>,
}

impl GroupSync {
    pub(crate) fn new(kv: Arc<dyn OrderedKv>, blocking: Blocking) -> Arc<GroupSync> {
        Arc::new(GroupSync {
            kv,
            blocking,
            state: Mutex::default(),
            durable: AtomicU64::new(0),
        })
    }

    /// Returns once everything committed before the call is on stable storage.
    pub(crate) async fn sync(self: &Arc<Self>) -> Answer {
        let (done, answer) = oneshot::channel();
        let start = {
            let mut state = self.lock();
            state.waiting.push(done);
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            let group = self.clone();
            tokio::spawn(async move { group.run().await });
        }
        answer
            .await
            .unwrap_or_else(|_| Err("the service is stopping".to_owned()))
    }

    async fn run(&self) {
        loop {
            let callers = {
                let mut state = self.lock();
                if state.waiting.is_empty() {
                    state.running = false;
                    return;
                }
                std::mem::take(&mut state.waiting)
            };
            let committed = self.kv.committed();
            let result = self.sync_once().await.map_err(|e| e.to_string());
            if result.is_ok() {
                self.durable.fetch_max(committed, Ordering::AcqRel);
            }
            for caller in callers {
                let _ = caller.send(result.clone());
            }
        }
    }

    /// The last commit that a sync of this group covered.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    async fn sync_once(&self) -> Result<(), KvError> {
        match self.blocking {
            Blocking::Inline => self.kv.sync(),
            Blocking::Threads => {
                let kv = self.kv.clone();
                let synced = tokio::task::spawn_blocking(move || kv.sync()).await;
                synced.unwrap_or_else(|e| {
                    Err(KvError::Engine {
                        doing: "sync",
                        reason: e.to_string(),
                    })
                })
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
