use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use weft_client::{Access, File, Volume};
use weft_layout::CellIndex;

use crate::args::Global;
use crate::remote::{self, RemotePath, connect, forks};
use crate::terminal::output;
use weft_layout::view_text::fork_name;

/// Create, remove and list the forks of a file's cells
#[derive(Args)]
#[command(after_help = "Examples:
  weft fork create /grid index              a fork in every cell
  weft fork create /grid notes --cell 2
  weft put /grid --cell 2 --fork notes < notes.txt
  weft fork ls /grid
  weft fork rm /grid notes --cell 2")]
pub(crate) struct Fork {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create an empty fork; do not fail if it exists
    Create(ForkArgs),
    /// Remove a fork and its data
    Rm(ForkArgs),
    /// List the forks of every cell with their lengths
    Ls {
        /// The file
        #[arg(value_parser = remote::parser())]
        file: RemotePath,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct ForkArgs {
    /// The file
    #[arg(value_parser = remote::parser())]
    file: RemotePath,
    /// The fork
    #[arg(value_name = "NAME", value_parser = fork_name)]
    name: String,
    /// Only in this cell
    #[arg(long, value_name = "I", value_parser = clap::value_parser!(u32).range(..65_536))]
    cell: Option<u32>,
}

impl Fork {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            match &self.action {
                Action::Create(which) => which.create(&volume).await?,
                Action::Rm(which) => which.remove(&volume).await?,
                Action::Ls { file, json } => list(&volume, file, *json).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Where to look for a name.
const SHOWS: &str = "list its forks with `weft fork ls`";

impl ForkArgs {
    async fn create(&self, volume: &Volume) -> Result<()> {
        let file = volume.attach(&self.file, Access::write()).await?;
        for cell in self.cells(&file) {
            let made = file.create_fork(cell, &self.name).await;
            made.with_context(|| format!("cannot make a fork of {}", self.file))?;
        }
        finish(&file).await
    }

    async fn remove(&self, volume: &Volume) -> Result<()> {
        if self.name == "data" {
            bail!(
                "cannot remove the fork `data`, which plain reads and writes use: empty it with `weft truncate -s 0 {}`, or remove the file",
                self.file
            );
        }
        let file = volume.attach(&self.file, Access::write()).await?;
        let there = file.forks().await?;
        let mut named = there.iter().filter(|fork| fork.fork == self.name);
        if !named.any(|fork| self.cell.is_none_or(|cell| cell == fork.cell)) {
            let (file, name) = (&self.file, &self.name);
            match self.cell {
                Some(cell) => bail!("cell {cell} of {file} has no fork {name:?}: {SHOWS}"),
                None => bail!("no cell of {file} has a fork {name:?}: {SHOWS}"),
            }
        }
        for cell in self.cells(&file) {
            file.remove_fork(cell, &self.name).await?;
        }
        finish(&file).await
    }

    fn cells(&self, file: &File) -> impl Iterator<Item = CellIndex> + use<> {
        let cells = self
            .cell
            .map_or(0..file.layout().cells(), |cell| cell..cell + 1);
        cells.map(CellIndex)
    }
}

async fn finish(file: &File) -> Result<()> {
    file.sync().await?;
    Ok(file.close().await?)
}

async fn list(volume: &Volume, path: &RemotePath, json: bool) -> Result<()> {
    let attributes = volume.stat(path).await?;
    if attributes.layout.is_none() || remote::kind(&attributes) != weft_client::FileKind::Regular {
        bail!(
            "{path} is a {}, which has no cells",
            remote::kind_name(remote::kind(&attributes))
        );
    }
    let rows = forks::forks(volume, path, &attributes).await?;
    if json {
        output::json(&rows)
    } else {
        output::line(forks::fork_table(&rows))
    }
}
