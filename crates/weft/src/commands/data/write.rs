use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::task::block_in_place;
use weft_client::{Access, File, Transfer, Volume};
use weft_layout::array::Array;

use crate::args::group::{GROUPS, warn_of};
use crate::args::request::PATTERNS;
use crate::args::{Global, GroupArgs, LayoutArgs, RequestArgs, WhenShared, mode};
use crate::remote::{self, RemotePath, connect, new_view};
use crate::terminal::output;

/// Write standard input to a pattern of bytes in a file, or in a view of it
#[derive(Args)]
#[command(after_help = format!("\
Examples:
  weft write /log 64/4Kx100 < headers                    the first 64 bytes of each of 100 pages
  weft write /matrix 8/8Kx1000 --offset 16 < column      the third column of a matrix of 1024 × 8 bytes
  weft write /matrix --slab 0:1000,2 --array 'f64 1000x1024' < column    the same; also records the array in the file
  weft write /grid 0:5,100:5 --cell 2 < two-records
  weft write /state 0:1M --cautious < state              no cautious reader sees only a part

{PATTERNS}

{GROUPS}

Other bytes are not changed. Each server that holds some of the bytes gets one request, however many pieces it has. On return, the \
data survives power loss. The input must be exactly as long as the request."))]
pub(crate) struct Write {
    /// The file; created if it does not exist
    #[arg(value_parser = remote::parser())]
    file: RemotePath,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    /// If the pattern names a byte twice, keep the last value instead of refusing
    #[arg(long)]
    last_wins: bool,
    #[command(flatten)]
    group: GroupArgs,
    /// What to do with bytes that several members of the group write
    #[arg(long, requires = "group", default_value = "refuse")]
    overlap: WhenShared,
    /// Write all of it at one moment, in one order with the cautious operations of all clients
    #[arg(long, conflicts_with = "group")]
    cautious: bool,
    /// Do not sync at the end
    #[arg(long)]
    no_sync: bool,
}

impl Write {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let (file, (transfer, data)) = self.open(&volume).await?;
            let view = self.request.open(&file)?;
            match self.group.group(self.overlap) {
                Some(group) => {
                    let writing = view.collective(&group);
                    warn_of(&writing.write(&transfer, data.into()).await?.missing);
                }
                None => {
                    view.write_with(&transfer, data.into()).await?;
                }
            }
            if let Some(array) = self.request.array() {
                // What the file describes may not be an array at all.
                let said = file.array().await.ok().flatten();
                file.set_array(array).await?;
                if let Some(said) = said.filter(|said| said != array) {
                    let path = file.path();
                    output::say(format_args!(
                        "weft: the array of {path} was recorded as {said}, and is now recorded as {array}"
                    ));
                }
            }
            file.close().await?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl Write {
    /// The file, and the data to write. Whatever can be refused beforehand is refused before the
    /// file is made.
    async fn open(&self, volume: &Volume) -> Result<(File, (Transfer, Vec<u8>))> {
        if self.request.asks_file() {
            // A file that does not exist yet describes no array.
            let opened = volume.attach(&self.file, self.access()).await;
            let file = opened.with_context(|| {
                format!(
                    "{} must exist and record its array, or name the array with --array",
                    self.file
                )
            })?;
            let array = self.request.array_in(&file).await?;
            return Ok((file, self.prepare(array.as_ref())?));
        }
        let prepared = self.prepare(None)?;
        let view = self.request.view.view();
        new_view::check_view(volume, &self.file, view, &self.layout).await?;
        let access = self
            .access()
            .create(0o666 & !mode::umask())
            .layout(&self.layout.layout());
        Ok((volume.attach(&self.file, access).await?, prepared))
    }

    fn access(&self) -> Access {
        if self.cautious {
            Access::write().cautious()
        } else {
            Access::write()
        }
    }

    /// The request, and the input for it.
    fn prepare(&self, array: Option<&Array>) -> Result<(Transfer, Vec<u8>)> {
        self.request.check_length()?;
        let (mut transfer, span) = self.request.transfer(array)?;
        if self.last_wins {
            transfer = transfer.last_wins();
        } else {
            self.request.check_disjoint(array)?;
        }
        if !self.no_sync {
            transfer = transfer.synced();
        }
        Ok((transfer, input(span)?))
    }
}

/// All of standard input, which must have this length.
fn input(length: usize) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    let limit = length as u64 + 1;
    block_in_place(|| std::io::stdin().take(limit).read_to_end(&mut data))
        .context("cannot read standard input")?;
    if data.len() != length {
        let (given, more) = (data.len().min(length), data.len() > length);
        bail!(
            "the request spans {length} bytes of input, but there are {}{given}: nothing was written",
            if more { "more than " } else { "" }
        );
    }
    Ok(data)
}
