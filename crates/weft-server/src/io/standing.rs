//! Whether the server takes part in the volume: not before the metadata service has found that the
//! store has all that its server said to be durable before (`docs/design/0022-older-copies.md`).

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use weft_proto::{Code, Failure, Kind};

/// How long a call waits for the comparison: a service that runs answers a heartbeat in
/// milliseconds, and one that starts beside the server within two of its seconds.
const WAIT: Duration = Duration::from_secs(3);

/// How the server stands with the metadata service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The service has not compared yet.
    NotCompared = 0,
    /// It takes part.
    Accepted = 1,
    /// Its store is older than what the server said before.
    RolledBack = 2,
}

/// The standing of a server that runs.
pub(super) struct Stands {
    now: AtomicU8,
    changed: Notify,
}

impl Stands {
    pub(super) fn new(standing: Standing) -> Stands {
        Stands {
            now: AtomicU8::new(standing as u8),
            changed: Notify::new(),
        }
    }

    pub(super) fn set(&self, standing: Standing) {
        self.now.store(standing as u8, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Refuses what a store must not be asked for that may be older than what was promised. A call
    /// that comes before the comparison waits for it.
    pub(super) async fn check(&self, kind: Kind, server: u32) -> Result<(), Failure> {
        if self.now.load(Ordering::Acquire) == Standing::NotCompared as u8 {
            let compared = async {
                loop {
                    let mut changed = std::pin::pin!(self.changed.notified());
                    changed.as_mut().enable();
                    if self.now.load(Ordering::Acquire) != Standing::NotCompared as u8 {
                        return;
                    }
                    changed.await;
                }
            };
            let _ = tokio::time::timeout(WAIT, compared).await;
        }
        let standing = self.now.load(Ordering::Acquire);
        // What tells of the store itself and of nobody's file.
        let harmless = matches!(kind, Kind::Disks | Kind::ScrubStatus);
        if harmless || standing == Standing::Accepted as u8 {
            return Ok(());
        }
        if standing == Standing::NotCompared as u8 {
            let what = "this server has just started, and the metadata service has not compared its store with what the server \
                        said before";
            return Err(Failure::new(Code::Busy, what));
        }
        let what = format!(
            "this server is refused: its folder is older than what the server said before, or belongs to another process that runs. Put the \
             newest copy of the folder back, or take this one by `weft server accept-rollback {server}`: what was written to it since is lost then, and its files are in doubt"
        );
        Err(Failure::new(Code::RolledBack, what))
    }
}
