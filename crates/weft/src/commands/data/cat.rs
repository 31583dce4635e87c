use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::{Access, OpenView, Volume};
use weft_proto::limits::TRANSFER_MAX;

use crate::args::{Global, ViewArgs};
use crate::limits::STREAM_REQUEST_BYTES;
use crate::remote::{self, RemotePath, connect};
use crate::streams;

/// Copy files, or views of them, to standard output
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft cat /log | tail
  weft cat /grid --cell 2                                one cell
  weft cat /grid --subfile 1,1,1,4,2 --order row         every fourth cell, starting with the third
  weft cat /matrix --partition 0,8,8192                  eight bytes of every 8 KiB
  weft cat /grid --offset 1M --length 64K > piece

The output ends at the view's last byte that holds data, or earlier with --length. Ranges without data are printed as zeros: holes, \
ghosts (cells that the view implies but the file lacks) and bytes beyond the end of a shorter cell. With --order column the whole \
output is one access, of at most 1 GiB.")]
pub(crate) struct Cat {
    /// The files
    #[arg(value_name = "FILE", required = true, value_parser = remote::parser())]
    files: Vec<RemotePath>,
    #[command(flatten)]
    view: ViewArgs,
}

impl Cat {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            for path in &self.files {
                self.print(&volume, path).await?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn print(&self, volume: &Volume, path: &RemotePath) -> Result<()> {
        let file = volume.attach(path, Access::read()).await?;
        self.view.check_fork(&file).await?;
        let view = file.view_of_fork(self.view.view(), self.view.fork())?;
        let (start, end) = self.range(&view).await?;
        let step = if self.view.one_access() {
            access_bytes(end.saturating_sub(start))?
        } else {
            STREAM_REQUEST_BYTES
        };
        if start < end {
            let mut out = std::io::stdout();
            streams::read_out(Arc::new(view), start, end, step, &mut out).await?;
        }
        file.close().await?;
        Ok(())
    }

    /// From the first byte to one past the last.
    async fn range(&self, view: &OpenView) -> Result<(u64, u64)> {
        let start = self.view.start();
        let attributes = view.file().attributes();
        let size = if self.view.is_canonical() && attributes.size_exact {
            attributes.size
        } else {
            view.size().await?
        };
        let end = self
            .view
            .length()
            .map_or(size, |length| start.saturating_add(length).min(size));
        Ok((start, end))
    }
}

/// Bytes of an access that must not be split.
pub(crate) fn access_bytes(length: u64) -> Result<usize> {
    if length > TRANSFER_MAX {
        bail!(
            "--order column needs a single access, and {length} bytes are too many for one: give --offset and a --length of at \
             most {TRANSFER_MAX} bytes"
        );
    }
    Ok((length as usize).max(1))
}
