use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::Args;
use weft_client::{Access, Attributes, FileKind, Volume};
use weft_layout::{CellIndex, Layout, Map, Pattern, ViewOffset};

use super::chunks::ExplainedChunks;
use super::explanation::{self, ExplainedRequest, Explanation};
use crate::args::request::PATTERNS;
use crate::args::{Global, ViewArgs, pattern};
use crate::limits::EXPLAINED_BYTES_MAX;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output;

/// Show what a read or write would do: servers, pieces, messages and bytes
#[derive(Args)]
#[command(after_help = format!("\
Examples:
  weft explain /grid
  weft explain /grid --subfile 1,1,1,4,2 --length 1M
  weft explain /matrix --partition 0,8,8192 --json
  weft explain /log 64/4Kx100                            what `weft read /log 64/4Kx100` costs
  weft explain /state --from state.new                   which chunks of it a write would send

{PATTERNS}

Nothing is written, and no data is read: the result is computed from the file's attributes as client and servers do it; with --from \
servers are also asked which chunks they have. The messages are those of the client: a server with replicas sends what is written to \
each of the others, in one message. Without --length it \
covers everything up to the file's size. A read sends no bytes from beyond the end of a cell, so the bytes are an upper bound. \
`weft cat` and `weft put` split longer transfers into calls of 4 MiB."))]
pub(crate) struct Explain {
    /// The file
    #[arg(value_parser = remote::parser())]
    file: RemotePath,
    /// Which bytes, relative to --offset, as in `weft read`
    #[arg(value_name = "PATTERN", value_parser = pattern::parse, allow_hyphen_values = true,
          conflicts_with = "length")]
    pattern: Option<Pattern>,
    #[command(flatten)]
    view: ViewArgs,
    /// The local file that would be written from --offset on: of an addressed file, which chunks
    /// would be sent, and which ones servers have
    #[arg(long, value_name = "LOCAL", conflicts_with_all = ["pattern", "length"])]
    from: Option<PathBuf>,
    /// Pieces (with --from: chunks) to show for each server
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with = "all")]
    pieces: usize,
    /// Show all pieces
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let explanation = connect::block_on(async {
            let volume = connect::volume(global).await?;
            let attributes = volume.stat(&self.file).await?;
            let data = self.from.as_deref().map(read_whole).transpose()?;
            let given = data.as_ref().map(|data| data.len() as u64);
            let mut explanation = self.explain(&attributes, given)?;
            if let Some(data) = data {
                explanation.chunks = Some(self.offer(&volume, data).await?);
            }
            let map = volume.server_map().await?;
            for part in &mut explanation.servers {
                let server = map.servers.iter().find(|s| s.id == part.server);
                part.address = server.map(|s| s.address.clone());
                part.replicas = server.map(|s| s.replicas.len().max(1));
            }
            Ok(explanation)
        })?;
        if self.json {
            output::json(&explanation)?;
        } else {
            print(&explanation)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Asks which chunks of these bytes the servers lack.
    async fn offer(&self, volume: &Volume, data: Bytes) -> Result<ExplainedChunks> {
        let file = volume.attach(&self.file, Access::read()).await?;
        let view = file.view_of_fork(self.view.view(), self.view.fork())?;
        let (all, size) = (data.len() as u64, u64::from(file.layout().chunk()));
        let offered = view.offer(ViewOffset(self.view.start()), data).await?;
        file.close().await?;
        let shown = if self.all { usize::MAX } else { self.pieces };
        Ok(ExplainedChunks::new(&offered, all, size, shown))
    }

    fn explain(&self, attributes: &Attributes, given: Option<u64>) -> Result<Explanation> {
        let kind = remote::kind(attributes);
        let layout = attributes
            .layout
            .as_ref()
            .filter(|_| kind == FileKind::Regular);
        let Some(layout) = layout else {
            bail!(
                "{} is a {}, which has no cells",
                self.file,
                remote::kind_name(kind)
            );
        };
        let layout = Layout::try_from(layout).context("the file's layout is broken")?;
        let map = Map::new(layout.grid(), self.view.view())
            .with_context(|| format!("this view does not fit {}", self.file))?;
        let shown = if self.all { usize::MAX } else { self.pieces };
        let offset = ViewOffset(self.view.start());
        if let Some(pattern) = &self.pattern {
            let asked = ExplainedRequest::pattern(offset, pattern)?;
            return explanation::explain(&map, &layout, &asked, shown);
        }
        let length = match given.or(self.view.length()) {
            Some(length) => length,
            None if self.view.fork() == "data" => {
                let size = attributes.size;
                let extent = |cell| map.extent(cell, layout.grid().cell_length(size, cell));
                let extents = (0..layout.cells()).map(|cell| extent(CellIndex(cell)));
                extents.max().unwrap_or(0).saturating_sub(offset.0)
            }
            None => bail!(
                "the length of the forks `{}` is not known: give --length",
                self.view.fork()
            ),
        };
        explanation::explain(
            &map,
            &layout,
            &ExplainedRequest::bytes(offset, length),
            shown,
        )
    }
}

