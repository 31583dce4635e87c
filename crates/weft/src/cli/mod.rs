//! The whole command line: global options and all commands, how it is parsed, the families in its
//! help, and the messages about misuse.

mod help;
pub(crate) mod misuse;

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand};
use clap::{CommandFactory, FromArgMatches, Id, Parser};

use crate::args::Global;
use crate::commands::Command;

/// Weft, a parallel file system in user space.
#[derive(Parser)]
#[command(
    name = "weft",
    version,
    about,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Reads the command line. An empty variable (`WEFT_VOLUME= weft …`) counts as unset.
    pub(crate) fn parse_from_words(args: &[OsString]) -> Result<Cli, clap::Error> {
        let mut command = Cli::command();
        let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
        let unset: Vec<Id> = command
            .get_arguments()
            .filter(|arg| arg.get_env().is_some_and(is_empty))
            .map(|arg| arg.get_id().clone())
            .collect();
        for id in unset {
            command = command.mut_arg(id, |arg| arg.env(Resettable::Reset));
        }
        let mut matches = command.try_get_matches_from_mut(args);
        if let Err(DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand) =
            matches.as_ref().map_err(clap::Error::kind)
        {
            // Only help pays for its families.
            command = help::by_family(command);
            matches = command.try_get_matches_from_mut(args);
        }
        let mut matches = matches?;
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// The command and the options that every command has.
    pub(crate) fn into_parts(self) -> (Command, Global) {
        (self.command, self.global)
    }
}
