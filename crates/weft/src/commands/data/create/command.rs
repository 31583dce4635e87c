use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::{Access, Changes, File, NewLayout, Volume};
use weft_proto::Code;

use super::meeting::Meeting;
use crate::args::group::{Membership, warn_of};
use crate::args::{Global, GroupArgs, LayoutArgs, mode};
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output;

/// Create a file with a given layout, or set the layout of new files in a directory
#[derive(Args)]
#[command(after_help = "Examples:
  weft create /grid --cells 4 --bsu 4K              a file of four cells
  weft create /grid --cells 8 --bsu 64K --servers 2,0,1
  weft create /log --cells 1 --bsu 1M --base 3      one cell, on server 3
  weft create --directory /results --cells 16       new files in /results get 16 cells
  weft create /state --addressed --chunk 64K --policy seq-2

Groups: the members of a group on one machine create or find the file with one request, sent by member 0; each prints which it \
was. All members must give the same group and layout:
  for k in 0 1 2 3; do weft create /grid --cells 4 --group start --members 4 --member $k & done; wait")]
pub(crate) struct Create {
    /// The file; it must not exist, except in a group (with --directory: an existing directory)
    #[arg(value_name = "FILE", required = true, value_parser = remote::parser())]
    files: Vec<RemotePath>,
    #[command(flatten)]
    layout: LayoutArgs,
    /// The server that holds cell 0
    #[arg(long, value_name = "ID", conflicts_with = "servers")]
    base: Option<u32>,
    /// The servers in order, starting with that of cell 0
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',')]
    servers: Vec<u32>,
    /// Permission bits, not reduced by the umask [default: 0666 minus the umask]
    #[arg(long, value_name = "OCTAL", value_parser = mode::octal, conflicts_with = "directory")]
    mode: Option<u32>,
    /// The consistency policy (`weft policy` lists them)
    #[arg(long, value_name = "POLICY", conflicts_with = "group")]
    policy: Option<String>,
    /// Set the layout that new files in this directory inherit. What no option names stays, but for
    /// the servers if --cells is given; without any option, the directory has no layout of its own
    /// any more
    #[arg(long, conflicts_with = "group")]
    directory: bool,
    #[command(flatten)]
    group: GroupArgs,
}

impl Create {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let layout = NewLayout {
            servers: self.servers.clone(),
            base: self.base,
            ..self.layout.layout()
        };
        let place = self.group.membership();
        if let Some(place) = &place {
            place.check()?;
        }
        connect::block_on(async {
            if let Some(place) = place {
                self.together(global, &place, &layout).await?;
                return Ok(ExitCode::SUCCESS);
            }
            let volume = connect::volume(global).await?;
            let policy = self.policy.as_deref();
            let policy = policy
                .map(|name| volume.policies().find(name))
                .transpose()?;
            for path in &self.files {
                if self.directory {
                    // A policy alone leaves the layout what it is.
                    let is_layout = layout != NewLayout::default() || policy.is_none();
                    let changes = Changes {
                        layout: is_layout.then(|| layout.clone()),
                        policy: policy.map(Some),
                        ..Changes::default()
                    };
                    volume.set_attributes(path, &changes).await?;
                    continue;
                }
                let access = Access::write().create_new(self.mode()).layout(&layout);
                match volume.attach(path, access).await {
                    Ok(file) => {
                        if let Some(policy) = policy {
                            if let Err(refused) = file.set_policy(policy) {
                                // Nothing was asked for that can be had.
                                file.close().await?;
                                volume.unlink(path).await?;
                                return Err(refused.into());
                            }
                            let changes = Changes {
                                policy: Some(Some(policy)),
                                ..Changes::default()
                            };
                            volume.set_attributes(path, &changes).await?;
                        }
                        file.close().await?;
                    }
                    Err(e) if e.code() == Code::Exists => bail!(
                        "{path} exists, and the layout of an existing file cannot change: remove it first, or choose another name"
                    ),
                    Err(e) => return Err(e.into()),
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    fn mode(&self) -> u32 {
        self.mode.unwrap_or_else(|| 0o666 & !mode::umask())
    }

    /// Creates or finds each file by one attach, which member 0 sends for the whole group.
    async fn together(
        &self,
        global: &Global,
        place: &Membership,
        layout: &NewLayout,
    ) -> Result<()> {
        let options = connect::options(global)?;
        let about = format!("create {:?} {layout:?}", self.files);
        let (mut meeting, missing) = Meeting::gather(place, &options, &about).await?;
        warn_of(&missing);
        let volume = match Volume::connect(options).await {
            Ok(volume) => volume,
            Err(error) => {
                meeting.fail(&format!("member 0 failed: {error}")).await;
                return Err(error.into());
            }
        };
        let group = place.group();
        for path in &self.files {
            let access = Access::read().create(self.mode()).layout(layout);
            let share = async |given| meeting.share(given).await;
            let file = group.attach(&volume, path, access, share).await?;
            let agrees = self.agrees(&file);
            file.close().await?;
            if !agrees {
                bail!(
                    "{path} exists with another layout, which cannot change: remove it first, or choose another name"
                );
            }
            let done = if file.created() { "made" } else { "found" };
            output::line(format_args!("{done} {path}"))?;
        }
        Ok(())
    }

    /// Whether a file has the requested layout.
    fn agrees(&self, file: &File) -> bool {
        let servers: Vec<u32> = file.layout().servers().iter().map(|s| s.0).collect();
        self.layout.agrees(file.layout())
            && (self.servers.is_empty() || self.servers == servers)
            && self.base.is_none_or(|base| servers.first() == Some(&base))
    }
}
