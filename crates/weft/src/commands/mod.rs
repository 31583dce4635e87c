//! The subcommands, one file each.

mod bench;
mod cat;
mod checkpoint;
mod chmod;
mod chown;
mod completions;
mod cp;
mod create;
mod down;
mod duplicates;
mod explain;
mod export;
mod fork;
mod format;
mod fsck;
mod grid;
mod import;
mod ln;
mod ls;
mod man;
mod mkdir;
mod mount;
mod mv;
mod put;
mod quota;
mod read;
mod rm;
mod scrub;
mod serve;
mod server;
mod sort;
mod stat;
mod status;
mod trim;
mod truncate;
mod unmount;
mod up;
mod write;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::Cli;
use crate::process::private_files;

#[derive(Subcommand)]
pub(crate) enum Command {
    Bench(bench::Bench),
    #[command(hide = true)]
    BenchWorker(bench::BenchWorker),
    Cat(cat::Cat),
    Checkpoint(checkpoint::Checkpoint),
    Chmod(chmod::Chmod),
    Chown(chown::Chown),
    Completions(completions::Completions),
    Cp(cp::Cp),
    Create(create::Create),
    Down(down::Down),
    Duplicates(duplicates::Duplicates),
    #[command(hide = true)]
    DuplicatesWorker(duplicates::DuplicatesWorker),
    Explain(explain::Explain),
    Export(export::Export),
    Fork(fork::Fork),
    Format(format::Format),
    Fsck(fsck::Fsck),
    Grid(grid::Grid),
    Import(import::Import),
    Ln(ln::Ln),
    Ls(ls::Ls),
    Man(man::Man),
    Mkdir(mkdir::Mkdir),
    Mount(mount::Mount),
    Mv(mv::Mv),
    Put(put::Put),
    Quota(quota::Quota),
    Read(read::Read),
    Rm(rm::Rm),
    Scrub(scrub::Scrub),
    Serve(serve::Serve),
    Server(server::Server),
    Sort(sort::Sort),
    #[command(hide = true)]
    SortPath(sort::SortPath),
    #[command(hide = true)]
    SortWorker(sort::SortWorker),
    Stat(stat::Stat),
    Status(status::Status),
    Trim(trim::Trim),
    Truncate(truncate::Truncate),
    Unmount(unmount::Unmount),
    Up(up::Up),
    Write(write::Write),
}

pub(crate) use mount::as_mount_helper;

/// Whether a command makes files that are a volume's own; others make their users' files, as their umasks say.
fn makes_files_of_a_volume(command: &Command) -> bool {
    matches!(
        command,
        Command::Down(_)
            | Command::Format(_)
            | Command::Fsck(_)
            | Command::Mount(_)
            | Command::Serve(_)
            | Command::Up(_)
    )
}

/// Runs the command of a parsed command line.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    if makes_files_of_a_volume(&cli.command) {
        private_files::narrow_umask();
    }
    match cli.command {
        Command::Bench(command) => command.run(&cli.global),
        Command::BenchWorker(_) => Ok(bench::run_worker()),
        Command::Cat(command) => command.run(&cli.global),
        Command::Checkpoint(command) => command.run(&cli.global),
        Command::Chmod(command) => command.run(&cli.global),
        Command::Chown(command) => command.run(&cli.global),
        Command::Completions(command) => command.run(),
        Command::Cp(command) => command.run(&cli.global),
        Command::Create(command) => command.run(&cli.global),
        Command::Down(command) => command.run(&cli.global),
        Command::Duplicates(command) => command.run(&cli.global),
        Command::DuplicatesWorker(_) => Ok(duplicates::run_worker(&cli.global)),
        Command::Explain(command) => command.run(&cli.global),
        Command::Export(command) => command.run(&cli.global),
        Command::Fork(command) => command.run(&cli.global),
        Command::Format(command) => command.run(),
        Command::Fsck(command) => Ok(command.run(cli.global)),
        Command::Grid(command) => command.run(&cli.global),
        Command::Import(command) => command.run(&cli.global),
        Command::Ln(command) => command.run(&cli.global),
        Command::Ls(command) => command.run(&cli.global),
        Command::Man(command) => command.run(),
        Command::Mkdir(command) => command.run(&cli.global),
        Command::Mount(command) => command.run(cli.global),
        Command::Mv(command) => command.run(&cli.global),
        Command::Put(command) => command.run(&cli.global),
        Command::Quota(command) => command.run(&cli.global),
        Command::Read(command) => command.run(&cli.global),
        Command::Rm(command) => command.run(&cli.global),
        Command::Scrub(command) => command.run(cli.global),
        Command::Serve(command) => command.run(),
        Command::Server(command) => command.run(&cli.global),
        Command::Sort(command) => command.run(&cli.global),
        Command::SortPath(command) => command.run(&cli.global),
        Command::SortWorker(_) => Ok(sort::run_worker(&cli.global)),
        Command::Stat(command) => command.run(&cli.global),
        Command::Status(command) => command.run(cli.global),
        Command::Trim(command) => command.run(cli.global),
        Command::Truncate(command) => command.run(&cli.global),
        Command::Unmount(command) => command.run(),
        Command::Up(command) => command.run(cli.global.wire),
        Command::Write(command) => command.run(&cli.global),
    }
}
