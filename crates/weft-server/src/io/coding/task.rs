//! Finds files to code, as long as the server runs.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use weft_proto::meta::ServerMapReply;
use weft_proto::parity::{ListParityRequest, ParityState};

use super::file::{Failed, code, primaries, tell};
use crate::io::IoService;
use crate::limits::CODING_INTERVAL;

/// Codes the files whose first server this is, when they have not been changed for so long.
pub(crate) async fn code_quiet_files(service: Weak<IoService>, quiet: Duration) {
    let mut coder = Coder {
        quiet,
        told: HashMap::new(),
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
                if let Err(reason) = self.care_for(io, file, map).await {
                    tracing::warn!(
                        file = file.file,
                        reason,
                        "a file was not coded; it will be tried again"
                    );
                }
            }
            if page.next == 0 {
                return Ok(());
            }
            after = page.next;
        }
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
        code(&io.peers, file).await?;
        tracing::info!(file = file.file, "a file is coded");
        Ok(())
    }
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
