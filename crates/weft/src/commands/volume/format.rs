use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_kv::{FjallKv, FjallOptions};
use weft_layout::ServerId;
use weft_meta::{Namespace, VolumeSettings};
use weft_net::{Env, VolumeKey};

use crate::process::{memory, private_files};
use crate::terminal::output;
use crate::volume_config::{self, Config, Lock, Marker, NodeName};

/// Create the key and the node folders of a new volume from its configuration
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft format --config /srv/weft/weft.toml               all nodes, on this machine
  weft format --config weft.toml --node meta             on the metadata service's machine; creates the key
  weft format --config weft.toml --node server-2         on a server's machine, after copying the key there
  weft format --config weft.toml --new-disks             after adding paths to `disks` of stopped servers

Folders and disks that hold data of a volume are never overwritten: remove them first if you no longer need them.")]
pub(crate) struct Format {
    /// The configuration, or the folder that holds it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Format only these nodes: `meta`, `server-0` … [default: all]
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    node: Vec<String>,
    /// Add disks to formatted servers that do not run: those that the configuration names and no
    /// server uses yet
    #[arg(long)]
    new_disks: bool,
}

impl Format {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let config = Config::read(&self.config)?;
        let nodes = chosen(&config, &self.node)?;
        if self.new_disks {
            return new_disks(&config, &nodes);
        }
        volume(&config, &nodes)?;
        output::line(format!(
            "formatted {}",
            nodes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Labels the disks of servers that have none yet.
fn new_disks(config: &Config, nodes: &[NodeName]) -> Result<ExitCode> {
    let id = volume_config::volume_id(&config.key()?);
    for node in nodes {
        let NodeName::Server(name) = node else {
            continue;
        };
        let section = config.server(*name)?;
        if section.disks.is_empty() {
            continue;
        }
        Marker::new(id, *node).check(&node.folder(config)?)?;
        let _lock = Lock::take(config, *node).context("stop the server before adding disks")?;
        for disk in volume_config::label_disks(config, section)? {
            let path = if disk.path.is_empty() {
                "its folder"
            } else {
                &disk.path
            };
            let state = volume_config::disk_state(disk.state);
            output::line(format!("{node}: disk {} is {path}: {state}", disk.number))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The nodes of these names.
pub(crate) fn chosen(config: &Config, names: &[String]) -> Result<Vec<NodeName>> {
    let all = config.nodes();
    if names.is_empty() {
        return Ok(all);
    }
    names
        .iter()
        .map(|name| {
            all.iter()
                .copied()
                .find(|n| n.to_string() == *name)
                .with_context(|| {
                    let known: Vec<String> = all.iter().map(ToString::to_string).collect();
                    format!(
                        "there is no node {name:?}: choose from {}",
                        known.join(", ")
                    )
                })
        })
        .collect()
}

/// Formats these nodes of a volume; makes its key if the metadata service is among them.
pub(crate) fn volume(config: &Config, nodes: &[NodeName]) -> Result<()> {
    for node in nodes {
        let folder = node.folder(config)?;
        if Marker::exists(&folder) {
            bail!(
                "{} already holds data of a volume: nothing was changed; remove the folder first if you no longer need it",
                folder.display()
            );
        }
    }
    if !nodes.contains(&NodeName::Meta) {
        config.check_servers(nodes)?;
    }
    let key_path = config.at(&config.volume.key);
    let key = if nodes.contains(&NodeName::Meta) && !key_path.exists() {
        make_key(&key_path)?
    } else {
        config.key()?
    };
    let id = volume_config::volume_id(&key);
    for node in nodes {
        let folder = node.folder(config)?;
        private_files::make_folder(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        if *node == NodeName::Meta {
            let memory = memory::Share::of(nodes.len()).engine();
            let options = FjallOptions {
                cache: memory,
                memtable: memory,
                ..FjallOptions::default()
            };
            let kv = Arc::new(FjallKv::open(folder.join("namespace"), options)?);
            let (servers, replicas): (Vec<_>, Vec<_>) =
                config.servers.iter().partition(|s| s.replica == 0);
            Namespace::format(
                kv.as_ref(),
                &VolumeSettings {
                    id,
                    name: config.volume.name.clone(),
                    servers: servers
                        .into_iter()
                        .map(|s| (ServerId(s.id), s.address.clone()))
                        .collect(),
                    replicas: replicas
                        .into_iter()
                        .map(|s| (ServerId(s.id), s.replica, s.address.clone()))
                        .collect(),
                    uid: rustix::process::geteuid().as_raw(),
                    gid: rustix::process::getegid().as_raw(),
                    mode: 0o755,
                    now: Env::system().clock.now(),
                },
            )?;
            weft_kv::OrderedKv::sync(kv.as_ref())?;
        }
        let marker = Marker::new(id, *node);
        let NodeName::Server(name) = node else {
            let servers = config.server_ids().into_iter().collect();
            marker.with_servers(servers).write(&folder)?;
            continue;
        };
        marker.of_new_store().write(&folder)?;
        let section = config.server(*name)?;
        if !section.disks.is_empty() {
            volume_config::label_disks(config, section)?;
        }
    }
    let address = format!("{}\n", config.meta.address);
    private_files::write_durably(&config.base.join(volume_config::ADDRESS), &address)?;
    config.write_wire_file()
}

/// A fresh key in a file that only its owner can read.
fn make_key(path: &Path) -> Result<VolumeKey> {
    let mut key = [0; 32];
    Env::system().entropy.fill(&mut key);
    let digits = volume_config::hex(&key);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    writeln!(file, "{digits}")?;
    file.sync_all()?;
    Ok(VolumeKey(key))
}
