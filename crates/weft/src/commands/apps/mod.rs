//! Parallel applications on a volume, and benchmarks.
//!
//! The applications themselves are in `crate::apps` and `weft-suite`; hidden commands are their
//! worker processes.

mod bench;
mod duplicates;
mod grid;
mod sort;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;

/// The commands of this family, in the order in which help lists them.
#[derive(Subcommand)]
pub(crate) enum AppsCommand {
    Sort(sort::Sort),
    #[command(hide = true)]
    SortPath(sort::SortPath),
    #[command(hide = true)]
    SortWorker(sort::SortWorker),
    Duplicates(duplicates::Duplicates),
    #[command(hide = true)]
    DuplicatesWorker(duplicates::DuplicatesWorker),
    Grid(grid::Grid),
    Bench(bench::Bench),
    #[command(hide = true)]
    BenchWorker(bench::BenchWorker),
}

impl AppsCommand {
    /// Runs the command.
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        match self {
            AppsCommand::Sort(command) => command.run(global),
            AppsCommand::SortPath(command) => command.run(global),
            AppsCommand::SortWorker(_) => Ok(sort::run_worker(global)),
            AppsCommand::Duplicates(command) => command.run(global),
            AppsCommand::DuplicatesWorker(_) => Ok(duplicates::run_worker(global)),
            AppsCommand::Grid(command) => command.run(global),
            AppsCommand::Bench(command) => command.run(global),
            AppsCommand::BenchWorker(_) => Ok(bench::run_worker()),
        }
    }
}
