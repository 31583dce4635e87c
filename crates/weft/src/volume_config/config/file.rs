//! A volume's configuration: what `weft.toml` says, read, checked and written.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::code_after::CodeAfter;
use super::rebuild_after::RebuildAfter;
use super::size::Size;
use super::wire::WireSetting;
use crate::limits::REPLICAS_MAX;
use crate::process::private_files::write_durably;
use crate::terminal::output;

/// The name of the configuration in a volume's folder.
pub(crate) const FILE: &str = "weft.toml";
/// The name of the file that says where the metadata service listens.
pub(crate) const ADDRESS: &str = "volume.address";
/// The name of the file that says how connections are protected, for clients that read no
/// configuration.
pub(crate) const WIRE: &str = "volume.wire";

/// A volume's configuration. Relative paths count from the folder the file is in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) volume: VolumeSection,
    pub(crate) meta: MetaSection,
    #[serde(rename = "server", default)]
    pub(crate) servers: Vec<ServerSection>,
    /// The folder the file was read from.
    #[serde(skip)]
    pub(crate) base: PathBuf,
    /// The file itself.
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeSection {
    /// What `weft status` calls it.
    pub(crate) name: String,
    /// The file that holds the volume's key.
    #[serde(default = "default_key")]
    pub(crate) key: PathBuf,
    /// Whether servers have local sockets, for programs on their own machines.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) local_sockets: bool,
    /// Whether processors stay out of deep idle states while requests come.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) shallow_idle: bool,
    /// Bytes per second at which each server makes a replica equal to itself; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rebuild_rate: Option<Size>,
    /// How long a replica is away before a node of this file takes its place.
    #[serde(default, skip_serializing_if = "RebuildAfter::is_default")]
    pub(crate) rebuild_after: RebuildAfter,
    /// How long a file with parity is left as it was written before parity takes the place of its
    /// copies.
    #[serde(default, skip_serializing_if = "CodeAfter::is_default")]
    pub(crate) code_after: CodeAfter,
    /// The least protection of the frames of every connection.
    #[serde(default, skip_serializing_if = "WireSetting::is_default")]
    pub(crate) wire: WireSetting,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetaSection {
    /// Where the metadata service listens, and where its peers find it.
    pub(crate) address: String,
    /// Where it is bound, if that is another address (say `0.0.0.0:4700`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bind: Option<String>,
    /// Where its namespace lies; absent: it runs elsewhere, and this file is of a node that has
    /// joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
    /// Where its metrics are served over HTTP; absent: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
    /// Memory for the namespace's cache; absent: a share of the node's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<Size>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSection {
    /// The server's id, which never changes.
    pub(crate) id: u32,
    /// Which of the server's replicas this is, if there are several sections of this id.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) replica: u32,
    /// Where the server listens, and where its peers find it.
    pub(crate) address: String,
    /// Where it is bound, if that is another address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bind: Option<String>,
    /// Where its store lies: log, index and, unless `data` says no, data.
    pub(crate) folder: PathBuf,
    /// Whether data lie in the folder, too.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) data: bool,
    /// Further disks for data: folders or block devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) disks: Vec<PathBuf>,
    /// Where its metrics are served over HTTP; absent: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
    /// Limit on the bytes of its store on each disk; absent: the size of the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<Size>,
    /// Memory for its cache of data; absent: a share of the node's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<Size>,
    /// Threads that serve it.
    #[serde(default = "default_threads")]
    pub(crate) threads: usize,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands a reference
fn is_yes(value: &bool) -> bool {
    *value
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands a reference
fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn default_key() -> PathBuf {
    "volume.key".into()
}

fn default_threads() -> usize {
    2
}

impl Config {
    /// Reads and checks a configuration. `place` is the file, or the volume's folder that holds it.
    pub(crate) fn read(place: &Path) -> Result<Config> {
        let path = if place.is_dir() {
            place.join(FILE)
        } else {
            place.to_owned()
        };
        let text = weft_client::read_small(&path).map_err(|e| unreadable(place, &path, e))?;
        Config::parse(&text, &path)
    }

    /// The configuration of this text, which is or will be in the file `path`.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Config> {
        let mut config: Config =
            toml::from_str(text).with_context(|| format!("{} is not legal", path.display()))?;
        config.path = std::path::absolute(path)?;
        config.base = config.path.parent().map(Path::to_owned).unwrap_or_default();
        config
            .check()
            .with_context(|| format!("{} is not legal", path.display()))?;
        Ok(config)
    }

    /// Writes the configuration to its folder.
    pub(crate) fn write(&self) -> Result<()> {
        let head = "# A Weft volume; every key is described in docs/operating.md.\n\n";
        let text = format!("{head}{}", toml::to_string(self)?);
        write_durably(&self.path, &text)
    }

    fn check(&self) -> Result<()> {
        if self.servers.is_empty() && self.meta.folder.is_none() {
            bail!("no [[server]] section, and no folder in [meta]: there is nothing to run");
        }
        let servers = self.server_ids().len();
        if servers > weft_layout::SERVERS_MAX {
            bail!(
                "{servers} servers are too many: the maximum is {}",
                weft_layout::SERVERS_MAX
            );
        }
        let mut ids = BTreeSet::new();
        let mut folders: BTreeSet<&PathBuf> = self.meta.folder.iter().collect();
        for server in &self.servers {
            if !ids.insert((server.id, server.replica)) && server.replica == 0 {
                bail!(
                    "two servers have the id {}: give each its own, or make one a replica of the other (replica = 1)",
                    server.id
                );
            }
            self.check_replica(server)?;
            if !folders.insert(&server.folder) {
                bail!(
                    "two nodes share the folder {}: give each its own",
                    server.folder.display()
                );
            }
            if server.disks.len() >= weft_store::DISKS_MAX {
                bail!(
                    "server {}: {} are too many",
                    server.id,
                    output::count(server.disks.len(), "disk")
                );
            }
            if server.disks.is_empty() && !server.data {
                bail!(
                    "server {}: data = false leaves no place for data: name its disks",
                    server.id
                );
            }
            for disk in &server.disks {
                if !folders.insert(disk) {
                    bail!(
                        "two nodes or disks share {}: give each its own",
                        disk.display()
                    );
                }
            }
            if server.threads == 0 || server.threads > 256 {
                bail!(
                    "server {}: threads = {} is out of range: choose 1 to 256",
                    server.id,
                    server.threads
                );
            }
        }
        let addresses = self
            .servers
            .iter()
            .map(|s| &s.address)
            .chain([&self.meta.address]);
        for address in addresses {
            if address
                .rsplit_once(':')
                .is_none_or(|(_, port)| port.parse::<u16>().is_err())
            {
                bail!("{address:?} is not an address: write HOST:PORT");
            }
        }
        Ok(())
    }

    fn check_replica(&self, section: &ServerSection) -> Result<()> {
        let name = section.name();
        let same = self.servers.iter().filter(|s| s.name() == name);
        if same.count() > 1 {
            bail!("two sections are {name}: give each its own replica = N");
        }
        // One more while another one leaves.
        if self.replicas(section.id) > REPLICAS_MAX as usize + 1 {
            bail!(
                "server {} has more than {REPLICAS_MAX} replicas here",
                section.id
            );
        }
        Ok(())
    }

    /// How many replicas a server has here.
    pub(crate) fn replicas(&self, id: u32) -> usize {
        self.servers.iter().filter(|s| s.id == id).count()
    }

    /// The ids of the servers that have a store here.
    pub(crate) fn server_ids(&self) -> BTreeSet<u32> {
        self.servers.iter().map(|s| s.id).collect()
    }

    /// Writes how connections are protected, for clients that find the volume by its folder.
    pub(crate) fn write_wire_file(&self) -> Result<()> {
        let path = self.base.join(WIRE);
        let text = format!("{}\n", self.volume.wire.0);
        match std::fs::read_to_string(&path) {
            Ok(found) if found == text => Ok(()),
            Err(_) if self.volume.wire.is_default() && !path.exists() => Ok(()),
            _ => write_durably(&path, &text),
        }
    }

    /// A path of the configuration, from its folder.
    pub(crate) fn at(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    /// The section of a server, or of one of its replicas.
    pub(crate) fn server(&self, name: ServerName) -> Result<&ServerSection> {
        let found = self.servers.iter().find(|s| s.name() == name);
        found.with_context(|| {
            let ids: Vec<String> = self.servers.iter().map(|s| s.name().to_string()).collect();
            format!(
                "{} has no {name}: choose from {}",
                self.path.display(),
                ids.join(", ")
            )
        })
    }

    /// Every node: the metadata service, unless it runs elsewhere, then the servers.
    pub(crate) fn nodes(&self) -> Vec<NodeName> {
        let meta = self.meta.folder.iter().map(|_| NodeName::Meta);
        let servers = self.servers.iter().map(|s| NodeName::Server(s.name()));
        meta.chain(servers).collect()
    }
}

/// A configuration could not be read. Only a missing one means that the folder is not a volume's.
fn unreadable(place: &Path, file: &Path, error: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let (place, file) = (place.display(), file.display());
    let what = match error.kind() {
        NotFound | NotADirectory => {
            format!(
                "{place} is not the folder of a volume: cannot read {file}; create a volume with `weft up {place}`"
            )
        }
        _ => format!("cannot read {file} of the volume in {place}"),
    };
    anyhow::Error::new(error).context(what)
}

/// A node of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeName {
    /// The metadata service.
    Meta,
    /// A server, or one of its replicas.
    Server(ServerName),
}

/// A server, or one of its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerName {
    /// The server.
    pub(crate) id: u32,
    /// The replica.
    pub(crate) replica: u32,
}

impl ServerName {
    /// The server's first replica, or the server if it has one store.
    pub(crate) fn of(id: u32) -> ServerName {
        ServerName { id, replica: 0 }
    }
}

impl FromStr for ServerName {
    type Err = anyhow::Error;

    /// As `weft server list` shows it, with or without `server-`.
    fn from_str(text: &str) -> Result<ServerName> {
        let numbers = text.strip_prefix("server-").unwrap_or(text);
        let (id, replica) = numbers.split_once('.').unwrap_or((numbers, "0"));
        match (id.parse(), replica.parse()) {
            (Ok(id), Ok(replica)) => Ok(ServerName { id, replica }),
            _ => bail!(
                "{text:?} is no server: write it as `weft server list` shows it, such as server-2 or server-2.1"
            ),
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server-{}", self.id)?;
        match self.replica {
            0 => Ok(()),
            replica => write!(f, ".{replica}"),
        }
    }
}

impl ServerSection {
    /// The node that the section describes.
    pub(crate) fn name(&self) -> ServerName {
        ServerName {
            id: self.id,
            replica: self.replica,
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeName::Meta => f.write_str("meta"),
            NodeName::Server(name) => name.fmt(f),
        }
    }
}

impl NodeName {
    /// The folder of the node's data.
    pub(crate) fn folder(self, config: &Config) -> Result<PathBuf> {
        Ok(match self {
            NodeName::Meta => {
                let folder = config.meta.folder.as_ref().with_context(|| {
                    let (path, address) = (config.path.display(), &config.meta.address);
                    format!(
                        "the metadata service of the volume of {path} runs elsewhere, at {address}"
                    )
                })?;
                config.at(folder)
            }
            NodeName::Server(id) => config.at(&config.server(id)?.folder),
        })
    }

    /// Where the node's log goes when it runs in the background.
    pub(crate) fn log(self, config: &Config) -> PathBuf {
        config.base.join("log").join(format!("{self}.log"))
    }
}
