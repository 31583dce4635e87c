use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft completions bash > /etc/bash_completion.d/weft\n  \
                        weft completions zsh > ~/.zfunc/_weft"
)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut whole: Command) -> Result<ExitCode> {
        // Through memory: the generator would panic if the reader of a pipe is gone.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole, "weft", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
