//! The servers as the metadata service knows them: which a command names, whether all have
//! registered, and what to do about a node that is refused because its folder is an older copy.

use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Result, bail};
use weft_client::{ConnectOptions, Error, Replica, Server, ServerMapReply, ServerState, Volume};

use super::connect;
use crate::limits::START_POLL_INTERVAL;
use crate::terminal::output;
use crate::volume_config::{Config, NodeName, ServerName};

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
pub(crate) fn wait_for_servers(
    config: &Config,
    nodes: &[NodeName],
    deadline: Instant,
) -> Result<Vec<String>> {
    let options = ConnectOptions::from_folder(&config.base)?;
    connect::block_on(async {
        let connect = async || Volume::connect(options.clone()).await;
        let volume = until_answered(deadline, connect).await?;
        loop {
            let map = until_answered(deadline, async || volume.server_map().await).await?;
            let has: Vec<u32> = map.servers.iter().map(|server| server.id).collect();
            let here = nodes.iter().filter_map(|node| match node {
                NodeName::Server(name) => Some(*name),
                NodeName::Meta => None,
            });
            let servers: Vec<NodeName> = here.clone().map(NodeName::Server).collect();
            config.check_servers_are(&has, &servers)?;
            let (mut missing, mut refused, mut gone) = (Vec::new(), Vec::new(), Vec::new());
            let ids = config.server_ids();
            for server in map.servers.iter().filter(|s| ids.contains(&s.id)) {
                if server.state() == ServerState::RolledBack {
                    refused.push(refusal(server));
                }
            }
            for name in here {
                match state_of(&map, name) {
                    NodeState::Up => {}
                    NodeState::Missing => missing.push(name.to_string()),
                    NodeState::Unknown => gone.push(format!(
                        "{name} is no replica of server {} any more: `weft --volume {} server remove {name}` stops it and removes its section",
                        name.id,
                        config.base.display()
                    )),
                }
            }
            if missing.is_empty() {
                if map.rolled_back {
                    refused.push(SERVICE_REFUSED.to_owned());
                }
                for node in &gone {
                    output::say(node);
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

/// Repeats a call until the metadata service answers: on a busy machine that may take longer than
/// one call waits.
async fn until_answered<T>(
    deadline: Instant,
    call: impl AsyncFn() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match call().await {
            Err(Error::Unreachable { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(START_POLL_INTERVAL).await;
            }
            answer => return answer,
        }
    }
}

/// What the metadata service knows of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeState {
    /// It has reported lately, or is refused.
    Up,
    /// It has not.
    Missing,
    /// The volume has no such node.
    Unknown,
}

/// What the metadata service knows of a server, or of one of its replicas.
pub(crate) fn state_of(map: &ServerMapReply, name: ServerName) -> NodeState {
    let Some(server) = map.servers.iter().find(|s| s.id == name.id) else {
        return NodeState::Unknown;
    };
    let up = if server.replicas.is_empty() {
        let is_up = server.state() != ServerState::Down && server.state() != ServerState::Unknown;
        (name.replica == 0).then_some(is_up)
    } else {
        let replica = server.replicas.iter().find(|r| r.number == name.replica);
        // A refused one has reported.
        let is_refused = server.state() == ServerState::RolledBack;
        replica.map(|r| r.up || r.primary && is_refused)
    };
    match up {
        Some(true) => NodeState::Up,
        Some(false) => NodeState::Missing,
        None => NodeState::Unknown,
    }
}

/// A replica has every acknowledged change, and answers.
pub(crate) const IN_SYNC: &str = "in sync";

/// What a replica is doing.
pub(crate) fn state_of_replica(replica: &Replica) -> &'static str {
    match (replica.in_sync, replica.up) {
        (true, true) => IN_SYNC,
        (true, false) => "does not answer",
        (false, true) => "catching up",
        (false, false) => "away",
    }
}

/// Seconds until a replica that catches up is in sync, if it goes on as until now.
pub(crate) fn seconds_left(replica: &Replica) -> Option<u64> {
    let progress = replica.progress.as_ref().filter(|_| !replica.in_sync)?;
    let rest = u128::from(progress.total.saturating_sub(progress.done));
    let nanos = (u128::from(progress.elapsed) * rest).checked_div(progress.done.into())?;
    u64::try_from(nanos / 1_000_000_000 + 1).ok()
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
