use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::mount::unmount;
use crate::terminal::output;

/// Take a mounted volume away from its path
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft unmount /mnt/weft
  weft unmount --lazy /mnt/weft     gone from the path at once, for those who use it when they are done

When it returns, everything that was written is at the servers and the mount's process has ended.")]
pub(crate) struct Unmount {
    /// Where it is mounted
    path: PathBuf,
    /// Also if somebody uses it: nobody new can
    #[arg(long, short)]
    lazy: bool,
    /// How long to wait for the mount's process to end, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

impl Unmount {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let path = std::path::absolute(&self.path)?;
        // Called from below the path, this process would be one of those that use it.
        std::env::set_current_dir("/")?;
        let path = unmount(&path, self.lazy, Duration::from_secs(self.wait))?;
        output::line(format!("unmounted {}", path.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
