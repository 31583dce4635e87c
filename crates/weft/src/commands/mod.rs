//! The subcommands, one file each.

mod completions;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::Cli;

#[derive(Subcommand)]
pub(crate) enum Command {
    Completions(completions::Completions),
}

/// Runs the command of a parsed command line.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Completions(command) => command.run(),
    }
}
