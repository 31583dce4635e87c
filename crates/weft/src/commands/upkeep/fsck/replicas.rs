//! Whether the replicas of servers agree.

use std::time::Instant;

use anyhow::{Result, bail};
use weft_client::{ScrubRequest, ScrubState, ScrubStatusReply, ServerId, Volume};

use super::rows::{BehindReplica, Row};
use super::words;
use crate::limits::{SCRUB_POLL_INTERVAL, SCRUB_STALL_TIMEOUT};
use crate::remote::servers::state_of_replica;
use crate::volume_config::ServerName;

/// The replicas that lack acknowledged changes; they catch up by themselves.
pub(super) async fn behind(volume: &Volume) -> Result<Vec<BehindReplica>> {
    let mut behind = Vec::new();
    for server in volume.server_map().await?.servers {
        for replica in server.replicas.iter().filter(|r| !r.in_sync) {
            let name = ServerName {
                id: server.id,
                replica: replica.number,
            };
            behind.push(BehindReplica {
                node: name.to_string(),
                state: state_of_replica(replica),
            });
        }
    }
    Ok(behind)
}

/// Compares the replicas of each server, and makes them equal: a row for each server where some
/// differed.
pub(super) async fn compare(volume: &Volume) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for server in volume.server_map().await?.servers {
        if server.replicas.len() < 2 {
            continue;
        }
        let done = scrub(volume, ServerId(server.id)).await?;
        // Another primary may say how an earlier pass of its own has ended.
        let map = volume.server_map().await?;
        let now = map.servers.into_iter().find(|now| now.id == server.id);
        if now.is_none_or(|now| now.address != server.address) {
            bail!(
                "server {}: another replica became its primary meanwhile; run the check again",
                server.id
            );
        }
        if done.replica_bytes > 0 {
            rows.push(words::replicas_differed(server.id, &done));
        }
        if done.bad > done.mended {
            rows.push(words::replicas_are_damaged(server.id, &done));
        }
    }
    Ok(rows)
}

/// Runs the scrub of a server to its end, without a limit on its rate.
async fn scrub(volume: &Volume, server: ServerId) -> Result<ScrubStatusReply> {
    let request = |anew| ScrubRequest {
        run: true,
        rate: u64::MAX,
        anew,
    };
    let mut now = volume.scrub(server, request(true)).await?;
    let mut far = (now.bytes, Instant::now());
    loop {
        match ScrubState::try_from(now.state) {
            Ok(ScrubState::Done) => return Ok(now),
            Ok(ScrubState::Running) => {}
            // It was restarted meanwhile.
            _ => now = volume.scrub(server, request(false)).await?,
        }
        if now.trouble.is_empty() || now.bytes != far.0 {
            far = (now.bytes, Instant::now());
        } else if far.1.elapsed() > SCRUB_STALL_TIMEOUT {
            bail!(
                "server {}: its replicas cannot be compared: {}",
                server.0,
                now.trouble
            );
        }
        tokio::time::sleep(SCRUB_POLL_INTERVAL).await;
        now = volume.scrub_status(server).await?;
    }
}
