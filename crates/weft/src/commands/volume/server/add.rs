//! `weft server add` and `weft server replace`: nodes in the volume's folder on this machine.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::Volume;

use super::local;
use super::remove::{drop_local, wait_until_left};
use crate::args::Global;
use crate::commands::volume::new_node::{Home, Joined, NewNode, Place, server_of};
use crate::limits::START_LOCK_TIMEOUT;
use crate::remote::connect;
use crate::remote::servers::{NodeState, state_of};
use crate::terminal::output;
use crate::volume_config::{Marker, ServerName, StartLock};

/// Add a server, or a replica of one, on this machine
///
/// Without `--replica-of` it is a new server: new files lie there, too. The node gets a section in
/// weft.toml, is started in the background, and is one of the volume's nodes from then on. `weft
/// join` does the same on another machine.
#[derive(Args)]
#[command(after_help = "Examples:
  weft --volume /srv/volume server add                      a new server
  weft --volume /srv/volume server add --replica-of 0       a replica of server 0
  weft --volume /srv/volume server add --replica-of any --disks /mnt/e")]
pub(super) struct Add {
    /// Become a replica of this server; `any`: of the one that has the fewest
    #[arg(long, value_name = "ID")]
    replica_of: Option<String>,
    /// Only if the server lacks a replica
    #[arg(long, hide = true, requires = "replica_of")]
    missing: bool,
    #[command(flatten)]
    node: NewNode,
}

/// Replace a node by a new one on this machine
///
/// The new node gets all data of the server. When it is in sync, the old one leaves, and can be
/// switched off. The old one may be lost if its server has another replica in sync. Interrupting
/// the command stops nothing: `weft server list` shows how far it is, and the same command goes on
/// waiting, and then removes the old node's section.
#[derive(Args)]
#[command(after_help = "Examples:
  weft --volume /srv/volume server replace server-0.1
  weft --volume /srv/volume server replace server-2 --disks /mnt/new
  weft join meta.host:4700 --key-file volume.key --replace server-2     by a node on another machine")]
pub(super) struct Replace {
    /// The node, as `weft server list` shows it
    node: ServerName,
    #[command(flatten)]
    new: NewNode,
}

impl Add {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode> {
        let config = local(global)?;
        let _lock = StartLock::of_any(&config.base, START_LOCK_TIMEOUT)?;
        let options = connect::options(global)?;
        let replica_of = self.replica_of.clone();
        let place = |map: &_| {
            Ok(match replica_of {
                Some(server) if self.missing => Place::Missing(server_of(&server, map)?),
                Some(server) => Place::ReplicaOf(server_of(&server, map)?),
                None => Place::NewServer,
            })
        };
        let joined = self
            .node
            .join(&options, place, Home::Volume(Box::new(config)))?;
        say_joined(&joined, self.replica_of.is_some())?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Replace {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode> {
        let config = local(global)?;
        let options = connect::options(global)?;
        let map = connect::block_on(async {
            let volume = Volume::connect(options.clone()).await?;
            Ok(volume.server_map().await?)
        })?;
        let replicas = map.servers.iter().filter(|s| s.id == self.node.id);
        let mut replicas = replicas.flat_map(|s| &s.replicas);
        let old = replicas.find(|r| r.number == self.node.replica);
        // An earlier attempt has come so far.
        let has_left =
            state_of(&map, self.node) == NodeState::Unknown && config.server(self.node).is_ok();
        if has_left || old.is_some_and(|r| r.leaving) && !Marker::is_joining(&config.base) {
            if !has_left {
                wait_until_left(&options, self.node)?;
            }
            drop_local(&config, self.node)?;
            return Ok(ExitCode::SUCCESS);
        }
        let joined = {
            let _lock = StartLock::of_any(&config.base, START_LOCK_TIMEOUT)?;
            let place = |_: &_| Ok(Place::Instead(self.node));
            self.new
                .join(&options, place, Home::Volume(Box::new(config)))?
        };
        say_joined(&joined, false)?;
        wait_until_left(&options, self.node)?;
        drop_local(&joined.config, self.node)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reports that a node has joined.
pub(in crate::commands::volume) fn say_joined(joined: &Joined, catches_up: bool) -> Result<()> {
    let Joined {
        name,
        config,
        volume,
    } = joined;
    let address = &config.server(*name)?.address;
    let then = if catches_up {
        "; it gets all data of its server now: `weft server list` shows how far it is"
    } else {
        ""
    };
    output::line(format!(
        "{name} of volume {volume} serves at {address}, and is kept in {}{then}",
        config.base.display()
    ))
}
