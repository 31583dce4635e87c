//! Finds files to code, as long as the server runs.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use weft_proto::meta::{ServerMapReply, ServerState};
use weft_proto::parity::{ListParityRequest, ParityState};

use super::file::{Failed, code, primaries, tell};
use crate::io::IoService;
use crate::limits::{CODING_INTERVAL, CODING_RETRY_MAX};

/// Codes the files whose first server this is, when they have not been changed for so long.
pub(crate) async fn code_quiet_files(service: Weak<IoService>, quiet: Duration) {
    let mut coder = Coder {
        quiet,
        told: HashMap::new(),
        failed: HashMap::new(),
    };
    loop {
        tokio::time::sleep(CODING_INTERVAL.min(quiet.max(Duration::from_millis(200)))).await;
        let Some(io) = service.upgrade() else { return };
        if io
            .store
            .replicas()
            .is_none_or(|replicas| !replicas.serves())
        {
            continue;
        }
        if let Err(reason) = coder.pass(&io).await {
            tracing::debug!(reason, "files with parity cannot be listed");
        }
    }
}

struct Coder {
    quiet: Duration,
    /// The checkpoint of each coded file, and the replicas in sync at the time when the servers
    /// were told of it.
    told: HashMap<u64, (u64, Vec<Vec<u32>>)>,
    /// Files that could not be coded: how often, and when to try again.
    failed: HashMap<u64, (u32, Instant)>,
}

impl Coder {
    async fn pass(&mut self, io: &Arc<IoService>) -> Result<(), Failed> {
        let (peers, mut after) = (&io.peers, 0);
        let mut map = None;
        loop {
            let page = peers.ask_meta(&ListParityRequest { after }).await;
            let page = page.map_err(|e| e.to_string())?;
            for file in &page.files {
                if file.layout.servers.first() != Some(&io.server) {
                    continue;
                }
                if map.is_none() {
                    map = Some(peers.server_map().await.map_err(|e| e.to_string())?);
                }
                let Some(map) = &map else { continue };
                self.try_to_care_for(io, file, map).await;
            }
            if page.next == 0 {
                return Ok(());
            }
            after = page.next;
        }
    }

    /// As [`Coder::care_for`]; after a failure not again for a while.
    async fn try_to_care_for(
        &mut self,
        io: &Arc<IoService>,
        file: &ParityState,
        map: &ServerMapReply,
    ) {
        let failed = self.failed.get(&file.file).copied();
        if failed.is_some_and(|(_, again)| Instant::now() < again) {
            return;
        }
        let Err(reason) = self.care_for(io, file, map).await else {
            self.failed.remove(&file.file);
            return;
        };
        let times = failed.map_or(0, |(times, _)| times);
        let wait = (CODING_INTERVAL * (1 << times.min(10))).min(CODING_RETRY_MAX);
        self.failed
            .insert(file.file, (times + 1, Instant::now() + wait));
        let file = file.file;
        tracing::warn!(file, reason, "a file was not coded; it will be tried again");
    }

    async fn care_for(
        &mut self,
        io: &Arc<IoService>,
        file: &ParityState,
        map: &ServerMapReply,
    ) -> Result<(), Failed> {
        let now = primaries(map, &file.layout.servers);
        if let Some(coded) = &file.coded
            && coded.primaries == now
            && (file.same || file.pinned || file.busy)
        {
            let told = (coded.checkpoint, in_sync(map, &file.layout.servers));
            if self.told.get(&file.file) != Some(&told) {
                tell(&io.peers, file, coded).await?;
                self.told.insert(file.file, told);
            }
            return Ok(());
        }
        let quiet = io.now().0.saturating_sub(file.changed);
        let is_quiet = u128::from(quiet.max(0).unsigned_abs()) >= self.quiet.as_nanos();
        if file.busy || file.pinned || !is_quiet || file.layout.parity == 0 {
            return Ok(());
        }
        if let Some(down) = first_down(map, &file.layout.servers) {
            return Err(format!("server {down} is not up"));
        }
        code(&io.peers, file).await?;
        tracing::info!(file = file.file, "a file is coded");
        Ok(())
    }
}

/// The first server of a file that is not up.
fn first_down(map: &ServerMapReply, servers: &[u32]) -> Option<u32> {
    let is_up = |id: &u32| {
        let server = map.servers.iter().find(|server| server.id == *id);
        server.is_some_and(|server| server.state() == ServerState::Up)
    };
    servers.iter().copied().find(|id| !is_up(id))
}

/// The replicas in sync of each server of a file.
fn in_sync(map: &ServerMapReply, servers: &[u32]) -> Vec<Vec<u32>> {
    let of = |id: &u32| {
        let server = map.servers.iter().find(|server| server.id == *id);
        let replicas = server.map(|server| server.replicas.iter());
        let replicas = replicas.into_iter().flatten().filter(|r| r.in_sync);
        replicas.map(|replica| replica.number).collect()
    };
    servers.iter().map(of).collect()
}
