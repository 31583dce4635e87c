use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use tokio::task::block_in_place;
use weft_client::Access;

use crate::args::group::{GROUPS, warn_of};
use crate::args::request::PATTERNS;
use crate::args::{Global, GroupArgs, RequestArgs, WhenShared};
use crate::remote::{self, RemotePath, connect};

/// Read a pattern of a file, or of a view of it, to standard output
#[derive(Args)]
#[command(after_help = format!("\
Examples:
  weft read /log 64/4Kx100                               the first 64 bytes of each of 100 pages
  weft read /matrix 8/8Kx1000 --offset 16                the third column of a matrix of 1024 × 8 bytes
  weft read /matrix --slab 0:1000,2 --array 'f64 1000x1024'    the same
  weft read /grid 100/-100x10 --cell 2 --offset 900      ten records of a cell, the last first

{PATTERNS}

{GROUPS}

One request goes to each server that holds any of it, however many pieces that makes. Whatever holds no data is zeros: \
holes, ghosts and what lies beyond a cell's end."))]
pub(crate) struct Read {
    /// The file
    #[arg(value_parser = remote::parser())]
    file: RemotePath,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    group: GroupArgs,
}

impl Read {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let file = volume.attach(&self.file, Access::read()).await?;
            self.request.view.check_fork(&file).await?;
            let view = self.request.open(&file)?;
            let array = self.request.array_in(&file).await?;
            let (transfer, span) = self.request.transfer(array.as_ref())?;
            let mut buffer = vec![0; span];
            match self.group.group(WhenShared::Refuse) {
                Some(group) => {
                    let reading = view.collective(&group);
                    warn_of(&reading.read(&transfer, &mut buffer).await?.missing);
                }
                None => {
                    view.read_with(&transfer, &mut buffer).await?;
                }
            }
            block_in_place(|| std::io::stdout().write_all(&buffer))
                .context("cannot write standard output")?;
            file.close().await?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
