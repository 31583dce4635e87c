//! A volume's configuration (`weft.toml`), its key, and the folders it names. Documented in `docs/operating.md`.

mod disks;
mod ending;
mod folder;
mod here;
mod ports;
mod private;
mod settings;
mod size;
mod starter;
mod strays;
mod wire;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weft_net::VolumeKey;

use crate::process::memory::Share;
use crate::terminal::output;

pub(crate) use disks::{check_new_disk, label_disks, store_config};
pub(crate) use ending::wait_for_end;
pub(crate) use folder::{Lock, Marker, NodeName, holds_lock, lock_in, lock_of, write_durably};
pub(crate) use here::{Here, NodeHere, note_started, note_stopped};
pub(crate) use ports::{FreeAddresses, free_addresses};
pub(crate) use private::close_to_others;
pub(crate) use settings::changed;
pub(crate) use size::Size;
pub(crate) use starter::{Starter, is_starter};
pub(crate) use strays::strays;
pub(crate) use wire::WireSetting;

/// The name of the configuration in a volume's folder.
pub(crate) const FILE: &str = "weft.toml";
/// The name of the file that says where the metadata service listens.
pub(crate) const ADDRESS: &str = "volume.address";
/// The name of the file that says how connections are protected, for clients that read no configuration.
pub(crate) const WIRE: &str = "volume.wire";

