use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_client::{ConnectOptions, Volume};

use super::new_node::{Home, NewNode, Place, server_of};
use super::nodes::StartedNodes;
use super::rebuild::{Vacancy, wait_for_vacancy};
use super::server::{say_joined, wait_until_left};
use crate::args::Global;
use crate::limits::START_LOCK_TIMEOUT;
use crate::remote::connect;
use crate::terminal::output;
use crate::volume_config::{Config, FILE, JOINING, Marker, ServerName, StartLock};

/// Take part in a running volume with a new server on this machine, or a replica of one
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

  weft join meta.host:4700 --key-file volume.key --spare                waits, and replaces a replica that is away for 15 minutes

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
    /// Wait until a replica of any server stays away or is drained, then take its place. The
    /// command returns when that has happened; run again, it starts the node
    #[arg(long, conflicts_with_all = ["replace", "replica_of"])]
    spare: bool,
    /// With --spare: how long a replica may be away
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = humantime::parse_duration, requires = "spare")]
    after: Duration,
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
            if self.spare {
                let config = Config::read(&folder)?;
                let mut started = StartedNodes::start(&config, &config.nodes(), None)?;
                started.wait(&config, Instant::now() + self.node.wait())?;
                started.keep();
                return Ok(ExitCode::SUCCESS);
            }
            let dir = folder.display();
            let config = Config::read(&folder)?;
            let names: Vec<String> = config
                .servers
                .iter()
                .map(|s| s.name().to_string())
                .collect();
            bail!(
                "{dir} has joined the volume {} as {}: `weft up {dir}` starts it; name another folder for another node (--folder)",
                config.volume.name,
                names.join(", ")
            );
        }
        let mut refused = Vec::new();
        let (joined, vacancy) = loop {
            let vacancy = if self.spare {
                Some(self.vacancy(&options, &folder, &refused)?)
            } else {
                self.replace.map(Vacancy::Lost)
            };
            let place = |map: &_| {
                Ok(match (&self.replica_of, vacancy) {
                    (Some(server), _) => Place::ReplicaOf(server_of(server, map)?),
                    (None, Some(vacancy)) => vacancy.place(),
                    (None, None) => Place::NewServer,
                })
            };
            let joined = self
                .node
                .join(&options, place, Home::Folder(folder.clone()));
            match (joined, vacancy) {
                // Another spare was quicker, the replica is back, or its server may not have this.
                (Err(error), Some(vacancy)) if self.spare && !Marker::is_joining(&folder) => {
                    output::say(format_args!("weft: {}", output::error(&error)));
                    refused.push(vacancy);
                }
                (joined, _) => break (joined, vacancy),
            }
        };
        let empty = || fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 1);
        if joined.is_err() && empty() {
            lock.remove();
        }
        let joined = joined?;
        say_joined(&joined, self.replica_of.is_some())?;
        if let Some(Vacancy::Lost(name)) = vacancy {
            wait_until_left(&options, name)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The place that a spare takes: that of an earlier attempt, if it is still free, else the next
    /// one that becomes free.
    fn vacancy(
        &self,
        options: &ConnectOptions,
        folder: &Path,
        refused: &[Vacancy],
    ) -> Result<Vacancy> {
        if let Some(vacancy) = Place::of_last(folder)?.and_then(Vacancy::of) {
            let has_joined = Marker::unfinished_node(folder).is_some_and(|node| node != JOINING);
            let map = connect::block_on(async {
                let volume = Volume::connect(options.clone()).await?;
                Ok(volume.server_map().await?)
            })?;
            if has_joined || vacancy.is_in(&map) {
                return Ok(vacancy);
            }
            fs::remove_dir_all(folder.join(JOINING))?;
        }
        wait_for_vacancy(options, self.after, refused)
    }
}
