//! `weft server`: what an administrator does about single servers.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use weft_client::{ServerId, ServerState, Volume};

use crate::args::Global;
use crate::remote::{connect, servers};
use crate::terminal::output;

/// How long a server may take to hear that it is accepted: some heartbeats.
const HEARS: Duration = Duration::from_secs(10);

/// Look after single servers
#[derive(Args)]
pub(crate) struct Server {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    AcceptRollback(AcceptRollback),
}

/// Take in a server whose folder is older than what the server said before
///
/// A server whose folder was replaced by an older copy is refused: nothing of it is read or
/// written. If there is no newer copy, this takes the server as it is. What was written to it since
/// the copy was made is lost, and nothing tells which files that were: reading what the server
/// holds is an error until it is written anew, the file is restored or removed, or its bytes are
/// accepted as they are. What checkpoints hold stays readable. `weft status` and `weft fsck` say
/// what is left to decide.
#[derive(Args)]
#[command(after_help = "Examples:
  weft status                           says which server is refused
  weft server accept-rollback 2
  weft server accept-rollback metadata  the folder of the metadata service was replaced
  weft fsck                             which files are in doubt
  weft fsck --accept /data/run7         takes a file's bytes as they are
  weft fsck --accept-server 2           takes all that the server has")]
struct AcceptRollback {
    /// The server's id, or `metadata`
    #[arg(value_name = "ID")]
    node: String,
}

impl Server {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        match self.action {
            Action::AcceptRollback(accept) => accept.run(global),
        }
    }
}

/// Waits until the server has heard that it is accepted, with its next heartbeat.
async fn takes_part(volume: &Volume, server: ServerId) -> Result<()> {
    let deadline = Instant::now() + HEARS;
    loop {
        let map = volume.server_map().await?;
        let state = map.servers.iter().find(|s| s.id == server.0);
        if state.is_some_and(|s| s.state() == ServerState::Up) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "server {server} is accepted, and has not heard of it within {} s: `weft status` says whether it runs",
                HEARS.as_secs()
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl AcceptRollback {
    fn run(&self, global: &Global) -> Result<ExitCode> {
        let server = match self.node.as_str() {
            "metadata" => None,
            id => match id.strip_prefix("server-").unwrap_or(id).parse() {
                Ok(number) => Some(ServerId(number)),
                Err(_) => bail!(
                    "`{id}` is no server: give the number that `weft status` shows, or `metadata`"
                ),
            },
        };
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let mut newest = String::new();
            if let Some(server) = server {
                let map = volume.server_map().await?;
                let known = map.servers.iter().find(|s| s.id == server.0);
                let Some(known) = known else {
                    bail!("the volume has no server {server}; `weft status` shows those it has");
                };
                if known.state() != ServerState::RolledBack {
                    bail!("server {server} is not refused: there is nothing to accept");
                }
                newest = servers::newest(known);
            }
            let refused = volume.accept_rollback(server).await?;
            if let Some(server) = server {
                takes_part(&volume, server).await?;
            }
            match server {
                Some(server) => output::line(format!(
                    "server {server} takes part again with the folder that it has{newest}; what was written to it since is lost. Reading what it \
                     holds is an error until that is written anew, restored or accepted: `weft fsck` names those files, `weft fsck --accept FILE` \
                     takes one as it is, and `weft fsck --accept-server {server}` all of them"
                ))?,
                None if refused => output::line(
                    "the metadata service serves the folder that it has; what was changed since that copy was made is lost. The sizes of \
                     files are what the servers say; `weft fsck` names cells of files that have no names here",
                )?,
                None => bail!("the metadata service is not refused: there is nothing to accept"),
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
