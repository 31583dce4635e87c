use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::new_node::{Home, NewNode, Place, server_of};
use super::server::{say_joined, wait_until_left};
use crate::args::Global;
use crate::limits::START_LOCK_TIMEOUT;
use crate::remote::connect;
use crate::volume_config::{FILE, Marker, ServerName, StartLock};

/// Let this machine take part in a running volume: as a new server, or as a replica of one
///
/// The node gets a folder of its own, with a configuration, and is started in the background. `weft
/// up DIR` starts it again after a restart of the machine, `weft down DIR` stops it. No file on
/// another machine is edited.
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft join meta.host:4700 --key-file volume.key                       a new server, which gets new files
  weft join meta.host:4700 --key-file volume.key --replica-of any      a replica of the server that has the fewest
  weft join meta.host:4700 --key-file volume.key --replica-of 2 --domain rack-3
  weft join meta.host:4700 --key-file volume.key --replace server-2    takes the place of a node

It can be repeated with the same folder if it is interrupted.")]
pub(crate) struct Join {
    /// Address of the metadata service, as `weft status` shows it for the node meta
    #[arg(value_name = "HOST:PORT")]
    volume_address: String,
    /// Folder of the node
    #[arg(long, value_name = "DIR", default_value = "weft-server")]
    folder: PathBuf,
    /// Become a replica of this server; `any`: of the one that has the fewest
    #[arg(long, value_name = "ID", conflicts_with = "replace")]
    replica_of: Option<String>,
    /// Become a replica in the place of this node, which leaves when the new one is in sync; it may
    /// be lost if its server has another replica in sync
    #[arg(long, value_name = "NODE")]
    replace: Option<ServerName>,
    #[command(flatten)]
    node: NewNode,
}

impl Join {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let key = global.key().context(
            "the volume's key is needed: copy volume.key to this machine, and name it by --key-file FILE",
        )?;
        let mut global = global.clone();
        global.name_address(self.volume_address.clone());
        global.name_key(key.to_owned());
        let options = connect::options(&global)?;
        let lock = StartLock::of_any(&self.folder, START_LOCK_TIMEOUT)?;
        let folder = fs::canonicalize(&self.folder)?;
        if folder.join(FILE).exists() && !Marker::is_joining(&folder) {
            let dir = folder.display();
            bail!("{dir} has joined a volume: `weft up {dir}` starts it");
        }
        let (replica_of, replace) = (self.replica_of.clone(), self.replace);
        let place = |map: &_| {
            Ok(match (replica_of, replace) {
                (Some(server), _) => Place::ReplicaOf(server_of(&server, map)?),
                (None, Some(name)) => Place::Instead(name),
                (None, None) => Place::NewServer,
            })
        };
        let joined = self
            .node
            .join(&options, place, Home::Folder(folder.clone()));
        let empty = || fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 1);
        if joined.is_err() && empty() {
            lock.remove();
        }
        let joined = joined?;
        say_joined(&joined, self.replica_of.is_some())?;
        if let Some(name) = self.replace {
            wait_until_left(&options, name)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
