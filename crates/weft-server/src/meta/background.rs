//! Background work of the service: what no call waits for.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use weft_meta::MetaError;

use super::MetaService;
use crate::limits::{LAZY_SYNC_DELAY, SESSION_POLL_INTERVAL};
use crate::tasks::{restart_on_panic, stopped};

impl MetaService {
    /// Runs the background work until the node stops.
    pub(crate) async fn run(self: Arc<Self>, stopping: watch::Receiver<bool>) {
        let stopping = || stopping.clone();
        tokio::join!(
            restart_on_panic("housekeeping", || self.housekeeping(stopping())),
            restart_on_panic("intents", || self.run_intents(stopping())),
            restart_on_panic("growth limits", || self.limit_growth(stopping())),
            restart_on_panic("sizes", || self.settle_sizes(stopping())),
            restart_on_panic("forced caution", || self.keep_caution(stopping())),
            restart_on_panic("lazy syncs", || self.sync_lazily(stopping()))
        );
    }

    /// Repeats to the servers which files have forced caution.
    async fn keep_caution(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(SESSION_POLL_INTERVAL) => {}
            }
            self.renew_caution().await;
        }
    }

    /// Syncs soon after a change was acknowledged without a sync.
    async fn sync_lazily(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.unsynced.notified() => {}
            }
            tokio::select! {
                biased;
                // The last changes are synced when the service closes.
                () = &mut stop => return,
                () = tokio::time::sleep(LAZY_SYNC_DELAY) => {}
            }
            if let Err(reason) = self.group.sync().await {
                tracing::error!(%reason, "cannot sync changes that were acknowledged");
            }
        }
    }

    /// Ends the sessions of absent clients, reaps orphans after the grace period, and keeps the
    /// intents going.
    async fn housekeeping(&self, stopping: watch::Receiver<bool>) {
        let grace = self.env.timing.grace;
        let stop = stopped(stopping);
        tokio::pin!(stop);
        let started = Instant::now();
        let every = SESSION_POLL_INTERVAL.min(grace / 4);
        let mut next_try = started;
        let mut orphans_reaped = false;
        let mut absent: Vec<u64> = Vec::new();
        loop {
            if !orphans_reaped && started.elapsed() >= grace {
                // Clients that survived this service have reasserted their open files by now.
                orphans_reaped = logged("reap orphans", &self.namespace.reap_orphans());
                // Set here only.
                let _ = self.recovered.set(());
            }
            for client in self.sessions.ended(grace) {
                self.locks.client_ended(client);
                self.end_leases(client);
                absent.push(client);
            }
            // What fails is tried again, unless the client is back: then it has reasserted its
            // attachments.
            absent.retain(|client| {
                !self.sessions.is_present(*client)
                    && !logged("end a session", &self.namespace.session_ended(*client))
            });
            self.notify_watchers();
            self.read_intents_logged();
            if Instant::now() >= next_try {
                self.learn_servers();
                self.intents.tick();
                next_try = Instant::now() + every;
            }
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.new_intents.notified() => {}
                () = tokio::time::sleep_until(next_try) => {}
            }
        }
    }
}

/// Logs a failure that no caller gets; returns whether it went well.
fn logged<T>(doing: &str, result: &Result<T, MetaError>) -> bool {
    if let Err(error) = result {
        tracing::error!(%error, "cannot {doing}");
    }
    result.is_ok()
}
