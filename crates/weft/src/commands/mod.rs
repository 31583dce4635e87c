//! The subcommands, one file each.

mod completions;
mod down;
mod format;
mod serve;
mod status;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::Cli;

#[derive(Subcommand)]
pub(crate) enum Command {
    Completions(completions::Completions),
    Down(down::Down),
    Format(format::Format),
    Serve(serve::Serve),
    Status(status::Status),
    Up(up::Up),
}

/// Runs the command of a parsed command line.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Completions(command) => command.run(),
        Command::Down(command) => command.run(),
        Command::Format(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Status(command) => command.run(cli.global),
        Command::Up(command) => command.run(),
    }
}
