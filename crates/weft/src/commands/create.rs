use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::{Access, Changes, NewLayout};
use weft_proto::Code;

use crate::layout_args::LayoutArgs;
use crate::remote::RemotePath;
use crate::{Global, connect, mode, remote};

/// Create a file with a layout, or set the layout that a directory gives to new files
#[derive(Args)]
#[command(after_help = "Examples:
  weft create /grid --cells 4 --bsu 4K              a file of four cells
  weft create /grid --cells 8 --bsu 64K --servers 2,0,1
  weft create /log --cells 1 --bsu 1M --base 3      one cell, on server 3
  weft create --directory /results --cells 16       new files in /results get 16 cells")]
pub(crate) struct Create {
    /// The file, which must not exist (with --directory: the directory, which must)
    #[arg(value_name = "FILE", required = true, value_parser = remote::parser())]
    files: Vec<RemotePath>,
    #[command(flatten)]
    layout: LayoutArgs,
    /// The server of cell 0
    #[arg(long, value_name = "ID", conflicts_with = "servers")]
    base: Option<u32>,
    /// The servers in order, base first
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',')]
    servers: Vec<u32>,
    /// Permission bits, as they are; without this 0666 less the umask
    #[arg(long, value_name = "OCTAL", value_parser = mode::octal, conflicts_with = "directory")]
    mode: Option<u32>,
    /// Set what new files in this directory inherit
    #[arg(long)]
    directory: bool,
}

impl Create {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let layout = NewLayout {
                servers: self.servers.clone(),
                base: self.base,
                ..self.layout.layout()
            };
            for path in &self.files {
                if self.directory {
                    let changes = Changes {
                        layout: Some(layout.clone()),
                        ..Changes::default()
                    };
                    volume.set_attributes(path, &changes).await?;
                    continue;
                }
                let mode = self.mode.unwrap_or_else(|| 0o666 & !mode::umask());
                let access = Access::write().create_new(mode).layout(&layout);
                match volume.attach(path, access).await {
                    Ok(file) => file.close().await?,
                    Err(e) if e.code() == Code::Exists => bail!(
                        "{path} exists, and a layout is fixed when a file is created: remove it first, or choose \
                         another name"
                    ),
                    Err(e) => return Err(e.into()),
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
