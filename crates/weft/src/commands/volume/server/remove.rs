//! `weft server remove`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_client::{ConnectOptions, Departure, ServerId, Volume};

use super::local;
use crate::args::Global;
use crate::commands::volume::down::stop_node;
use crate::commands::volume::rebuild::has_host;
use crate::limits::{LEAVE_POLL_INTERVAL, START_LOCK_TIMEOUT};
use crate::remote::connect;
use crate::remote::servers::{NodeState, state_of};
use crate::terminal::{output, progress};
use crate::volume_config::{
    Config, LocalVolume, Marker, NodeName, ServerName, StartLock, lock_in, remove_section,
};

/// Let a replica leave its server, so that its machine can be switched off
///
/// It leaves when all replicas that stay are in sync; one that is lost, or not in sync, leaves at
/// once. The server has one replica less from then on; `weft server drain` gives it another one.
/// Programs go on meanwhile. Interrupting the command stops nothing: the replica leaves as soon as
/// it can, unless `--cancel` takes that back. The last replica of a server cannot be removed.
#[derive(Args)]
#[command(after_help = "Examples:
  weft server remove server-2.1
  weft server remove --cancel server-2.1     it stays after all")]
pub(super) struct Remove {
    #[command(flatten)]
    leaving: Leaving,
}

/// Which replicas leave.
#[derive(Args)]
pub(super) struct Leaving {
    /// The nodes, as `weft server list` shows them
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<ServerName>,
    /// Let them stay after all
    #[arg(long)]
    cancel: bool,
    /// Return at once: they leave when they can
    #[arg(long, conflicts_with = "cancel")]
    no_wait: bool,
}

impl Remove {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode> {
        self.leaving.run(global, Departure::Final)
    }
}

impl Leaving {
    pub(super) fn run(self, global: &Global, departure: Departure) -> Result<ExitCode> {
        let options = connect::options(global)?;
        let here = |node: ServerName| local(global).ok().filter(|c| c.server(node).is_ok());
        connect::block_on(async {
            let volume = Volume::connect(options.clone()).await?;
            let map = volume.server_map().await?;
            let departure = if self.cancel {
                Departure::Cancelled
            } else {
                departure
            };
            for node in &self.nodes {
                if state_of(&map, *node) == NodeState::Unknown {
                    if here(*node).is_some() && !self.cancel {
                        // It has left: what it was is still in the configuration.
                        continue;
                    }
                    bail!("the volume has no {node}: `weft server list` shows its nodes");
                }
                let left = volume
                    .leave_server(ServerId(node.id), node.replica, departure)
                    .await
                    .with_context(|| node.to_string())?;
                match departure {
                    Departure::Cancelled => output::line(format!("{node} stays"))?,
                    _ if left => {}
                    Departure::Succeeded => output::line(format!(
                        "{node} leaves when another replica has joined and is in sync"
                    ))?,
                    Departure::Final => output::line(format!(
                        "{node} leaves when all replicas that stay are in sync"
                    ))?,
                }
            }
            Ok(())
        })?;
        if self.cancel || self.no_wait {
            return Ok(ExitCode::SUCCESS);
        }
        for node in &self.nodes {
            wait_until_left(&options, *node)?;
            if let Some(config) = here(*node) {
                drop_local(&config, *node)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits until a replica has left its server, and shows how far its successors are.
pub(in crate::commands::volume) fn wait_until_left(
    options: &ConnectOptions,
    node: ServerName,
) -> Result<()> {
    let (mut obstacle, mut homeless) = (String::new(), false);
    let shown = progress::of_bytes(&format!("{node} leaves"), None);
    connect::block_on(async {
        let volume = Volume::connect(options.clone()).await?;
        loop {
            let map = volume.server_map().await?;
            let server = map.servers.iter().find(|s| s.id == node.id);
            let replicas = server.map(|s| &s.replicas[..]).unwrap_or_default();
            if server.is_some() && replicas.is_empty() {
                bail!("{node} stays: it is the only store of its server");
            }
            let Some(own) = replicas.iter().find(|r| r.number == node.replica) else {
                break;
            };
            if !own.leaving {
                bail!("{node} stays: its departure was taken back meanwhile");
            }
            let missing = server.is_some_and(|server| server.missing > 0);
            if missing && !homeless && !has_host(&map, node.id) {
                homeless = true;
                output::say(format_args!(
                    "weft: no other machine can take the place of {node}, for want of space or because each has a replica of server {id}: \
                     it waits for a spare or for `weft join --replica-of {id}`",
                    id = node.id
                ));
            }
            if let Some(progress) = replicas.iter().find_map(|r| r.progress.as_ref()) {
                shown.set_length(progress.total);
                shown.set_position(progress.done);
                if !progress.obstacle.is_empty() && obstacle != progress.obstacle {
                    obstacle.clone_from(&progress.obstacle);
                    output::say(format_args!(
                        "weft: {node} cannot leave yet, since another replica cannot catch up: {obstacle}"
                    ));
                }
            }
            tokio::time::sleep(LEAVE_POLL_INTERVAL).await;
        }
        Ok(())
    })?;
    shown.finish_and_clear();
    output::line(format!("{node} has left the volume"))
}

/// Stops a node on this machine that has left, and removes its section.
pub(super) fn drop_local(config: &Config, node: ServerName) -> Result<()> {
    let _lock = StartLock::of_any(&config.base, START_LOCK_TIMEOUT)?;
    let config = &Config::read(&config.path)?;
    if config.server(node).is_err() {
        return Ok(());
    }
    let folder = NodeName::Server(node).folder(config)?;
    let meta = NodeName::Meta.folder(config).ok();
    let pid = |folder: &Path| lock_in(folder).ok().flatten().map(|running| running.pid);
    let own = pid(&folder);
    if own.is_some() && own == meta.as_deref().and_then(pid) {
        return output::line(format!(
            "its process also runs the metadata service: start that alone (`weft serve --role meta`), and remove the section of {node} from {}",
            config.path.display()
        ));
    }
    let here = LocalVolume::of(config.clone());
    if let Some(local) = here.nodes().iter().find(|n| n.name == node.to_string()) {
        stop_node(&here, local, START_LOCK_TIMEOUT)?;
    }
    let path = config.path.display();
    if config.servers.len() == 1 && config.meta.folder.is_none() {
        return output::line(format!(
            "{node} is stopped; {} can be removed",
            config.base.display()
        ));
    }
    let section = if remove_section(config, node)? {
        format!("its section was removed from {path}")
    } else {
        format!("remove its section from {path}")
    };
    if let Some(meta) = meta
        && !Config::read(&config.path)?.server_ids().contains(&node.id)
        && let Some(marker) = Marker::read(&meta)
    {
        marker.without_server(node.id).write(&meta)?;
    }
    output::line(format!(
        "{node} is stopped; {section}; what it held is in {}, which can be removed",
        folder.display()
    ))
}