/// A volume's configuration. Relative paths count from the folder the file is in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) volume: VolumeSection,
    pub(crate) meta: MetaSection,
    #[serde(rename = "server")]
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
    /// The least protection of the frames of every connection.
    #[serde(default, skip_serializing_if = "WireSetting::is_default")]
    pub(crate) wire: WireSetting,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetaSection {
    /// Where the metadata service listens, and where everybody finds it.
    pub(crate) address: String,
    /// Where it is bound, if that is another address (say `0.0.0.0:4700`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bind: Option<String>,
    /// Where its namespace lies.
    pub(crate) folder: PathBuf,
    /// Where its metrics are served over HTTP; absent: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
    /// Memory for the namespace's cache; absent: a part of what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<Size>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSection {
    /// The server's id, for ever.
    pub(crate) id: u32,
    /// Where the server listens, and where everybody finds it.
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
    /// The most its store may hold on each disk; absent: what its file system has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<Size>,
    /// Memory for its cache of data; absent: a part of what there is.
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
        let mut config: Config =
            toml::from_str(&text).with_context(|| format!("{} is not legal", path.display()))?;
        config.path = std::path::absolute(&path)?;
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
        if self.servers.is_empty() {
            bail!("a volume needs at least one [[server]]");
        }
        if self.servers.len() > weft_layout::SERVERS_MAX {
            bail!(
                "{} servers; the limit is {}",
                self.servers.len(),
                weft_layout::SERVERS_MAX
            );
        }
        let mut ids = std::collections::BTreeSet::new();
        let mut folders = std::collections::BTreeSet::from([&self.meta.folder]);
        for server in &self.servers {
            if !ids.insert(server.id) {
                bail!("two servers have the id {}", server.id);
            }
            if !folders.insert(&server.folder) {
                bail!("two nodes share the folder {}", server.folder.display());
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
                    "server {}: data = false leaves no place for data: name disks",
                    server.id
                );
            }
            for disk in &server.disks {
                if !folders.insert(disk) {
                    bail!("two nodes or disks share {}", disk.display());
                }
            }
            if server.threads == 0 || server.threads > 256 {
                bail!(
                    "server {}: threads = {} is outside 1 to 256",
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

    /// Tells the clients that find the volume by its folder how connections are protected.
    pub(crate) fn tell_wire(&self) -> Result<()> {
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

    /// The server with this id.
    pub(crate) fn server(&self, id: u32) -> Result<&ServerSection> {
        self.servers.iter().find(|s| s.id == id).with_context(|| {
            let ids: Vec<String> = self.servers.iter().map(|s| s.id.to_string()).collect();
            format!(
                "{} has no server {id}; it has {}",
                self.path.display(),
                ids.join(", ")
            )
        })
    }

    /// Every node: the metadata service, then the servers.
    pub(crate) fn nodes(&self) -> Vec<NodeName> {
        let servers = self.servers.iter().map(|s| NodeName::Server(s.id));
        std::iter::once(NodeName::Meta).chain(servers).collect()
    }

    /// Refuses a configuration that does not name the servers that the volume has, as far as the metadata service's folder tells.
    pub(crate) fn check_servers(&self, nodes: &[NodeName]) -> Result<()> {
        let folder = NodeName::Meta.folder(self)?;
        let Some(marker) = Marker::read(&folder) else {
            return Ok(());
        };
        self.check_servers_are(marker.servers(), nodes)
    }

    /// Refuses those of `nodes` that are none of the servers `has`; with the metadata service among `nodes`, also that one of them
    /// is not named. Of a volume whose servers are not known nothing is refused.
    pub(crate) fn check_servers_are(&self, has: &[u32], nodes: &[NodeName]) -> Result<()> {
        if has.is_empty() {
            return Ok(());
        }
        let list = |ids: &[u32]| {
            let names = ids.iter().map(|id| NodeName::Server(*id).to_string());
            names.collect::<Vec<_>>().join(", ")
        };
        let path = self.path.display();
        let unknown = nodes.iter().filter_map(|node| match node {
            NodeName::Server(id) if !has.contains(id) => Some(*id),
            _ => None,
        });
        let unknown: Vec<u32> = unknown.collect();
        if !unknown.is_empty() {
            bail!(
                "{path} names {}, and the volume has only {}: servers cannot be added to a volume that is formatted. Take the section \
                 out again, or format a new volume with it",
                list(&unknown),
                list(has)
            );
        }
        let named = |id: &u32| self.servers.iter().any(|server| server.id == *id);
        let missing: Vec<u32> = has.iter().copied().filter(|id| !named(id)).collect();
        if nodes.contains(&NodeName::Meta) && !missing.is_empty() {
            bail!(
                "{path} does not name {}, which the volume has: put the [[server]] section back",
                list(&missing)
            );
        }
        Ok(())
    }

    /// What each node on this machine may take of its memory: of all that were formatted here, and at least one is being started.
    pub(crate) fn share(&self) -> Share {
        Share::of(self.formatted_here())
    }

    /// How many nodes were formatted on this machine.
    fn formatted_here(&self) -> usize {
        let folders = self.nodes().into_iter().map(|node| node.folder(self));
        let formatted = folders.filter(|folder| folder.as_ref().is_ok_and(|f| Marker::exists(f)));
        formatted.count()
    }

    /// The volume's key.
    pub(crate) fn key(&self) -> Result<VolumeKey> {
        let path = self.at(&self.volume.key);
        let options = weft_client::ConnectOptions::from_address(&self.meta.address, &path);
        let options = match options {
            Err(error) if !path.exists() => {
                return Err(error).context(if self.formatted_here() > 0 {
                    "the volume's key is missing: put a copy of it back; every machine of the volume has the same"
                } else {
                    "the volume is not formatted, or this machine lacks its key: run `weft format`, or copy the key here"
                });
            }
            options => options?,
        };
        Ok(options.key)
    }
}

/// A configuration could not be read. Only one that is not there says that the folder is none.
fn unreadable(place: &Path, file: &Path, error: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let (place, file) = (place.display(), file.display());
    let what = match error.kind() {
        NotFound | NotADirectory => {
            format!(
                "{place} is not the folder of a volume: cannot read {file}; make one with `weft up {place}`"
            )
        }
        _ => format!("cannot read {file} of the volume in {place}"),
    };
    anyhow::Error::new(error).context(what)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, b| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// The volume's id: which key it has, without the key.
pub(crate) fn volume_id(key: &VolumeKey) -> [u8; 16] {
    let hash = blake3::keyed_hash(&key.0, b"weft volume id");
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    id
}
