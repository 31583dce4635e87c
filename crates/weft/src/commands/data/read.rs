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

/// Read a pattern of bytes from a file, or from a view of it, to standard output
#[derive(Args)]
#[command(after_help = format!("\
Examples:
  weft read /log 64/4Kx100                               the first 64 bytes of each of 100 pages
  weft read /matrix 8/8Kx1000 --offset 16                the third column of a matrix of 1024 × 8 bytes
  weft read /matrix --slab 0:1000,2 --array 'f64 1000x1024'    the same
  weft read /grid 100/-100x10 --cell 2 --offset 900      ten records of a cell, in reverse order

{PATTERNS}

{GROUPS}

Each server that holds some of the bytes gets one request, however many pieces it has. Ranges without data read as zeros: holes, \
ghosts and bytes beyond the end of a cell."))]
pub(crate) struct Read {
    /// The file
    #[arg(value_parser = remote::parser())]
    file: RemotePath,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    group: GroupArgs,
    /// Read all of it as it is at one moment, in one order with the cautious operations of all
    /// clients
    #[arg(long, conflicts_with = "group")]
    cautious: bool,
}

impl Read {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let mut access = Access::read();
            if self.cautious {
                access = access.cautious();
            }
            let file = volume.attach(&self.file, access).await?;
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
