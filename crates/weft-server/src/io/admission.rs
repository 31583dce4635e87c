//! Whether the server takes part in the volume: only after the metadata service has found that the
//! store has everything that its server reported as durable before
//! (`docs/design/0022-older-copies.md`).

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;
use weft_proto::{Code, Failure, Kind};

use crate::limits::COMPARISON_TIMEOUT;

/// Whether the metadata service admits the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The service has not compared the store yet.
    NotCompared = 0,
    /// The server takes part.
    Accepted = 1,
    /// The store is older than what the server reported before.
    RolledBack = 2,
}

/// The current admission, and the calls that wait for it.
pub(super) struct AdmissionGate {
    now: AtomicU8,
    changed: Notify,
}

impl AdmissionGate {
    /// Closed until the first comparison.
    pub(super) fn new() -> AdmissionGate {
        AdmissionGate {
            now: AtomicU8::new(Admission::NotCompared as u8),
            changed: Notify::new(),
        }
    }

    pub(super) fn set(&self, admission: Admission) {
        self.now.store(admission as u8, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether the server takes part.
    pub(super) fn is_accepted(&self) -> bool {
        self.now.load(Ordering::Acquire) == Admission::Accepted as u8
    }

    fn is_compared(&self) -> bool {
        self.now.load(Ordering::Acquire) != Admission::NotCompared as u8
    }

    /// Refuses calls on a store that may be older than what was promised. A call that arrives
    /// before the comparison waits for it.
    pub(super) async fn check(&self, kind: Kind, server: u32) -> Result<(), Failure> {
        if !self.is_compared() {
            let _ = tokio::time::timeout(COMPARISON_TIMEOUT, self.compared()).await;
        }
        // One look: it may change meanwhile.
        let now = self.now.load(Ordering::Acquire);
        // These describe the store itself, not any file.
        let harmless = matches!(kind, Kind::Disks | Kind::ScrubStatus);
        if harmless || now == Admission::Accepted as u8 {
            return Ok(());
        }
        if now == Admission::NotCompared as u8 {
            let what = "this server has just started, and the metadata service has not yet compared its store with what the \
                        server reported before";
            return Err(Failure::new(Code::Busy, what));
        }
        let what = format!(
            "this server is refused: its folder is older than what the server reported before, or belongs to another process that runs. Put the \
             newest copy of the folder back, or take this one by `weft server accept-rollback {server}`: what was written to it since is lost then, and its files are in doubt"
        );
        Err(Failure::new(Code::RolledBack, what))
    }

    async fn compared(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_compared() {
                return;
            }
            changed.await;
        }
    }
}
