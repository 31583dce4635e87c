use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::Global;
use crate::commands::mount;
use crate::output;
use crate::volume_config::{Config, NodeName, lock_of, wait_for_end};

/// Stop a volume that runs on this machine; nothing is lost
#[derive(Args)]
#[command(after_help = "Examples:\n  weft down /tmp/volume\n  WEFT_VOLUME=/tmp/volume weft down")]
pub(crate) struct Down {
    /// Folder of the volume (default: --volume or WEFT_VOLUME)
    dir: Option<PathBuf>,
    /// How long to wait for the nodes to end, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

impl Down {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let dir = self.dir.or_else(|| global.volume.clone()).context(
            "which volume? `weft down DIR`, or name its folder by --volume or WEFT_VOLUME",
        )?;
        let config = Config::read(&dir)?;
        mount::unmount_of(&config, Duration::from_secs(self.wait))?;
        let mut nodes = config.nodes();
        // Servers first: what they still owe to the metadata service they can say.
        nodes.reverse();
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        let (meta, servers): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|n| *n == NodeName::Meta);
        let mut stopped = 0;
        for group in [servers, meta] {
            let running = group
                .into_iter()
                .filter_map(|node| match lock_of(&config, node) {
                    Ok(Some(found)) => Some(Ok((node, found.pid))),
                    Ok(None) => None,
                    Err(e) => Some(Err(e)),
                })
                .collect::<Result<Vec<_>>>()?;
            for (node, pid) in &running {
                let id = Pid::from_raw(*pid)
                    .with_context(|| format!("{node} is just starting; try again"))?;
                kill_process(id, Signal::TERM)
                    .with_context(|| format!("cannot stop {node}, process {pid}"))?;
            }
            for (node, pid) in &running {
                let left = deadline.saturating_duration_since(Instant::now());
                let ended = Pid::from_raw(*pid).is_none_or(|id| wait_for_end(id, left));
                if !ended {
                    bail!(
                        "{node} (process {pid}) has not ended; its log is {}. Killing it loses nothing \
                             that was acknowledged",
                        node.log(&config).display()
                    );
                }
            }
            stopped += running.len();
        }
        let dir = dir.display();
        if stopped == 0 {
            output::line(format!("volume {dir} was not running"))?;
        } else {
            output::line(format!(
                "volume {dir} is down; `weft up {dir}` starts it again"
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
