//! What a volume's folder holds besides data: markers that say whose folder it is, and locks that say who runs.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::ending::{is_ending, wait_for_end};
use super::{Config, hex, settings};
use crate::process::private_files;

/// A node of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeName {
    /// The metadata service.
    Meta,
    /// A server by its id.
    Server(u32),
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeName::Meta => f.write_str("meta"),
            NodeName::Server(id) => write!(f, "server-{id}"),
        }
    }
}

impl NodeName {
    /// The folder of the node's data.
    pub(crate) fn folder(self, config: &Config) -> Result<PathBuf> {
        Ok(match self {
            NodeName::Meta => config.at(&config.meta.folder),
            NodeName::Server(id) => config.at(&config.server(id)?.folder),
        })
    }

    /// Where the node's log goes when it runs in the background.
    pub(crate) fn log(self, config: &Config) -> PathBuf {
        config.base.join("log").join(format!("{self}.log"))
    }
}

/// Says whose folder this is, so that a disk that is not mounted is not taken for an empty store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marker {
    /// The volume's id in hexadecimal digits.
    pub(crate) volume: String,
    /// `meta` or `server-N`.
    pub(crate) node: String,
    /// A server's store: a random id, made with the folder, so that one that was replaced is told from one that was moved.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) store: String,
    /// The metadata service's: the servers that the volume has. Not in folders of earlier versions before they are served again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    servers: Vec<u32>,
}

const MARKER: &str = "weft-node.toml";
/// The name of a node's lock in its folder.
pub(super) const LOCK: &str = "weft-node.lock";

impl Marker {
    pub(crate) fn new(volume: [u8; 16], node: NodeName) -> Marker {
        let volume = hex(&volume);
        Marker {
            volume,
            node: node.to_string(),
            store: String::new(),
            servers: Vec::new(),
        }
    }

    /// What a folder says of itself, if it is a node's.
    pub(super) fn read(folder: &Path) -> Option<Marker> {
        let text = std::fs::read_to_string(folder.join(MARKER)).ok()?;
        toml::from_str(&text).ok()
    }

    /// Whether it is of the volume of this id.
    pub(super) fn is_of(&self, volume: [u8; 16]) -> bool {
        self.volume == hex(&volume)
    }

    /// The servers that the volume has; none where this is not known.
    pub(crate) fn servers(&self) -> &[u32] {
        &self.servers
    }

    /// The same, of a volume that has these servers.
    pub(crate) fn with_servers(self, servers: Vec<u32>) -> Marker {
        Marker { servers, ..self }
    }

    /// The same, of a store that is made now.
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

    /// Notes the servers of the volume in the metadata service's folder, if it does not say them yet.
    pub(crate) fn note_servers(&self, folder: &Path, servers: &[u32]) -> Result<()> {
        let found = self.check(folder)?;
        if found.servers == servers {
            return Ok(());
        }
        found.with_servers(servers.to_vec()).write(folder)
    }

