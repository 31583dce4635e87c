//! The marker in a node's folder: it names the node that owns the folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process::private_files::{make_folder, write_durably};
use crate::volume_config::config::file::NodeName;
use crate::volume_config::config::identity::hex;

/// Names the owner of a folder, so that the empty mount point of a missing disk is not mistaken for
/// an empty store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marker {
    /// The volume's id in hexadecimal digits.
    pub(crate) volume: String,
    /// `meta` or `server-N`.
    pub(crate) node: String,
    /// For a server: the random id of its store, which tells a replaced store from a moved one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) store: String,
    /// For the metadata service: the servers of the volume. Missing in folders of earlier versions
    /// until they are served again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    servers: Vec<u32>,
    /// While the node joins: what it is to become.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    joining: String,
}

const MARKER: &str = "weft-node.toml";
/// In the place of a node's name that the metadata service has not given yet, and its folder.
pub(crate) const JOINING: &str = "joining";

impl Marker {
    pub(crate) fn new(volume: [u8; 16], node: NodeName) -> Marker {
        let volume = hex(&volume);
        Marker {
            volume,
            node: node.to_string(),
            store: String::new(),
            servers: Vec::new(),
            joining: String::new(),
        }
    }

    /// The marker of a folder, if the folder has one.
    pub(crate) fn read(folder: &Path) -> Option<Marker> {
        let text = std::fs::read_to_string(folder.join(MARKER)).ok()?;
        toml::from_str(&text).ok()
    }

    /// Whether the folder belongs to the volume with this id.
    pub(in crate::volume_config) fn is_of(&self, volume: [u8; 16]) -> bool {
        self.volume == hex(&volume)
    }

    /// The volume's servers; empty if they are not known.
    pub(crate) fn servers(&self) -> &[u32] {
        &self.servers
    }

    /// The same marker, for a volume with these servers.
    pub(crate) fn with_servers(self, servers: Vec<u32>) -> Marker {
        Marker { servers, ..self }
    }

    /// The same marker, for a new store.
    pub(crate) fn of_new_store(self) -> Marker {
        let mut id = [0; 16];
        weft_net::Env::system().entropy.fill(&mut id);
        Marker {
            store: hex(&id),
            ..self
        }
    }

    /// Whether the folder holds a node at all.
    pub(crate) fn exists(folder: &Path) -> bool {
        folder.join(MARKER).exists()
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        write_durably(&folder.join(MARKER), &toml::to_string(self)?)
    }

    /// The folder in `base` of a node whose join has not ended, or a new one, and its marker.
    /// Whoever asks the metadata service again gets the same name for the same store. `place`: what
    /// the node is to become.
    pub(crate) fn joining(base: &Path, volume: [u8; 16], place: &str) -> Result<(PathBuf, Marker)> {
        let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
        let found = entries.map(|entry| entry.path()).find_map(|folder| {
            let marker = Marker::read(&folder)?;
            (!marker.joining.is_empty()).then_some((folder, marker))
        });
        if let Some((folder, marker)) = found {
            if !marker.is_of(volume) || marker.joining != place {
                bail!(
                    "{} is left from an attempt to join as {} that did not end: repeat that command, or `weft server remove` {} if \
                     `weft server list` shows it, and remove the folder",
                    folder.display(),
                    marker.joining,
                    marker.node
                );
            }
            return Ok((folder, marker));
        }
        let folder = base.join(JOINING);
        make_folder(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let marker = Marker {
            volume: hex(&volume),
            node: JOINING.to_owned(),
            store: String::new(),
            servers: Vec::new(),
            joining: place.to_owned(),
        };
        let marker = marker.of_new_store();
        marker.write(&folder)?;
        Ok((folder, marker))
    }

    /// Whether a folder in `base` is of a node whose join has not ended.
    pub(crate) fn is_joining(base: &Path) -> bool {
        Marker::unfinished(base).is_some()
    }

    /// What the node in `base` whose join has not ended is to become.
    pub(crate) fn unfinished(base: &Path) -> Option<String> {
        Marker::unfinished_in(base).map(|marker| marker.joining)
    }

    /// The name of that node; `joining` if it has none yet.
    pub(crate) fn unfinished_node(base: &Path) -> Option<String> {
        Marker::unfinished_in(base).map(|marker| marker.node)
    }

    fn unfinished_in(base: &Path) -> Option<Marker> {
        let mut entries = std::fs::read_dir(base).into_iter().flatten().flatten();
        entries.find_map(|entry| {
            let marker = Marker::read(&entry.path())?;
            (!marker.joining.is_empty()).then_some(marker)
        })
    }

    /// The same marker, of the node that the metadata service has named.
    pub(crate) fn named(self, node: NodeName) -> Marker {
        Marker {
            node: node.to_string(),
            ..self
        }
    }

    /// The same marker, of a node whose join has ended.
    pub(crate) fn joined(self) -> Marker {
        Marker {
            joining: String::new(),
            ..self
        }
    }

    /// The same marker, for a volume of which this server is not expected here any more.
    pub(crate) fn without_server(mut self, id: u32) -> Marker {
        self.servers.retain(|server| *server != id);
        self
    }

    /// The id of the store in this server's folder; a folder of an earlier version gets one.
    pub(crate) fn store_id(self, folder: &Path) -> Result<String> {
        let found = self.check(folder)?;
        if !found.store.is_empty() {
            return Ok(found.store);
        }
        let named = self.of_new_store();
        named.write(folder)?;
        Ok(named.store)
    }

    /// Records the servers of the volume in the metadata service's folder, if none are there: one
    /// that has left this machine is not expected again.
    pub(crate) fn note_servers(&self, folder: &Path, servers: &[u32]) -> Result<()> {
        let found = self.check(folder)?;
        if !found.servers.is_empty() {
            return Ok(());
        }
        found.with_servers(servers.to_vec()).write(folder)
    }

    /// Checks that the folder is this node's. Returns its marker.
    pub(crate) fn check(&self, folder: &Path) -> Result<Marker> {
        let path = folder.join(MARKER);
        let text = weft_client::read_small(&path).with_context(|| {
            format!(
                "{} holds no data of {}: cannot read {}; mount its disk, or create an empty node with `weft format`",
                folder.display(),
                self.node,
                path.display()
            )
        })?;
        let found: Marker =
            toml::from_str(&text).with_context(|| format!("{} is corrupt", path.display()))?;
        if (&found.volume, &found.node) != (&self.volume, &self.node) {
            bail!(
                "{} belongs to {} of volume {}, not to {} of volume {}: check the configuration, and that volume.key is this volume's \
                 (the volume's id is derived from its key)",
                folder.display(),
                found.node,
                found.volume,
                self.node,
                self.volume
            );
        }
        Ok(found)
    }
}
