//! The servers as the metadata service knows them: which a command names, whether all have
//! registered, and what to do about a node that is refused because its folder is an older copy.

use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Result, bail};
use weft_client::{Server, ServerState, Volume};

use super::connect;
use crate::limits::START_POLL_INTERVAL;
use crate::volume_config::{Config, ServerName};

/// The servers with these numbers, ascending; all of them if none is given.
pub(crate) async fn named(volume: &Volume, numbers: &[u32]) -> Result<Vec<u32>> {
    let map = volume.server_map().await?;
    let mut known: Vec<u32> = map.servers.iter().map(|server| server.id).collect();
    known.sort_unstable();
    if let Some(unknown) = numbers.iter().find(|number| !known.contains(number)) {
        bail!("the volume has no server {unknown}: list its servers with `weft status`");
    }
    let wanted = |number: &u32| numbers.is_empty() || numbers.contains(number);
    Ok(known.into_iter().filter(wanted).collect())
}

/// Waits until every server has registered with the metadata service. Returns the messages about
/// nodes that are refused because their folders are older copies.
pub(crate) fn wait_for_servers(config: &Config, deadline: Instant) -> Result<Vec<String>> {
    let options = weft_client::ConnectOptions::from_folder(&config.base)?;
    connect::block_on(async {
        let volume = Volume::connect(options).await?;
        loop {
            let map = volume.server_map().await?;
            let has: Vec<u32> = map.servers.iter().map(|server| server.id).collect();
            config.check_servers_are(&has, &config.nodes())?;
            let (mut missing, mut refused) = (Vec::new(), Vec::new());
            for server in &map.servers {
                match ServerState::try_from(server.state) {
                    Ok(ServerState::Up) => {}
                    Ok(ServerState::RolledBack) => refused.push(refusal(server)),
                    _ => missing.push(ServerName::of(server.id).to_string()),
                }
                let silent = server.replicas.iter().filter(|r| !r.up);
                missing.extend(silent.map(|r| {
                    let (id, replica) = (server.id, r.number);
                    ServerName { id, replica }.to_string()
                }));
            }
            if missing.is_empty() {
                if map.rolled_back {
                    refused.push(SERVICE_REFUSED.to_owned());
                }
                return Ok(refused);
            }
            if Instant::now() > deadline {
                bail!(
                    "{} did not register with the metadata service: see the logs in {}/log, or wait longer with --wait",
                    missing.join(", "),
                    config.base.display()
                );
            }
            tokio::time::sleep(START_POLL_INTERVAL).await;
        }
    })
}

/// What to do about a refused server.
pub(crate) fn refusal(server: &Server) -> String {
    let (id, newest) = (server.id, newest(server));
    format!(
        "server {id} is refused: its folder is older than what the server reported before{newest}, or a copy of it already runs. Restore \
         the newest copy of the folder; or accept this one with `weft server accept-rollback {id}`: later writes to it are lost, and \
         reading its files fails until each is written again, restored or accepted"
    )
}

/// The age of a refused server's folder, for a message.
pub(crate) fn newest(server: &Server) -> String {
    match u64::try_from(server.newest) {
        Ok(nanos) if nanos > 0 => {
            let time = UNIX_EPOCH + Duration::from_nanos(nanos);
            let time = humantime::format_rfc3339_seconds(time);
            format!(" (its newest bytes were written at {time})")
        }
        _ => String::new(),
    }
}

/// What to do about a refused metadata service.
pub(crate) const SERVICE_REFUSED: &str = "the metadata service is refused: its folder is older than what it told the servers before. Restore the newest copy \
     of the folder; or accept this one with `weft server accept-rollback metadata`: later changes of names and small files are lost";
