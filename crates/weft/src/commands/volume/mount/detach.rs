//! Unmounts a volume.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags};
use weft_mount::fs::PROCESS_XATTR;
use weft_mount::fuse::{self, MountError, Mounted, Probe};

use super::path::real;
use super::users;
use crate::limits::{UNMOUNT_BUSY_TIMEOUT, UNMOUNT_RETRY_INTERVAL};
use crate::terminal::output;

/// Unmounts, and waits until the mount's process has ended.
pub(crate) fn unmount(path: &Path, lazy: bool, wait: Duration) -> Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    let look = look(&whole)?;
    // A mount that does not respond cannot resolve its canonical path.
    let path = match look {
        Probe::Answered => std::fs::canonicalize(&whole).unwrap_or(whole),
        Probe::Dead | Probe::Silent => real(&whole),
    };
    let Some(mounted) = fuse::mounted_on(&path)? else {
        bail!("no volume is mounted on {}{}", path.display(), others()?);
    };
    match look {
        Probe::Answered => {}
        Probe::Dead => {
            fuse::detach(&path, true)?;
            return Ok(path);
        }
        Probe::Silent if lazy => {
            fuse::detach(&path, true)?;
            let silent = silent(&mounted);
            output::say(format_args!(
                "weft: {silent}; it still holds data that was not sent to the servers"
            ));
            return Ok(path);
        }
        Probe::Silent => bail!(
            "{}: it may hold data that was not sent to the servers. Resume it (`kill -CONT`) and unmount again; or detach the mount with \
             `weft unmount --lazy {}`; or kill it, which loses that data",
            silent(&mounted),
            path.display()
        ),
    }
    let process = process(&path);
    let deadline = Instant::now() + UNMOUNT_BUSY_TIMEOUT;
    loop {
        match fuse::detach(&path, lazy) {
            Ok(()) => break,
            Err(MountError::Busy(_)) if Instant::now() < deadline => {
                sleep(UNMOUNT_RETRY_INTERVAL);
            }
            Err(MountError::Busy(_)) => bail!("{}", busy(&path)),
            Err(e) => return Err(e.into()),
        }
    }
    if let Some(process) = process
        && !lazy
    {
        process.wait(wait)?;
    }
    Ok(path)
}

/// Whether a mount responds. A mount whose process is stopped is not asked.
fn look(path: &Path) -> Result<Probe> {
    let stopped = fuse::mounted_on(&real(path))?
        .as_ref()
        .and_then(fuse::stopped_process);
    Ok(stopped.map_or_else(|| fuse::look(path), |_| Probe::Silent))
}

/// The message that a mount does not respond, with the responsible process.
fn silent(mounted: &Mounted) -> String {
    let stopped = fuse::stopped_process(mounted).map(|pid| format!("its process {pid} is stopped"));
    let by = stopped
        .or_else(|| fuse::process_of(mounted).map(|pid| format!("its process {pid}")))
        .unwrap_or_else(|| "its process".to_owned());
    format!(
        "the mount on {} does not respond ({by})",
        mounted.path.display()
    )
}

fn busy(path: &Path) -> String {
    let mut users = users::of(path);
    let below = fuse::mounts_below(path).unwrap_or_default();
    users.extend(below.iter().map(|m| format!("a mount on {}", m.display())));
    let path = path.display();
    let lazy = format!("detach it now with `weft unmount --lazy {path}`");
    if users.is_empty() {
        // The files of other users' processes, and the processes of other containers, are not
        // visible.
        let users = if rustix::process::geteuid().is_root() {
            "no visible process uses it; it may be a process of another container, a loop device or a swap file"
        } else {
            "none of your processes uses it; root can see those of other users (`sudo fuser -vm PATH`)"
        };
        return format!("{path} is in use, but {users}: end what uses it, or {lazy}");
    }
    format!(
        "{path} is in use by {}: end that, or {lazy}",
        users.join(", ")
    )
}

fn others() -> Result<String> {
    let mounted = fuse::mounted()?;
    if mounted.is_empty() {
        return Ok(" or anywhere else".to_owned());
    }
    let paths: Vec<String> = mounted
        .iter()
        .map(|m| m.path.display().to_string())
        .collect();
    Ok(format!("; volumes are mounted on {}", paths.join(", ")))
}

/// The process behind a mount.
struct Process {
    pid: i32,
    handle: rustix::fd::OwnedFd,
}

/// Asks the mount for its process.
fn process(path: &Path) -> Option<Process> {
    let pid: i32 = fuse::told(path, PROCESS_XATTR)?.parse().ok()?;
    let handle = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    Some(Process { pid, handle })
}

impl Process {
    fn wait(&self, wait: Duration) -> Result<()> {
        let mut poll = [rustix::event::PollFd::new(
            &self.handle,
            rustix::event::PollFlags::IN,
        )];
        let timeout = rustix::time::Timespec::try_from(wait)
            .context("cannot wait that long: give a smaller --wait")?;
        if rustix::event::poll(&mut poll, Some(&timeout))? == 0 {
            bail!(
                "it is unmounted, but its process {} is still sending data to the servers: check with `weft status` whether all are up",
                self.pid
            );
        }
        Ok(())
    }
}
