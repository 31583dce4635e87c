use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use weft_client::{Access, CheckpointInfo, Volume};
use weft_layout::View;

use crate::args::Global;
use crate::limits::STREAM_REQUEST_BYTES;
use crate::remote::{self, RemotePath, connect};
use crate::streams;
use crate::terminal::name;
use crate::terminal::output::{self, bytes};

/// Create, list, read, roll back to and delete checkpoints of files and directory trees
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft checkpoint create /grid before-step-9     takes milliseconds, whatever the file's size
  weft checkpoint list /grid
  weft checkpoint read /grid before-step-9 > old
  weft checkpoint rollback /grid before-step-9   keeps other checkpoints
  weft checkpoint delete /grid before-step-9
  weft checkpoint create /project monday         a directory and everything below it, at one moment
  weft ls /project/.weft/checkpoints/monday      list and copy it like any directory, also on a mount

A checkpoint contains each write to one server entirely or not at all; a mount splits the writes of programs, unless it is strict or
the file is open with O_SYNC. Unchanged data is shared, so a checkpoint takes as much space as is overwritten later.

Rolling back a tree restores the content, attributes and names of every file that it had, even if the file was deleted or moved
since. Files created since are removed. Files that were moved out of the tree keep their names there.")]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a checkpoint of the current state of a file, or of a directory and everything below
    /// it
    Create(CheckpointArgs),
    /// List the checkpoints of a file or directory, oldest first
    List {
        /// The file or directory
        #[arg(value_parser = remote::parser())]
        file: RemotePath,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a checkpoint of a file to standard output
    Read(CheckpointArgs),
    /// Restore a file or tree to a checkpoint; later changes are lost, unless another checkpoint
    /// has them
    Rollback(CheckpointArgs),
    /// Delete a checkpoint; the file or tree does not change
    Delete(CheckpointArgs),
}

#[derive(Args)]
struct CheckpointArgs {
    /// The file or directory
    #[arg(value_parser = remote::parser())]
    file: RemotePath,
    /// The checkpoint's name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Serialize)]
struct Row {
    name: String,
    number: u64,
    #[serde(serialize_with = "name::as_rfc3339")]
    made: i64,
    size: u64,
    /// Of a directory: the names in its tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<u64>,
}

impl Checkpoint {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            match &self.action {
                Action::Create(w) => drop(volume.make_checkpoint(&w.file, &w.name).await?),
                Action::List { file, json } => list(&volume, file, *json).await?,
                Action::Read(which) => which.read(&volume).await?,
                Action::Rollback(w) => drop(volume.roll_back(&w.file, &w.name).await?),
                Action::Delete(w) => volume.remove_checkpoint(&w.file, &w.name).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn list(volume: &Volume, file: &RemotePath, json: bool) -> Result<()> {
    let found = volume.checkpoints(file).await?;
    if json {
        let rows = found.into_iter().map(|c| Row {
            name: c.name,
            number: c.number,
            made: c.made,
            size: c.size,
            names: (c.image != 0).then_some(c.names),
        });
        return output::json(&rows.collect::<Vec<_>>());
    }
    let trees = found.iter().any(|c| c.image != 0);
    let head: &[&str] = if trees {
        &["NAME", "MADE", "SIZE", "NAMES"]
    } else {
        &["NAME", "MADE", "SIZE"]
    };
    let mut table = output::table(head);
    for c in found {
        let mut row = vec![
            name::escape(c.name.as_bytes()),
            name::time(c.made, false),
            bytes(c.size),
        ];
        if trees {
            row.push(c.names.to_string());
        }
        table.add_row(row);
    }
    output::line(table)
}

impl CheckpointArgs {
    async fn read(&self, volume: &Volume) -> Result<()> {
        let checkpoint = self.find(volume).await?;
        if checkpoint.image != 0 {
            let file = self.file.to_string();
            bail!(
                "{file} is a directory: read files of the checkpoint in {}/.weft/checkpoints/{}",
                file.trim_end_matches('/'),
                self.name
            );
        }
        let file = volume.attach(&self.file, Access::read()).await?;
        let view = file.view(View::canonical())?.of_checkpoint(&checkpoint);
        let mut out = std::io::stdout();
        streams::read_out(
            Arc::new(view),
            0,
            checkpoint.size,
            STREAM_REQUEST_BYTES,
            &mut out,
        )
        .await?;
        Ok(file.close().await?)
    }

    async fn find(&self, volume: &Volume) -> Result<CheckpointInfo> {
        let found = volume.checkpoints(&self.file).await?;
        match found.into_iter().find(|c| c.name == self.name) {
            Some(checkpoint) => Ok(checkpoint),
            None => bail!(
                "{}: there is no checkpoint {}; `weft checkpoint list` shows the existing ones",
                self.file,
                self.name
            ),
        }
    }
}
