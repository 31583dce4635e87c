//! Upkeep of a volume: checking it, reading everything again, returning free space, removing chunks
//! that no file has, judging what programs were returned.
//!
//! Each asks the servers to do the work and shows what they found; `referee` reads recorded
//! histories.
//!
//! Owns no state. Invariants: `fsck` repairs only if the command line asks for it; exit codes say
//! whether something is wrong. Checks and repairs are in the libraries: here are only options,
//! progress and text. `fsck` can run a stopped volume inside its process (`fsck/offline.rs`).

mod clean;
mod fsck;
mod referee;
mod scrub;
mod trim;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;

/// The commands of this family, in the order in which help lists them.
#[derive(Subcommand)]
pub(crate) enum UpkeepCommand {
    Fsck(fsck::Fsck),
    Scrub(scrub::Scrub),
    Trim(trim::Trim),
    Clean(clean::Clean),
    Referee(referee::Referee),
}

impl UpkeepCommand {
    /// Runs the command.
    pub(crate) fn run(self, global: Global) -> Result<ExitCode> {
        match self {
            UpkeepCommand::Fsck(command) => Ok(command.run(global)),
            UpkeepCommand::Scrub(command) => command.run(global),
            UpkeepCommand::Trim(command) => command.run(global),
            UpkeepCommand::Clean(command) => command.run(global),
            UpkeepCommand::Referee(command) => command.run(),
        }
    }
}
