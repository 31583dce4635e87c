//! Finds out the sizes of files that nobody writes any more and whose last writer did not tell
//! them.
//!
//! See `docs/design/0011-quotas.md`: who pays for such a file is charged for it only then.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;
use weft_meta::{Namespace, UnsettledFile};

use super::MetaService;
use crate::node::stopped;

/// Files asked about at a time.
const BATCH: usize = 32;
/// From one look to the next where nothing was noted, or a server does not answer.
const ROUND: Duration = Duration::from_secs(1);
/// How long a file's servers are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Inodes looked at in a row after a crash, and the pause behind them: a fraction of a core's time.
const SCAN: usize = 2048;
const SCAN_PAUSE: Duration = Duration::from_millis(20);

impl MetaService {
    /// Until the node stops.
    pub(super) async fn settle_sizes(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        // Where the last life ended well there is nothing to look for.
        let mut scan = self.namespace.recovering().then_some(0);
        let mut again = scan.is_some();
        loop {
            let mut pause = ROUND;
            if again && !self.namespace.recovering() {
                // What was not known to be such a file then: one that was stored with its inode,
                // and has left it since.
                (scan, again) = (Some(0), false);
            }
            // At once: what was written before the crash counts for who pays, though it is settled
            // later.
            if let Some(from) = scan {
                pause = SCAN_PAUSE;
                scan = self.find_unsettled(from);
            }
            let settled = tokio::select! {
                biased;
                () = &mut stop => return,
                settled = self.settle_noted() => settled,
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                // While a server is away what was noted waits for the next round, however much is
                // noted meanwhile.
                () = self.unsettled.notified(), if settled => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Settles what is noted now; false where a server did not answer.
    async fn settle_noted(&self) -> bool {
        let (mut after, mut settled) = (0, true);
        while self.namespace.has_unsettled() {
            let (files, last) = match self.namespace.take_unsettled(after, BATCH) {
                Ok(taken) => taken,
                Err(error) => {
                    tracing::error!(%error, "cannot look for files whose size is not exact");
                    return false;
                }
            };
            // Those that were put back wait for the next round.
            let Some(last) = last else { break };
            after = last + 1;
            self.learn_servers();
            let all = join_all(files.iter().map(|file| self.settle_one(file))).await;
            self.tell_watchers();
            settled &= all.into_iter().all(|settled| settled);
        }
        settled
    }

    fn find_unsettled(&self, from: u64) -> Option<u64> {
        self.namespace
            .find_unsettled(from, SCAN)
            .unwrap_or_else(|error| {
                tracing::error!(%error, "cannot look for files whose size is not exact");
                None
            })
    }

    async fn settle_one(&self, of: &UnsettledFile) -> bool {
        let again = Again(&self.namespace, of.file);
        let asked = timeout(PATIENCE, self.carrier.lengths(of.file, &of.layout)).await;
        let lengths = match asked.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(lengths) => lengths,
            Err(reason) => {
                tracing::debug!(file = of.file, %reason, "its size is not known yet");
                return false;
            }
        };
        std::mem::forget(again);
        if let Err(error) = self.namespace.settle(of.file, lengths.size, lengths.others) {
            tracing::error!(file = of.file, %error, "cannot note its size");
        }
        true
    }
}

/// A file that was taken; dropped before its size is known, also because the node stops, it is
/// noted again.
struct Again<'a>(&'a Namespace, u64);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.0.unsettle(self.1);
    }
}
