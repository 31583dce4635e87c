use std::io::{Cursor, ErrorKind, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use rustix::fs::FileType;
use weft_client::{Access, File, OpenView};
use weft_layout::ViewOffset;
use weft_proto::limits::TRANSFER_MAX;

use crate::args::{Global, LayoutArgs, ViewArgs, mode};
use crate::limits::FIRST_INPUT_BYTES;
use crate::remote::{self, RemotePath, connect, new_view};
use crate::streams::{self, blocking};
use crate::terminal::{interrupt, output, progress};

/// Write standard input to a file, or to a view of it
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft put /log < log                                    replace the content
  seq 1000000 | weft put /numbers --cells 8 --bsu 4K     create a file with this layout
  weft put /grid --cell 2 < column                       write one cell in place
  weft put /grid --subfile 1,1,1,4,2 < every-fourth
  weft put /grid --offset 1M < patch                     write in place from this offset on

Plain `weft put FILE` replaces the content, as `> FILE` does. With a view, a fork or --offset it writes in place and keeps the \
other bytes, unless --truncate empties the file first. Bytes that fall on ghosts (cells that the view implies but the file lacks) \
are discarded. The file is not touched until the first input, or its end, arrives. The file is synced at the end, so the data \
survives power loss.")]
pub(crate) struct Put {
    /// The file; created if it does not exist
    #[arg(value_parser = remote::parser())]
    file: RemotePath,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    /// Empty the file first
    #[arg(long)]
    truncate: bool,
    /// Do not sync at the end
    #[arg(long)]
    no_sync: bool,
}

impl Put {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let access = Access::write()
                .create(0o666 & !mode::umask())
                .layout(&self.layout.layout());
            new_view::check_view(&volume, &self.file, self.view.view(), &self.layout).await?;
            // Input that cannot be read, or never arrives, leaves the file as it is.
            let first = interrupt::guard(self.first_input(), || self.untouched()).await?;
            if let Some(signal) = interrupt::pending() {
                return Err(signal.ended(self.untouched()));
            }
            let file = volume.attach(&self.file, access).await?;
            if !file.created() && !self.layout.agrees(file.layout()) {
                bail!(
                    "{} exists with another layout ({}, BSU {}, chunk {}), which cannot change: leave the layout options \
                     out, or remove the file first",
                    self.file,
                    output::count(file.layout().cells(), "cell"),
                    file.layout().bsu(),
                    file.layout().chunk()
                );
            }
            // Checked before the truncation discards anything.
            let view = file.view_of_fork(self.view.view(), self.view.fork())?;
            let empty = file.attributes().size_exact && file.attributes().size == 0;
            let held = !(file.created() || empty);
            if (self.truncate || self.view.is_plain()) && held {
                file.truncate(0).await?;
            }
            let bar = bar_of(self.view.length());
            let input = Cursor::new(first).chain(std::io::stdin());
            let writing = self.write(&file, view, input, &bar);
            let written = interrupt::guard(writing, || self.so_far(held, &bar)).await;
            // Clearing a bar would move it to its end.
            let so_far = self.so_far(held, &bar);
            bar.finish_and_clear();
            written.map_err(|error| match interrupt::of(&error) {
                Some(_) => error,
                None => error.context(format!("put stopped: {so_far}")),
            })?;
            file.close().await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Waits for the first bytes of the input, or its end.
    async fn first_input(&self) -> Result<Vec<u8>> {
        if self.view.length() == Some(0) {
            return Ok(Vec::new());
        }
        let length = self
            .view
            .length()
            .map_or(FIRST_INPUT_BYTES, |l| l.min(FIRST_INPUT_BYTES));
        let read = blocking(move || {
            let mut first = vec![0; length as usize];
            let got = loop {
                match std::io::stdin().read(&mut first) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    got => break got?,
                }
            };
            first.truncate(got);
            Ok(first)
        });
        let read = read.await;
        read.map_err(|e| anyhow!("cannot read standard input: {e:#}; {}", self.untouched()))
    }

    /// Takes the whole input.
    async fn write(
        &self,
        file: &File,
        view: OpenView,
        input: impl Read + Send + 'static,
        bar: &ProgressBar,
    ) -> Result<()> {
        if self.view.one_access() {
            self.write_at_once(&view, input).await?;
        } else {
            let (start, limit) = (self.view.start(), self.view.length());
            streams::write_in(Arc::new(view), start, limit, input, bar).await?;
        }
        if !self.no_sync {
            file.sync().await?;
        }
        Ok(())
    }

    /// The message for an error before the target is touched.
    fn untouched(&self) -> String {
        format!("nothing was put, and {} is unchanged", self.file)
    }

    /// The message for an interrupted write: what the target holds now. `held`: it was not empty
    /// before.
    fn so_far(&self, held: bool, bar: &ProgressBar) -> String {
        let (file, written) = (&self.file, output::bytes(bar.position()));
        let again = "put all of it again";
        match (self.view.is_plain(), self.truncate, held) {
            (true, _, true) => format!(
                "{file} holds the first {written} of the input, and what it held before is gone; {again}"
            ),
            (true, _, false) => format!("{file} holds the first {written} of the input; {again}"),
            (false, true, true) => format!(
                "the first {written} of the input are written to the view of {file}, and what it held before is gone; {again}"
            ),
            (false, ..) => format!(
                "the first {written} of the input are written to the view of {file}, its other bytes are unchanged; {again}"
            ),
        }
    }

    /// Writes the whole input in one access, as column order requires.
    async fn write_at_once(
        &self,
        view: &OpenView,
        input: impl Read + Send + 'static,
    ) -> Result<()> {
        let limit = self
            .view
            .length()
            .unwrap_or(TRANSFER_MAX + 1)
            .min(TRANSFER_MAX + 1);
        let read = blocking(move || {
            let mut data = Vec::new();
            input.take(limit).read_to_end(&mut data)?;
            Ok(data)
        });
        let data = read.await.context("cannot read standard input")?;
        if data.len() as u64 > TRANSFER_MAX {
            bail!(
                "--order column needs a single access, and the input is too long for one: give --offset and a --length of at most \
                 {TRANSFER_MAX} bytes"
            );
        }
        view.write_at(ViewOffset(self.view.start()), data.into())
            .await?;
        Ok(())
    }
}

/// Progress over the input, unless that is a terminal. The total is known for a file.
fn bar_of(length: Option<u64>) -> ProgressBar {
    let input = std::io::stdin();
    if input.is_terminal() {
        return ProgressBar::hidden();
    }
    let size = rustix::fs::fstat(&input)
        .ok()
        .filter(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
        .and_then(|stat| u64::try_from(stat.st_size).ok());
    progress::of_bytes("writing", length.into_iter().chain(size).min())
}
