use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use weft_client::{Access, CheckpointInfo, Volume};
use weft_layout::View;

use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::streams;
use crate::terminal::name;
use crate::terminal::output::{self, bytes};

/// Keep states of files and directory trees: make, list, read, roll back to and delete checkpoints
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft checkpoint create /grid before-step-9     whatever the file's size, in milliseconds
  weft checkpoint list /grid
  weft checkpoint read /grid before-step-9 > old
  weft checkpoint rollback /grid before-step-9   other checkpoints stay
  weft checkpoint delete /grid before-step-9
  weft checkpoint create /project monday         a directory with everything below it, at one moment
  weft ls /project/.weft/checkpoints/monday      looked into and copied as any directory, also under a mount

Each write to one server is wholly before or wholly after a checkpoint; a mount sends what programs write in parts of its own,
unless it is strict or the file is open with O_SYNC. What does not change afterwards is shared, so a
checkpoint takes as much space as is rewritten later.

Rolling a tree back gives every file that it had its old content, attributes and names in the tree, also if it was deleted
or moved since. What was made since goes. What was moved out of the tree keeps the names it has outside.")]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a checkpoint of a file, or of a directory with all below it, as it is now
    Create(Which),
    /// List the checkpoints of a file or directory, oldest first
    List {
        /// The file or directory
        #[arg(value_parser = remote::parser())]
        file: RemotePath,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a file's checkpoint to standard output
    Read(Which),
    /// Make a file or tree what it was at a checkpoint; what was written since is gone, unless
    /// another checkpoint has it
    Rollback(Which),
    /// Delete a checkpoint; the file or tree stays as it is
    Delete(Which),
}

#[derive(Args)]
struct Which {
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

impl Which {
    async fn read(&self, volume: &Volume) -> Result<()> {
        let checkpoint = self.find(volume).await?;
        if checkpoint.image != 0 {
            let file = self.file.to_string();
            bail!(
                "{file} is a directory; copy what you want of {}/.weft/checkpoints/{}",
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
            streams::REQUEST,
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
                "{}: there is no such checkpoint: {}; `weft checkpoint list` shows those there are",
                self.file,
                self.name
            ),
        }
    }
}
