//! `weft server`: the servers of a volume and their replicas, which come and go while it runs.

mod accept_rollback;
mod add;
mod drain;
mod list;
mod remove;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::args::Global;
use crate::volume_config::Config;

pub(super) use add::say_joined;
pub(super) use remove::wait_until_left;

/// List, add, replace, drain and remove servers and their replicas while the volume runs
#[derive(Args)]
pub(crate) struct Server {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(list::List),
    Add(add::Add),
    Replace(add::Replace),
    Drain(drain::Drain),
    Remove(remove::Remove),
    AcceptRollback(accept_rollback::AcceptRollback),
}

impl Server {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        match self.action {
            Action::List(list) => list.run(global),
            Action::Add(add) => add.run(global),
            Action::Replace(replace) => replace.run(global),
            Action::Drain(drain) => drain.run(global),
            Action::Remove(remove) => remove.run(global),
            Action::AcceptRollback(accept) => accept.run(global),
        }
    }
}

/// The configuration of the volume's folder on this machine.
fn local(global: &Global) -> Result<Config> {
    let folder = global.folder().filter(|_| global.address().is_none());
    let folder = folder.context(
        "name the folder of the volume, where the node is kept, by --volume or WEFT_VOLUME; on a machine without one use `weft join`",
    )?;
    Config::read(folder)
}
