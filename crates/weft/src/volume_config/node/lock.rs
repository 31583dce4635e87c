//! The lock in a node's folder. A running node holds it, and writes its state and settings into it.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;

use super::ending::{is_ending, wait_for_end};
use crate::limits::{LOCK_ATTEMPTS, LOCK_RETRY_INTERVAL, PREVIOUS_PROCESS_TIMEOUT};
use crate::process::private_files;
use crate::volume_config::config::file::{Config, NodeName};
use crate::volume_config::config::settings;

/// The name of a node's lock in its folder.
pub(in crate::volume_config) const LOCK: &str = "weft-node.lock";

/// Held by a running node. The kernel releases it when the process ends, however it ends.
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
        // A process that only inspects the lock holds it for an instant; a few attempts tell that
        // from a running node.
        let mut tries = 0;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            tries += 1;
            if tries < LOCK_ATTEMPTS {
                std::thread::sleep(LOCK_RETRY_INTERVAL);
                continue;
            }
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            bail!(
                "{node} is already running as process {}: stop it first",
                pid.lines().next().unwrap_or("?")
            );
        }
        let mut lock = Lock { file, node };
        lock.wait_for_previous();
        lock.record(&format!("{}\n", std::process::id()))?;
        Ok(lock)
    }

    /// Waits for the previous holder, which is ending.
    fn wait_for_previous(&mut self) {
        let mut said = String::new();
        // Other text says nothing about the holder.
        let _ = self.file.read_to_string(&mut said);
        let last = said.lines().next().and_then(|l| l.parse().ok());
        if let Some(last) = last.and_then(Pid::from_raw).filter(|p| is_ending(*p))
            && !wait_for_end(last, PREVIOUS_PROCESS_TIMEOUT)
        {
            let pid = last.as_raw_nonzero();
            // Its disks have locks of their own.
            tracing::warn!(%pid, "the previous process of this node has not ended yet");
        }
    }

    /// Records that the node serves, and its settings.
    pub(crate) fn ready(&mut self, config: &Config) -> Result<()> {
        let settings = settings::of(config, self.node)?;
        self.record(&format!("{}\nready\n{settings}", std::process::id()))
    }

    fn record(&mut self, text: &str) -> Result<()> {
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn lock_path(config: &Config, node: NodeName) -> Result<PathBuf> {
    Ok(node.folder(config)?.join(LOCK))
}

/// The content of a node's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    /// The process that holds it.
    pub(crate) pid: i32,
    /// Whether the node serves.
    pub(crate) ready: bool,
    /// The node's settings; empty if the lock does not hold them.
    pub(crate) settings: String,
}

/// The process that runs this node, if one does.
pub(crate) fn lock_of(config: &Config, node: NodeName) -> Result<Option<Running>> {
    lock_in(&node.folder(config)?)
}

/// The process that runs the node of this folder, if one does.
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
    if ends.is_some_and(|p| wait_for_end(p, PREVIOUS_PROCESS_TIMEOUT)) {
        // The new holder may not have written its number yet.
        std::thread::sleep(LOCK_RETRY_INTERVAL);
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

/// Whether a process has the lock of this folder open. Until a node that has taken the lock writes
/// its number, the file holds that of the last owner, which may be another process by now.
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
