//! `weft server accept-rollback`.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::{ServerId, ServerState, Volume};

use crate::args::Global;
use crate::limits::{ACCEPT_TIMEOUT, SERVER_MAP_POLL_INTERVAL};
use crate::remote::{connect, servers};
use crate::terminal::output;

/// Accept a server whose folder was replaced by an older copy
///
/// The volume refuses a server whose folder is older than what the server reported before: none of
/// its data is read or written. If there is no newer copy, this command accepts the server as it
/// is. Writes since the copy was made are lost, and it is not known which files they were in. So
/// reading what the server holds fails until the bytes are written again, the file is restored or
/// removed, or its bytes are accepted as they are. Checkpoints stay readable. `weft status` and
/// `weft fsck` list what is left to decide.
#[derive(Args)]
#[command(after_help = "Examples:
  weft status                           shows which server is refused
  weft server accept-rollback 2
  weft server accept-rollback metadata  if the metadata service's folder was replaced
  weft fsck                             lists the files in doubt
  weft fsck --accept /data/run7         accepts the bytes of one file as they are
  weft fsck --accept-server 2           accepts everything that the server holds")]
pub(super) struct AcceptRollback {
    /// The server's id, or `metadata`
    #[arg(value_name = "ID")]
    node: String,
}

/// Waits until the server is up: its next heartbeat tells it that it is accepted.
async fn wait_until_up(volume: &Volume, server: ServerId) -> Result<()> {
    let deadline = Instant::now() + ACCEPT_TIMEOUT;
    loop {
        let map = volume.server_map().await?;
        let state = map.servers.iter().find(|s| s.id == server.0);
        if state.is_some_and(|s| s.state() == ServerState::Up) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "server {server} is accepted, but has not come up within {} s: check with `weft status` whether it runs",
                ACCEPT_TIMEOUT.as_secs()
            );
        }
        tokio::time::sleep(SERVER_MAP_POLL_INTERVAL).await;
    }
}

impl AcceptRollback {
    pub(super) fn run(&self, global: &Global) -> Result<ExitCode> {
        let server = match self.node.as_str() {
            "metadata" => None,
            id => match id.strip_prefix("server-").unwrap_or(id).parse() {
                Ok(number) => Some(ServerId(number)),
                Err(_) => bail!(
                    "`{id}` is not a server: give the number that `weft status` shows, or `metadata`"
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
                    bail!("the volume has no server {server}: list its servers with `weft status`");
                };
                if known.state() != ServerState::RolledBack {
                    bail!("server {server} is not refused: there is nothing to accept");
                }
                newest = servers::newest(known);
            }
            let refused = volume.accept_rollback(server).await?;
            if let Some(server) = server {
                wait_until_up(&volume, server).await?;
            }
            match server {
                Some(server) => output::line(format!(
                    "server {server} is accepted with the folder that it has{newest}; later writes to it are lost. Reading what it holds \
                     fails until it is written again, restored or accepted: `weft fsck` lists those files, `weft fsck --accept FILE` accepts \
                     one of them, `weft fsck --accept-server {server}` all of them"
                ))?,
                None if refused => output::line(
                    "the metadata service is accepted with the folder that it has; later changes are lost. File sizes are taken from the \
                     servers; `weft fsck` lists the cells of files that have no name",
                )?,
                None => bail!("the metadata service is not refused: there is nothing to accept"),
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
