use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;

/// Print shell completions
#[derive(Args)]
#[command(after_help = "Examples:\n  weft completions bash > /etc/bash_completion.d/weft\n  \
                        weft completions zsh > ~/.zfunc/_weft")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut command = Cli::command();
        clap_complete::generate(self.shell, &mut command, "weft", &mut std::io::stdout());
        Ok(ExitCode::SUCCESS)
    }
}
