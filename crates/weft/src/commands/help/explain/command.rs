use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_client::{Attributes, FileKind};
use weft_layout::{CellIndex, Layout, Map, Pattern, ViewOffset};

use super::explanation::{self, ExplainedRequest, Explanation};
use crate::args::request::PATTERNS;
use crate::args::{Global, ViewArgs, pattern};
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

{PATTERNS}

No data is read or written: the result is computed from the file's attributes as client and servers do it. Without --length it \
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
    /// Pieces to show for each server
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
            let mut explanation = self.explain(&attributes)?;
            let map = volume.server_map().await?;
            for part in &mut explanation.servers {
                let server = map.servers.iter().find(|s| s.id == part.server);
                part.address = server.map(|s| s.address.clone());
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

    fn explain(&self, attributes: &Attributes) -> Result<Explanation> {
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
        let length = match self.view.length() {
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
        let mut servers =
            output::table(&["server", "address", "cells", "messages", "pieces", "bytes"]);
        for part in &explanation.servers {
            servers.add_row(vec![
                part.server.to_string(),
                part.address.clone().unwrap_or_default(),
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
    output::line(explanation.summary())
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
