//! Settles the sizes of files that are closed and whose last writer did not report them: their
//! payers are charged only then (`docs/design/0011-quotas.md`).

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;
use weft_meta::UnsettledFile;

use crate::limits::{
    SETTLE_BATCH_FILES, SETTLE_INTERVAL, SETTLE_SCAN_INODES, SETTLE_SCAN_PAUSE, SETTLE_TIMEOUT,
};
use crate::meta::MetaService;
use crate::tasks::{OnDrop, stopped};

impl MetaService {
    /// Runs until the node stops.
    pub(in crate::meta) async fn settle_sizes(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        // After a clean shutdown no file's size is unknown.
        let mut scan = self.namespace.recovering().then_some(0);
        let mut again = scan.is_some();
        loop {
            let mut pause = SETTLE_INTERVAL;
            if again && !self.namespace.recovering() {
                // Once more, for files that were inline at the first scan and have been spilled
                // since.
                (scan, again) = (Some(0), false);
            }
            // At once, without waiting for the rest to be settled: bytes written before the crash
            // count for their payers.
            if let Some(from) = scan {
                pause = SETTLE_SCAN_PAUSE;
                scan = self.find_unknown_sizes(from);
            }
            let settled = tokio::select! {
                biased;
                () = &mut stop => return,
                settled = self.settle_noted() => settled,
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                // While a server is down, notes wait for the next round, however many arrive.
                () = self.unknown_sizes.notified(), if settled => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Settles the noted files; false if a server did not answer.
    async fn settle_noted(&self) -> bool {
        let (mut after, mut settled) = (0, true);
        while self.namespace.has_unsettled() {
            let (files, last) = match self.namespace.take_unsettled(after, SETTLE_BATCH_FILES) {
                Ok(taken) => taken,
                Err(error) => {
                    tracing::error!(%error, "cannot list the files whose size is not exact");
                    return false;
                }
            };
            // Files that were noted again wait for the next round.
            let Some(last) = last else { break };
            after = last + 1;
            self.learn_servers();
            let all = join_all(files.iter().map(|file| self.settle_one(file))).await;
            self.notify_watchers();
            settled &= all.into_iter().all(|settled| settled);
        }
        settled
    }

    fn find_unknown_sizes(&self, from: u64) -> Option<u64> {
        self.namespace
            .find_unknown_sizes(from, SETTLE_SCAN_INODES)
            .unwrap_or_else(|error| {
                tracing::error!(%error, "cannot list the files whose size is not exact");
                None
            })
    }

    async fn settle_one(&self, of: &UnsettledFile) -> bool {
        // Dropped before the size is known, also because the node stops: the file is noted again.
        let note_again = OnDrop::new(|| self.namespace.mark_size_unknown(of.file));
        let asked = timeout(SETTLE_TIMEOUT, self.servers.lengths(of.file, &of.layout)).await;
        let lengths = match asked.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(lengths) => lengths,
            Err(reason) => {
                tracing::debug!(file = of.file, %reason, "the size of a file is not known yet");
                return false;
            }
        };
        note_again.disarm();
        if let Err(error) = self.namespace.settle(of.file, lengths.size, lengths.others) {
            tracing::error!(file = of.file, %error, "cannot note the size of a file");
        }
        true
    }
}
