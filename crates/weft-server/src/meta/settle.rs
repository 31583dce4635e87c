//! Finds out the sizes of files that nobody writes any more and whose last writer did not tell them.
//!
//! See `docs/design/0011-quotas.md`: who pays for such a file is charged for it only then.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use weft_meta::UnsettledFile;

use super::MetaService;
use crate::node::stopped;

/// Files asked about at a time.
const BATCH: usize = 32;
/// From one look to the next where nothing was noted, or a server does not answer.
const ROUND: Duration = Duration::from_secs(1);
/// Inodes looked at in a row after a crash, and the pause behind them: a fraction of a core's time.
const SCAN: usize = 2048;
const SCAN_PAUSE: Duration = Duration::from_millis(20);

impl MetaService {
    /// Until the node stops.
    pub(super) async fn settle_sizes(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        // Where the last life ended well there is nothing to look for.
        let mut scan = self.namespace.is_recovering().then_some(0);
        loop {
            let mut pause = ROUND;
            if let Some(from) = scan.filter(|_| !self.namespace.is_recovering()) {
                pause = SCAN_PAUSE;
                scan = self.find_unsettled(from);
            }
            while self.namespace.has_unsettled() && self.settle_some().await {}
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.unsettled.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn find_unsettled(&self, from: u64) -> Option<u64> {
        self.namespace
            .find_unsettled(from, SCAN)
            .unwrap_or_else(|error| {
                tracing::error!(%error, "cannot look for files whose size is not exact");
                None
            })
    }

    /// Settles a batch; false where there was none, or not all servers answered.
    async fn settle_some(&self) -> bool {
        let files = match self.namespace.take_unsettled(BATCH) {
            Ok(files) => files,
            Err(error) => {
                tracing::error!(%error, "cannot look for files whose size is not exact");
                return false;
            }
        };
        if files.is_empty() {
            return false;
        }
        self.learn_servers();
        let all = join_all(files.iter().map(|file| self.settle_one(file))).await;
        self.tell_watchers();
        all.into_iter().all(|settled| settled)
    }

    async fn settle_one(&self, of: &UnsettledFile) -> bool {
        let size = match self.carrier.size(of.file, &of.layout).await {
            Ok(size) => size,
            Err(reason) => {
                tracing::debug!(file = of.file, %reason, "its size is not known yet");
                self.namespace.unsettle(of.file);
                return false;
            }
        };
        if let Err(error) = self.namespace.settle(of.file, size) {
            tracing::error!(file = of.file, %error, "cannot note its size");
        }
        true
    }
}
