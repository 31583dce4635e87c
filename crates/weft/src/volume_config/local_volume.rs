//! A volume on this machine as its folder shows it, even if the configuration is unreadable or has
//! changed: which nodes may run, and where their folders are.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::terminal::output;
use crate::volume_config::config::file::{ADDRESS, Config, NodeName};
use crate::volume_config::config::identity::volume_id;
use crate::volume_config::node::lock::LOCK;
use crate::volume_config::node::marker::Marker;

/// In the volume's folder: a file for each node that `weft up` started, which holds the path of the
/// node's folder.
pub(super) const STARTED: &str = "started";

/// A volume's folder, and what it says about the volume.
pub(crate) struct LocalVolume {
    base: PathBuf,
    config: Result<Config>,
    id: Option<[u8; 16]>,
    address: Option<String>,
}

/// A node that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalNode {
    /// `meta` or `server-N`.
    pub(crate) name: String,
    /// Where its data and its lock are.
    pub(crate) folder: PathBuf,
}

impl LocalNode {
    /// Whether it is the metadata service.
    pub(crate) fn is_meta(&self) -> bool {
        self.name == NodeName::Meta.to_string()
    }
}

impl LocalVolume {
    /// Examines a volume's folder, or its configuration file.
    pub(crate) fn at(place: &Path) -> LocalVolume {
        match Config::read(place) {
            Ok(config) => LocalVolume::of(config),
            Err(error) => {
                let folder = if place.is_dir() {
                    place
                } else {
                    place.parent().unwrap_or(place)
                };
                let base = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
                let key = weft_client::ConnectOptions::from_address("", base.join("volume.key"));
                let address = fs::read_to_string(base.join(ADDRESS)).ok();
                LocalVolume {
                    id: key.ok().map(|options| volume_id(&options.key)),
                    address: address.map(|text| text.trim().to_owned()),
                    config: Err(error),
                    base,
                }
            }
        }
    }

    /// The volume of this configuration.
    pub(crate) fn of(config: Config) -> LocalVolume {
        LocalVolume {
            base: config.base.clone(),
            id: config.key().ok().map(|key| volume_id(&key)),
            address: Some(config.meta.address.clone()),
            config: Ok(config),
        }
    }

    /// The volume's folder.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The volume's id, if its key can be read.
    pub(crate) fn id(&self) -> Option<[u8; 16]> {
        self.id
    }

    /// What to fix before nodes can start again: an unreadable configuration or key.
    pub(crate) fn needed_fix(&self) -> Option<String> {
        match &self.config {
            Err(_) => Some("fix its configuration".to_owned()),
            Ok(config) => {
                let error = config.key().err()?;
                Some(format!("fix its key ({})", output::error(&error)))
            }
        }
    }

    /// Where the metadata service listens.
    pub(crate) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The error of reading the configuration, if there was one.
    pub(crate) fn config_error(&self) -> Option<&anyhow::Error> {
        self.config.as_ref().err()
    }

    /// Every node that may run: those of the configuration, those that were started, and those
    /// whose folders lie in the volume's.
    pub(crate) fn nodes(&self) -> Vec<LocalNode> {
        let mut found: BTreeMap<PathBuf, String> = BTreeMap::new();
        let mut add = |name: String, folder: PathBuf| {
            let folder = fs::canonicalize(&folder).unwrap_or(folder);
            found.entry(folder).or_insert(name);
        };
        if let Ok(config) = &self.config {
            for node in config.nodes() {
                if let Ok(folder) = node.folder(config) {
                    add(node.to_string(), folder);
                }
            }
        }
        for entry in entries(&self.base.join(STARTED)) {
            if let Ok(folder) = fs::read(&entry) {
                self.add_ours(self.base.join(os(folder)), &mut add);
            }
        }
        for entry in entries(&self.base) {
            if entry.join(LOCK).exists() {
                self.add_ours(entry, &mut add);
            }
        }
        let nodes = found.into_iter();
        nodes
            .map(|(folder, name)| LocalNode { name, folder })
            .collect()
    }

    /// Adds a folder if its marker says that it is this volume's.
    fn add_ours(&self, folder: PathBuf, add: &mut impl FnMut(String, PathBuf)) {
        let Some(marker) = Marker::read(&folder) else {
            return;
        };
        if self.id.is_none_or(|id| marker.is_of(id)) {
            add(marker.node, folder);
        }
    }
}

/// Records the folder of a node that is about to be started.
pub(crate) fn note_started(config: &Config, node: NodeName) -> Result<()> {
    let notes = config.base.join(STARTED);
    fs::create_dir_all(&notes)?;
    let folder = std::path::absolute(node.folder(config)?)?;
    // Relative within the volume's folder: a copy of the volume must not find the nodes of the
    // original.
    let folder = folder.strip_prefix(&config.base).unwrap_or(&folder);
    Ok(fs::write(
        notes.join(node.to_string()),
        folder.as_os_str().as_bytes(),
    )?)
}

/// Removes the record of [`note_started`].
pub(crate) fn note_stopped(base: &Path, name: &str) {
    let _ = fs::remove_file(base.join(STARTED).join(name));
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn os(bytes: Vec<u8>) -> std::ffi::OsString {
    std::ffi::OsString::from_vec(bytes)
}
