use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::mount;
use crate::args::Global;
use crate::limits::{LOCK_OWNER_POLL_INTERVAL, LOCK_OWNER_TIMEOUT};
use crate::terminal::output;
use crate::volume_config::{
    LocalNode, LocalVolume, StartLock, holds_lock, lock_in, note_stopped, orphans, wait_for_end,
};

/// Stop a volume that runs on this machine, without losing data
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft down /tmp/volume
  WEFT_VOLUME=/tmp/volume weft down

Nodes that run are stopped even if weft.toml no longer names them or cannot be read.")]
pub(crate) struct Down {
    /// Folder of the volume [default: --volume or WEFT_VOLUME]
    dir: Option<PathBuf>,
    /// Seconds to wait until all nodes have stopped
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

impl Down {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let dir = self
            .dir
            .or_else(|| global.folder().map(Path::to_owned))
            .context(
                "no volume named: run `weft down DIR`, or name its folder by --volume or WEFT_VOLUME",
            )?;
        let wait = Duration::from_secs(self.wait);
        let here = LocalVolume::at(&dir);
        if let Some(error) = here.config_error() {
            if here.nodes().is_empty() {
                bail!("{}", output::error(error));
            }
            output::say(format_args!("weft: {}", output::error(error)));
        }
        let _start_lock = StartLock::of_existing(here.base(), wait)?;
        mount::unmount_of(&here, wait)?;
        let deadline = Instant::now() + wait;
        // Servers first, so that they can still send their last reports to the metadata service.
        let (meta, servers): (Vec<_>, Vec<_>) =
            here.nodes().into_iter().partition(LocalNode::is_meta);
        let mut stopped = 0;
        for group in [servers, meta] {
            let mut ending = Vec::new();
            for node in &group {
                ending.extend(stop(node)?.map(|pid| (node, pid)));
            }
            for (node, pid) in &ending {
                wait_for(&here, &node.name, *pid, deadline)?;
            }
            for node in &group {
                note_stopped(here.base(), &node.name);
            }
            stopped += ending.len();
        }
        stopped += stop_strays(&here, deadline)?;
        let dir = dir.display();
        let again = match here.needed_fix() {
            Some(fix) => format!("{fix} before `weft up {dir}`"),
            None => format!("`weft up {dir}` starts it again"),
        };
        if stopped == 0 {
            output::line(format!("volume {dir} was not running"))?;
        } else {
            output::line(format!("volume {dir} is down; {again}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits until the process of a node has ended.
fn wait_for(here: &LocalVolume, name: &str, pid: Pid, deadline: Instant) -> Result<()> {
    if wait_for_end(pid, deadline.saturating_duration_since(Instant::now())) {
        return Ok(());
    }
    bail!(
        "{name} (process {}) has not stopped yet; its log is {}: wait longer with --wait, or kill it, which loses no acknowledged \
         data",
        pid.as_raw_nonzero(),
        here.base().join(format!("log/{name}.log")).display()
    )
}

/// Stops the processes of nodes whose folders were removed or replaced since they started. Returns
/// how many there were.
fn stop_strays(here: &LocalVolume, deadline: Instant) -> Result<usize> {
    let found = orphans(here.base());
    for stray in &found {
        let process = stray.pid.as_raw_nonzero();
        let signaled = pidfd_open(stray.pid, PidfdFlags::empty())
            .and_then(|handle| pidfd_send_signal(&handle, Signal::TERM));
        match signaled {
            Ok(()) => output::say(format_args!(
                "weft: {} (process {process}) is stopped; its folder was removed or replaced while it ran, so only what the folder holds \
                 now is left",
                stray.name
            )),
            Err(Errno::SRCH) => continue,
            Err(error) => {
                return Err(anyhow!(error)
                    .context(format!("cannot stop {}, process {process}", stray.name)));
            }
        }
        wait_for(here, &stray.name, stray.pid, deadline)?;
    }
    Ok(found.len())
}

/// Stops the process of a node, if it runs, and waits for its end.
pub(super) fn stop_node(here: &LocalVolume, node: &LocalNode, wait: Duration) -> Result<()> {
    if let Some(pid) = stop(node)? {
        wait_for(here, &node.name, pid, Instant::now() + wait)?;
    }
    note_stopped(here.base(), &node.name);
    Ok(())
}

/// Signals the process of a node to stop, if it runs. Process numbers are reused, so only the
/// process that holds the node's lock is signaled.
fn stop(node: &LocalNode) -> Result<Option<Pid>> {
    let began = Instant::now();
    loop {
        let Some(running) = lock_in(&node.folder)? else {
            return Ok(None);
        };
        if let Some(pid) = Pid::from_raw(running.pid) {
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(process) if holds_lock(pid, &node.folder) => {
                    let signaled = pidfd_send_signal(&process, Signal::TERM);
                    return match signaled {
                        Ok(()) | Err(Errno::SRCH) => Ok(Some(pid)),
                        Err(error) => Err(anyhow!(error).context(format!(
                            "cannot stop {}, process {}",
                            node.name, running.pid
                        ))),
                    };
                }
                _ => {}
            }
        }
        if began.elapsed() > LOCK_OWNER_TIMEOUT {
            bail!(
                "cannot stop {}: the lock in {} is held, but process {} is not visible from here; it may belong to another user or \
                 container",
                node.name,
                node.folder.display(),
                running.pid
            );
        }
        sleep(LOCK_OWNER_POLL_INTERVAL);
    }
}
