//! The volume as a whole: making, starting, serving, mounting and stopping it.
//!
//! Administrators run these. `up` and `down` are built of the others: they format, serve, mount and
//! unmount through the functions that this folder shares; so do `join` and `server`, for one node.

mod down;
mod format;
mod join;
mod mount;
mod new_node;
mod nodes;
mod quota;
mod rebuild;
mod serve;
mod server;
mod status;
mod unmount;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;

pub(crate) use mount::as_mount_helper;

/// The commands of this family, in the order in which help lists them.
#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    Up(up::Up),
    Down(down::Down),
    Status(status::Status),
    Format(format::Format),
    Serve(serve::Serve),
    Join(join::Join),
    Server(server::Server),
    Mount(mount::Mount),
    Unmount(unmount::Unmount),
    Quota(quota::Quota),
}

impl VolumeCommand {
    /// Runs the command.
    pub(crate) fn run(self, global: Global) -> Result<ExitCode> {
        match self {
            VolumeCommand::Up(command) => command.run(global.wire()),
            VolumeCommand::Down(command) => command.run(&global),
            VolumeCommand::Status(command) => command.run(global),
            VolumeCommand::Format(command) => command.run(),
            VolumeCommand::Serve(command) => command.run(),
            VolumeCommand::Join(command) => command.run(&global),
            VolumeCommand::Server(command) => command.run(&global),
            VolumeCommand::Mount(command) => command.run(global),
            VolumeCommand::Unmount(command) => command.run(),
            VolumeCommand::Quota(command) => command.run(&global),
        }
    }
}
