//! Commands that explain Weft itself: what a request would do, completions and manual pages.
//!
//! Completions and manual pages are generated from the whole command line, which the caller passes.
//!
//! Owns no state. Invariants: `explain` transfers no data, and uses the arithmetic of `weft-layout`
//! that client and servers use; completions and manual pages need no volume.

mod completions;
mod explain;
mod man;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;

/// The commands of this family, in the order in which help lists them.
#[derive(Subcommand)]
pub(crate) enum HelpCommand {
    Explain(Box<explain::Explain>),
    Completions(completions::Completions),
    Man(man::Man),
}

impl HelpCommand {
    /// Runs the command. `whole`: the whole command line of `weft`.
    pub(crate) fn run(self, global: &Global, whole: fn() -> clap::Command) -> Result<ExitCode> {
        match self {
            HelpCommand::Explain(command) => command.run(global),
            HelpCommand::Completions(command) => command.run(whole()),
            HelpCommand::Man(command) => command.run(whole()),
        }
    }
}