    /// Checks that the folder is this node's; returns what it says.
    pub(crate) fn check(&self, folder: &Path) -> Result<Marker> {
        let path = folder.join(MARKER);
        let text = weft_client::read_small(&path).with_context(|| {
            format!(
                "{} holds no data of {}: cannot read {}. Is its disk mounted? A new, empty one is made by `weft format`",
                folder.display(),
                self.node,
                path.display()
            )
        })?;
        let found: Marker =
            toml::from_str(&text).with_context(|| format!("{} is corrupt", path.display()))?;
        if (&found.volume, &found.node) != (&self.volume, &self.node) {
            bail!(
                "{} belongs to {} of volume {}, not to {} of volume {}; check the configuration, and that volume.key is this volume's (its key is its name)",
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

/// Writes a small file: on return it survives power loss, and before that it is there as it was or not at all.
pub(crate) fn write_durably(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let beside = path.with_extension("new");
        let mut file = private_files::options().truncate(true).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        let mut folders = path.ancestors().skip(1);
        if let Some(folder) = folders.next() {
            File::open(folder)?.sync_all()?;
        }
        // The folder may be new, too. Whoever made it can mostly read where it lies; else its name is the system's care.
        if let Some(Ok(above)) = folders.next().map(File::open) {
            above.sync_all()?;
        }
        std::io::Result::Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// How long a node waits for the end of the process that was this node before.
const LAST_ENDS: Duration = Duration::from_secs(30);

/// Held by a running node; free as soon as its process ends, however it ends.
pub(crate) struct Lock {
    file: File,
    node: NodeName,
}

impl Lock {
    /// Takes the lock of a node and writes this process's number into it.
    pub(crate) fn take(config: &Config, node: NodeName) -> Result<Lock> {
        let path = lock_path(config, node)?;
        let open = private_files::options().read(true).open(&path);
        let mut file = open.with_context(|| format!("cannot open {}", path.display()))?;
        // Whoever only looks holds the lock for an instant, too: a few tries tell the two apart.
        let mut tries = 0;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            tries += 1;
            if tries < 20 {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            bail!(
                "{node} is already running as process {}",
                pid.lines().next().unwrap_or("?")
            );
        }
        let mut lock = Lock { file, node };
        lock.wait_for_the_last();
        lock.say(&format!("{}\n", std::process::id()))?;
        Ok(lock)
    }

    /// Waits for who had the lock before and is just ending.
    fn wait_for_the_last(&mut self) {
        let mut said = String::new();
        // What is no number says nothing.
        let _ = self.file.read_to_string(&mut said);
        let last = said.lines().next().and_then(|l| l.parse().ok());
        if let Some(last) = last.and_then(Pid::from_raw).filter(|p| is_ending(*p))
            && !wait_for_end(last, LAST_ENDS)
        {
            let pid = last.as_raw_nonzero();
            // Its disks have locks of their own.
            tracing::warn!(%pid, "the process that was this node is still ending");
        }
    }

    /// Notes that the node serves, and the settings that it goes by.
    pub(crate) fn ready(&mut self, config: &Config) -> Result<()> {
        let settings = settings::of(config, self.node)?;
        self.say(&format!("{}\nready\n{settings}", std::process::id()))
    }

    fn say(&mut self, text: &str) -> Result<()> {
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn lock_path(config: &Config, node: NodeName) -> Result<PathBuf> {
    Ok(node.folder(config)?.join(LOCK))
}

/// What a node's lock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    /// The process that holds it.
    pub(crate) pid: i32,
    /// It serves.
    pub(crate) ready: bool,
    /// The settings that it goes by; nothing where it does not say.
    pub(crate) settings: String,
}

/// Who runs this node, if anybody.
pub(crate) fn lock_of(config: &Config, node: NodeName) -> Result<Option<Running>> {
    lock_in(&node.folder(config)?)
}

/// Who runs the node of this folder, if anybody.
pub(crate) fn lock_in(folder: &Path) -> Result<Option<Running>> {
    let Ok(mut file) = weft_client::open_regular(folder.join(LOCK)) else {
        return Ok(None);
    };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut lines = text.lines();
    let pid = lines.next().and_then(|l| l.parse().ok());
    let ready = lines.next() == Some("ready");
    let ends = pid.and_then(Pid::from_raw).filter(|p| is_ending(*p));
    if ends.is_some_and(|p| wait_for_end(p, LAST_ENDS)) {
        // Whoever has it now may have to say so first.
        std::thread::sleep(Duration::from_millis(10));
        return lock_in(folder);
    }
    // Between taking the lock and writing its number a node is starting.
    let settings: Vec<&str> = lines.collect();
    Ok(Some(Running {
        pid: pid.unwrap_or(0),
        ready,
        settings: settings.join("\n"),
    }))
}

/// Whether a process has the lock of this folder open. The number in a lock may be that of its last owner, which is another process
/// by now, until the node that has taken the lock writes its own.
pub(crate) fn holds_lock(pid: Pid, folder: &Path) -> bool {
    let Ok(lock) = std::fs::metadata(folder.join(LOCK)) else {
        return false;
    };
    let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
    open.into_iter().flatten().flatten().any(|fd| {
        let file = std::fs::metadata(fd.path());
        file.is_ok_and(|file| (file.dev(), file.ino()) == (lock.dev(), lock.ino()))
    })
}
