//! Names and attributes of files and directories, by the usual Unix names.
//!
//! Each command translates its options to calls of the client, prints what they return, and goes on
//! after a failure of one path.

mod chmod;
mod chown;
mod cp;
mod ln;
mod ls;
mod mkdir;
mod mv;
mod policy;
mod rm;
mod stat;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;

/// The commands of this family, in the order in which help lists them.
#[derive(Subcommand)]
pub(crate) enum FilesCommand {
    Ls(ls::Ls),
    Stat(stat::Stat),
    Mkdir(mkdir::Mkdir),
    Rm(rm::Rm),
    Mv(mv::Mv),
    Ln(ln::Ln),
    Cp(cp::Cp),
    Chmod(chmod::Chmod),
    Chown(chown::Chown),
    Policy(policy::SetPolicy),
}

impl FilesCommand {
    /// Runs the command. `whole`: the whole command line of `weft`.
    pub(crate) fn run(self, global: &Global, whole: fn() -> clap::Command) -> Result<ExitCode> {
        match self {
            FilesCommand::Ls(command) => command.run(global),
            FilesCommand::Stat(command) => command.run(global),
            FilesCommand::Mkdir(command) => command.run(global),
            FilesCommand::Rm(command) => command.run(global),
            FilesCommand::Mv(command) => command.run(global),
            FilesCommand::Ln(command) => command.run(global),
            FilesCommand::Cp(command) => command.run(global, whole),
            FilesCommand::Chmod(command) => command.run(global),
            FilesCommand::Chown(command) => command.run(global),
            FilesCommand::Policy(command) => command.run(global),
        }
    }
}
