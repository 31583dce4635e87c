use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::mount::unmount;
use crate::terminal::output;

/// Unmount a volume
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft unmount /mnt/weft
  weft unmount --lazy /mnt/weft     detach it at once; programs that use it finish first

On return, all written data is on the servers and the mount's process has ended (not with --lazy).")]
pub(crate) struct Unmount {
    /// The mount point
    path: PathBuf,
    /// Detach the mount even if it is in use: programs that use it go on, no others can
    #[arg(long, short)]
    lazy: bool,
    /// Seconds to wait for the mount's process to end
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
