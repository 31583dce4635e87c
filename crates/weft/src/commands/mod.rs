//! The commands, by family: a folder for each family, and in it a file or folder for each command.
//!
//! A family is an enum of its commands; [`Command`] is all of them, and [`FAMILIES`] gives each its
//! heading in the help. Commands of one family may share what their folder offers. What commands of
//! several families need lies below, in `args`, `remote`, `volume_config` and so on: no family
//! imports another.

mod apps;
mod data;
mod files;
mod help;
mod upkeep;
mod volume;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;
use crate::process::private_files;

pub(crate) use volume::as_mount_helper;

/// Every command, by family.
#[derive(Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Volume(volume::VolumeCommand),
    #[command(flatten)]
    Files(files::FilesCommand),
    #[command(flatten)]
    Data(data::DataCommand),
    #[command(flatten)]
    Upkeep(upkeep::UpkeepCommand),
    #[command(flatten)]
    Apps(apps::AppsCommand),
    #[command(flatten)]
    Help(help::HelpCommand),
}

/// A family of commands, as the help shows it.
pub(crate) struct Family {
    heading: &'static str,
    add: fn(clap::Command) -> clap::Command,
}

impl Family {
    const fn of<C: Subcommand>(heading: &'static str) -> Family {
        Family {
            heading,
            add: C::augment_subcommands,
        }
    }

    /// What stands above its commands.
    pub(crate) fn heading(&self) -> &'static str {
        self.heading
    }

    /// The names of its commands, hidden ones included, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let family = (self.add)(clap::Command::new("weft"));
        let commands = family.get_subcommands();
        commands.map(|c| c.get_name().to_owned()).collect()
    }
}

/// The families in the order in which the help lists them.
pub(crate) const FAMILIES: [Family; 6] = [
    Family::of::<volume::VolumeCommand>("Volumes"),
    Family::of::<files::FilesCommand>("Files and directories"),
    Family::of::<data::DataCommand>("Data"),
    Family::of::<upkeep::UpkeepCommand>("Upkeep"),
    Family::of::<apps::AppsCommand>("Applications and benchmarks"),
    Family::of::<help::HelpCommand>("Help"),
];

impl Command {
    /// Whether the command makes files that are a volume's own. Files of users follow their umask.
    fn makes_files_of_a_volume(&self) -> bool {
        use upkeep::UpkeepCommand;
        use volume::VolumeCommand;
        matches!(
            self,
            Command::Volume(
                VolumeCommand::Down(_)
                    | VolumeCommand::Format(_)
                    | VolumeCommand::Mount(_)
                    | VolumeCommand::Serve(_)
                    | VolumeCommand::Up(_)
            ) | Command::Upkeep(UpkeepCommand::Fsck(_))
        )
    }

    /// Whether the command's own options name the file of the volume's key.
    pub(crate) fn names_key(&self) -> bool {
        matches!(self, Command::Volume(volume::VolumeCommand::Mount(mount)) if mount.names_key())
    }

    /// Runs the command. `whole`: the whole command line of `weft`, for commands that print it.
    pub(crate) fn run(self, global: Global, whole: fn() -> clap::Command) -> Result<ExitCode> {
        if self.makes_files_of_a_volume() {
            private_files::narrow_umask();
        }
        match self {
            Command::Volume(command) => command.run(global),
            Command::Files(command) => command.run(&global, whole),
            Command::Data(command) => command.run(&global),
            Command::Upkeep(command) => command.run(global),
            Command::Apps(command) => command.run(&global),
            Command::Help(command) => command.run(&global, whole),
        }
    }
}
