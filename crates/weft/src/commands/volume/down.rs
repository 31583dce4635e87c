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
use crate::terminal::output;
use crate::volume_config::{
    Here, NodeHere, Starter, holds_lock, lock_in, note_stopped, strays, wait_for_end,
};

/// Stop a volume that runs on this machine; nothing is lost
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft down /tmp/volume
  WEFT_VOLUME=/tmp/volume weft down

It stops what runs, also if weft.toml names it no more or cannot be read.")]
pub(crate) struct Down {
    /// Folder of the volume (default: --volume or WEFT_VOLUME)
    dir: Option<PathBuf>,
    /// How long to wait for the nodes to end, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

/// How long a node may take to write its number into a lock that it has taken.
const WRITES: Duration = Duration::from_secs(2);

impl Down {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let dir = self
            .dir
            .or_else(|| global.folder().map(Path::to_owned))
            .context(
                "which volume? `weft down DIR`, or name its folder by --volume or WEFT_VOLUME",
            )?;
        let wait = Duration::from_secs(self.wait);
        let here = Here::at(&dir);
        if let Some(error) = here.obstacle() {
            if here.nodes().is_empty() {
                bail!("{}", output::error(error));
            }
            output::say(format_args!("weft: {}", output::error(error)));
        }
        let _starter = Starter::of_existing(here.base(), wait)?;
        mount::unmount_of(&here, wait)?;
        let deadline = Instant::now() + wait;
        // Servers first: while the metadata service runs, they can send it their last reports.
        let (meta, servers): (Vec<_>, Vec<_>) =
            here.nodes().into_iter().partition(NodeHere::is_meta);
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
        let again = match here.hindrance() {
            Some(first) => format!("{first} before `weft up {dir}`"),
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
fn wait_for(here: &Here, name: &str, pid: Pid, deadline: Instant) -> Result<()> {
    if wait_for_end(pid, deadline.saturating_duration_since(Instant::now())) {
        return Ok(());
    }
    bail!(
        "{name} (process {}) has not ended; its log is {}. Killing it loses nothing that was acknowledged",
        pid.as_raw_nonzero(),
        here.base().join(format!("log/{name}.log")).display()
    )
}

/// Stops the processes of nodes whose folders are not the ones they were started with; how many
/// there were.
fn stop_strays(here: &Here, deadline: Instant) -> Result<usize> {
    let found = strays(here.base());
    for stray in &found {
        let process = stray.pid.as_raw_nonzero();
        let told = pidfd_open(stray.pid, PidfdFlags::empty())
            .and_then(|handle| pidfd_send_signal(&handle, Signal::TERM));
        match told {
            Ok(()) => output::say(format_args!(
                "weft: {} (process {process}) ran without its folder, which was removed or replaced under it: it is stopped, and what is in \
                 the folder now is what is left of it",
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

/// Has the process of a node end, if it runs. The process that is told so is the one that holds the
/// node's lock: numbers are given out again.
fn stop(node: &NodeHere) -> Result<Option<Pid>> {
    let began = Instant::now();
    loop {
        let Some(running) = lock_in(&node.folder)? else {
            return Ok(None);
        };
        if let Some(pid) = Pid::from_raw(running.pid) {
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(process) if holds_lock(pid, &node.folder) => {
                    let told = pidfd_send_signal(&process, Signal::TERM);
                    return match told {
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
        if began.elapsed() > WRITES {
            bail!(
                "{} runs, by the lock in {}, but not as process {} of those that can be seen from here: it may be another user's or \
                 another container's",
                node.name,
                node.folder.display(),
                running.pid
            );
        }
        sleep(Duration::from_millis(20));
    }
}