fn print(explanation: &Explanation) -> Result<()> {
    if !explanation.servers.is_empty() {
        let mut servers = output::table(&[
            "server", "address", "replicas", "cells", "messages", "pieces", "bytes",
        ]);
        for part in &explanation.servers {
            servers.add_row(vec![
                part.server.to_string(),
                part.address.clone().unwrap_or_default(),
                part.replicas.map_or_else(String::new, |n| n.to_string()),
                cells(&part.cells),
                part.messages.to_string(),
                part.pieces.to_string(),
                output::bytes(part.bytes),
            ]);
        }
        output::line(servers)?;
        let mut pieces =
            output::table(&["server", "cell", "cell offset", "length", "in memory at"]);
        for part in &explanation.servers {
            let row = |numbers: [String; 5]| numbers.to_vec();
            for piece in &part.first {
                pieces.add_row(row([
                    part.server.to_string(),
                    piece.cell.to_string(),
                    piece.offset.to_string(),
                    piece.length.to_string(),
                    piece.memory.to_string(),
                ]));
            }
            let more = part.pieces - part.first.len() as u64;
            if more > 0 && !part.first.is_empty() {
                let more = format!("… {more} more");
                pieces.add_row(vec![part.server.to_string(), more]);
            }
        }
        output::line(format_args!("\n{pieces}\n"))?;
    }
    if let Some(ghosts) = explanation.ghost_line() {
        output::line(ghosts)?;
    }
    let summary = explanation.summary();
    match &explanation.chunks {
        None => output::line(summary),
        Some(chunks) => {
            output::line(format_args!("Where all bytes belong: {summary}\n"))?;
            print_chunks(chunks)
        }
    }
}

fn print_chunks(chunks: &ExplainedChunks) -> Result<()> {
    let mut table = output::table(&["server", "cell", "chunk", "name", "bytes"]);
    for chunk in &chunks.first {
        let fate = match (&chunk.name, chunk.lacking) {
            (None, _) => "zeros",
            (_, true) => "sent",
            (_, false) => "there",
        };
        let name = chunk.name.clone().unwrap_or_default();
        table.add_row(vec![
            chunk.server.to_string(),
            chunk.cell.to_string(),
            chunk.number.to_string(),
            name,
            fate.to_owned(),
        ]);
    }
    output::line(table)?;
    let more = chunks.offered - chunks.first.len() as u64;
    if more > 0 {
        output::line(format_args!("… {more} more: see them with --all"))?;
    }
    output::line(format_args!("\n{}", chunks.summary()))
}

/// A local file that fits into memory.
fn read_whole(path: &Path) -> Result<Bytes> {
    let length = std::fs::metadata(path).map(|known| known.len());
    let read = length.and_then(|length| {
        if length > EXPLAINED_BYTES_MAX {
            let most = EXPLAINED_BYTES_MAX >> 30;
            return Err(std::io::Error::other(format!(
                "it has more than {most} GiB: explain a part of it"
            )));
        }
        std::fs::read(path)
    });
    let read = read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(read.into())
}

/// A few cells by number, many as a count.
fn cells(cells: &[u32]) -> String {
    let shown: Vec<String> = cells.iter().take(8).map(u32::to_string).collect();
    let rest = cells.len() - shown.len();
    let more = if rest > 0 {
        format!(" and {rest} more")
    } else {
        String::new()
    };
    shown.join(",") + &more
}
