use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::Changes;

use crate::args::Global;
use crate::args::owner::{self, Owner};
use crate::remote::{self, Location, RemotePath, Visit, Walk, connect};
use crate::terminal::{Problems, interrupt};

/// Change the owner and group of files
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  weft chown alice /data\n  weft chown -R alice:users /results\n  \
                        weft chown :1000 /data"
)]
pub(crate) struct Chown {
    /// USER, USER:GROUP, USER: (with the user's login group) or :GROUP; names or numbers
    #[arg(value_name = "OWNER", value_parser = owner::parse)]
    owner: Owner,
    /// The files
    #[arg(value_name = "PATH", required = true, value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Change directories with everything in them; symbolic links are not followed
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Change symbolic links themselves, not their targets
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Chown {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let changes = |no_follow| Changes {
            uid: self.owner.uid,
            gid: self.owner.gid,
            no_follow,
            ..Changes::default()
        };
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            let walk = Walk::new(&volume, &problems, |when, location: Location, _| {
                let (volume, changes) = (volume.clone(), changes(true));
                async move {
                    if when != Visit::Enter {
                        volume.set_attributes(location.place(), &changes).await?;
                    }
                    Ok(())
                }
            });
            let all = async {
                for path in &self.paths {
                    if !self.recursive {
                        let result = volume
                            .set_attributes(path, &changes(self.no_dereference))
                            .await;
                        problems.note(result);
                        continue;
                    }
                    let found = if self.no_dereference {
                        volume.stat_link(path).await
                    } else {
                        volume.stat(path).await
                    };
                    if let Some(attributes) = problems.note(found) {
                        walk.from(path.clone(), attributes).await;
                    }
                }
                Ok(problems.exit_code())
            };
            interrupt::guard(all, || walk.interrupted("changed")).await
        })
    }
}
