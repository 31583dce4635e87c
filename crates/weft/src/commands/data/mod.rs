//! The bytes of files: whole files, views, cells, forks and checkpoints of them.
//!
//! Commands of a group (`create`, `read`, `write`) may run together with others of their kind.
//!
//! Owns no state but the meeting of a group's members (`create/meeting.rs`). Invariant: a command
//! checks its options before it changes a file. Streams, transfers and the parsing of requests are
//! below (`streams`, `transfer`, `args`); no other family is imported.

mod cat;
mod checkpoint;
mod create;
mod export;
mod fork;
mod import;
mod put;
mod read;
mod truncate;
mod write;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;

/// The commands of this family, in the order in which help lists them.
#[derive(Subcommand)]
pub(crate) enum DataCommand {
    Create(create::Create),
    Put(put::Put),
    Cat(cat::Cat),
    Read(read::Read),
    Write(write::Write),
    Truncate(truncate::Truncate),
    Fork(fork::Fork),
    Import(import::Import),
    Export(export::Export),
    Checkpoint(checkpoint::Checkpoint),
}

impl DataCommand {
    /// Runs the command.
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        match self {
            DataCommand::Create(command) => command.run(global),
            DataCommand::Put(command) => command.run(global),
            DataCommand::Cat(command) => command.run(global),
            DataCommand::Read(command) => command.run(global),
            DataCommand::Write(command) => command.run(global),
            DataCommand::Truncate(command) => command.run(global),
            DataCommand::Fork(command) => command.run(global),
            DataCommand::Import(command) => command.run(global),
            DataCommand::Export(command) => command.run(global),
            DataCommand::Checkpoint(command) => command.run(global),
        }
    }
}
