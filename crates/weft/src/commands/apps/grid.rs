use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use weft_client::{Access, File};
use weft_layout::CellIndex;

use crate::apps::picture::{Cell, Style, draw};
use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output;

/// Draw a file as a grid, with a bar for each cell, and show the servers that hold the cells
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft grid /duplicates/records.grid\n  weft grid --ascii --width 60 /file\n  \
                        weft grid --json /file | jq '.servers'"
)]
pub(crate) struct Grid {
    /// The file
    #[arg(value_name = "FILE", value_parser = remote::parser())]
    file: RemotePath,
    /// Use ASCII characters only [default: if the locale is not UTF-8]
    #[arg(long)]
    ascii: bool,
    /// Width of the drawing in columns [default: the terminal's width, else 80]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    width: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The grid, for programs.
#[derive(Serialize)]
struct GridSummary {
    file: String,
    size: u64,
    bsu: u64,
    chunk: u32,
    cells: Vec<CellSummary>,
    servers: Vec<ServerSummary>,
}

/// One cell.
#[derive(Serialize)]
struct CellSummary {
    cell: u32,
    server: u32,
    length: u64,
    /// Bytes of disk under its forks.
    stored: u64,
    forks: Vec<ForkSummary>,
}

/// One fork.
#[derive(Serialize)]
struct ForkSummary {
    fork: String,
    length: u64,
}

/// One server.
#[derive(Serialize)]
struct ServerSummary {
    server: u32,
    cells: u32,
    length: u64,
    stored: u64,
}

impl Grid {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let summary = connect::block_on(async {
            let volume = connect::volume(global).await?;
            let file = volume.attach(&self.file, Access::read()).await?;
            let summary = summary(self.file.to_string(), &file).await?;
            file.close().await?;
            Ok(summary)
        })?;
        if self.json {
            output::json(&summary)?;
        } else {
            self.show(&summary)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, summary: &GridSummary) -> Result<()> {
        let cell = |c: &CellSummary| Cell {
            server: c.server,
            length: c.length,
        };
        let cells: Vec<Cell> = summary.cells.iter().map(cell).collect();
        let style = Style {
            width: self.width.map_or_else(terminal_width, usize::from),
            height: 8,
            ascii: self.ascii || !utf8_locale(),
        };
        output::line(format_args!(
            "{}: {} in {} on {}, BSU {}\n",
            summary.file,
            output::bytes(summary.size),
            output::count(summary.cells.len(), "cell"),
            output::count(summary.servers.len(), "server"),
            output::bytes(summary.bsu)
        ))?;
        output::line(draw(&cells, style))?;
        let mut table = output::table(&["server", "cells", "data", "on disk"]);
        for server in &summary.servers {
            table.add_row([
                server.server.to_string(),
                server.cells.to_string(),
                output::bytes(server.length),
                output::bytes(server.stored),
            ]);
        }
        output::line(format_args!("\n{table}"))?;
        for cell in &summary.cells {
            for fork in cell.forks.iter().filter(|f| f.fork != "data") {
                let length = output::bytes(fork.length);
                output::line(format_args!(
                    "cell {} has a fork {}: {length}",
                    cell.cell, fork.fork
                ))?;
            }
        }
        Ok(())
    }
}

async fn summary(name: String, file: &File) -> Result<GridSummary> {
    let layout = file.layout();
    let mut cells: Vec<CellSummary> = (0..layout.cells())
        .map(|cell| CellSummary {
            cell,
            server: layout.server_of(CellIndex(cell)).0,
            length: 0,
            stored: 0,
            forks: Vec::new(),
        })
        .collect();
    for fork in file.forks().await? {
        let Some(cell) = cells.get_mut(fork.cell as usize) else {
            continue;
        };
        cell.stored += fork.stored;
        if fork.fork == "data" {
            cell.length = fork.length;
        }
        cell.forks.push(ForkSummary {
            fork: fork.fork,
            length: fork.length,
        });
    }
    let mut servers = BTreeMap::new();
    for cell in &cells {
        let server = servers.entry(cell.server).or_insert(ServerSummary {
            server: cell.server,
            cells: 0,
            length: 0,
            stored: 0,
        });
        server.cells += 1;
        server.length += cell.length;
        server.stored += cell.stored;
    }
    let size = |c: &CellSummary| layout.grid().file_size(CellIndex(c.cell), c.length);
    Ok(GridSummary {
        file: name,
        size: cells.iter().map(size).max().unwrap_or(0),
        bsu: layout.bsu(),
        chunk: layout.chunk(),
        cells,
        servers: servers.into_values().collect(),
    })
}

fn terminal_width() -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let asked = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    asked().or(given).unwrap_or(80).max(20)
}

/// Whether the locale's characters are those of UTF-8, by the variable that decides.
fn utf8_locale() -> bool {
    let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    })
}
