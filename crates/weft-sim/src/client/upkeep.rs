//! The work of an operator: scrubs and checks of the whole volume.

use std::time::Duration;

use weft_client::{
    Error, Fault, Found, FsckOptions, ScrubFinding, ScrubRequest, ScrubState, ScrubStatusReply,
    ServerId, Volume,
};

use super::settle::RECOVERY_TIMEOUT;
use super::worker::Client;
use crate::state::now;

impl Client {
    /// Begins a scrub of a server, or lets one go on, and looks what it has found so far.
    pub(super) async fn begin_scrub(&self, volume: &Volume, server: usize) -> Result<(), Error> {
        let request = ScrubRequest {
            run: true,
            rate: 0,
            anew: false,
        };
        let server = ServerId(server as u32);
        let before = volume.scrub_status(server).await?;
        self.judge_scrub(server, &before);
        volume.scrub(server, request).await?;
        Ok(())
    }

    /// Scrubs all servers to the end: what is bad, by server.
    pub(super) async fn scrub_all(
        &self,
        volume: &Volume,
    ) -> Result<Vec<(ServerId, ScrubFinding)>, Error> {
        let request = ScrubRequest {
            run: true,
            rate: 0,
            anew: true,
        };
        let mut bad = Vec::new();
        for server in (0..self.plan.servers as u32).map(ServerId) {
            let begun = now();
            volume.scrub(server, request).await?;
            let done = loop {
                let status = volume.scrub_status(server).await?;
                if status.state() == ScrubState::Done {
                    break status;
                }
                if now() > begun + RECOVERY_TIMEOUT {
                    let wrong = format!("the scrub of server {server} does not end: {status:?}");
                    self.state.lock().note_wrong(wrong);
                    break status;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            self.judge_scrub(server, &done);
            bad.extend(done.findings.into_iter().map(|finding| (server, finding)));
        }
        Ok(bad)
    }

    fn judge_scrub(&self, server: ServerId, status: &ScrubStatusReply) {
        let mut state = self.state.lock();
        if status.bad > 0 && !state.rotten {
            let found = &status.findings;
            state.note_wrong(format!(
                "the scrub of server {server} found bad blocks: {found:?}"
            ));
        }
    }

    /// Runs fsck on a volume that was only left alone and restarted. Where a server lost power, a
    /// file may be shorter there than its close reported, because no client had synced it.
    pub(super) async fn fsck(&self, volume: &Volume) -> Result<(), Error> {
        let options = FsckOptions {
            data: true,
            ..FsckOptions::default()
        };
        let report = volume.fsck(options, &|_| {}).await?;
        let mut state = self.state.lock();
        let explained = |found: &Found| {
            let server = found.finding.server.map(|server| server as usize);
            found.finding.fault == Fault::Short as i32
                && server.is_some_and(|server| state.losses.any_of(server))
        };
        let wrong = report.found.iter().any(|found| !explained(found));
        if !report.unreachable.is_empty() || (wrong && !state.rotten) {
            state.note_wrong(format!("the check of the volume found: {report:?}"));
        }
        Ok(())
    }
}
