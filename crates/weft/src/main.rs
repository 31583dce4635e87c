//! `weft`: one binary for servers, administrators and users. `cli` parses the command line; a
//! command in `commands/` validates its options and calls a library.
//!
//! Imports run downward: `cli` and `commands` at the top; `apps`, `transfer` and `copy`; `remote`
//! and `streams`; `volume_config` and `args`; `process` and `terminal`; `limits` at the bottom.

// These macros panic when their stream is closed; `terminal::output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod apps;
mod args;
mod cli;
mod commands;
mod copy;
mod limits;
mod process;
mod remote;
mod streams;
mod terminal;
mod transfer;
mod volume_config;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, misuse};
use crate::remote::connect;
use crate::terminal::{interrupt, output};

/// A small call makes some sixty allocations, many beyond what the system's allocator caches per
/// thread. With the system's allocator they took a seventh of the call's processor time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Prints help or version, or reports misuse. `weft fsck` has the exit codes of fsck(8), where 2
/// has another meaning.
fn misused(args: &[OsString], error: clap::Error) -> ExitCode {
    let code = error.exit_code();
    if code == 0 {
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        // Help that cannot be written is a failure, like any other output.
        return printed.map_or_else(|e| failed(&anyhow::Error::new(e)), |()| ExitCode::SUCCESS);
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        output::say(misuse::words(args, error));
    }
    misuse_code(args, code)
}

fn misuse_code(args: &[OsString], code: i32) -> ExitCode {
    let understood = Cli::command()
        .ignore_errors(true)
        .try_get_matches_from(args);
    if understood.is_ok_and(|words| words.subcommand_name() == Some("fsck")) {
        return ExitCode::from(16);
    }
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn main() -> ExitCode {
    let Some(args) = commands::as_mount_helper(std::env::args_os()) else {
        // mount(8) asked for a dry run.
        return ExitCode::SUCCESS;
    };
    let cli = match Cli::parse_from_words(&args) {
        Ok(cli) => cli,
        Err(error) => return misused(&args, error),
    };
    if let Some(words) = misuse::lacks_key(&cli) {
        output::say(words);
        return misuse_code(&args, 2);
    }
    let (command, global) = cli.into_parts();
    match command.run(global.clone(), Cli::command) {
        Ok(code) => code,
        Err(error) => failed(&connect::explained(&global, error)),
    }
}

/// Reports the error that ended the command, unless its reader went away (`weft cat … | head`).
fn failed(error: &anyhow::Error) -> ExitCode {
    if output::is_broken_pipe(error) {
        return ExitCode::from(141);
    }
    output::say(format_args!("weft: {}", output::error(error)));
    interrupt::exit_code(error).unwrap_or(ExitCode::FAILURE)
}
