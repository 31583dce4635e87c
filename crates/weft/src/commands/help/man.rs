use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};

/// Write the manual pages of all commands
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft man /usr/local/share/man/man1\n  weft man /tmp/man && man -l /tmp/man/weft-cp.1"
)]
pub(crate) struct Man {
    /// Folder for the pages; created if it does not exist
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self, whole: Command) -> Result<ExitCode> {
        std::fs::create_dir_all(&self.dir)
            .with_context(|| format!("cannot make {}", self.dir.display()))?;
        clap_mangen::generate_to(whole, &self.dir)
            .with_context(|| format!("cannot write manual pages to {}", self.dir.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
