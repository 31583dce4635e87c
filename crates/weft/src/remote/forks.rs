//! The forks of a file's cells, for people and programs.

use anyhow::{Context, Result};
use serde::Serialize;
use weft_client::{Attributes, Volume};
use weft_layout::{CellIndex, Layout};

use super::path::RemotePath;
use crate::terminal::name;
use crate::terminal::output::{self, Table};

/// One fork of one cell.
#[derive(Serialize)]
pub(crate) struct ForkRow {
    cell: u32,
    server: u32,
    fork: String,
    length: u64,
    stored: u64,
    #[serde(serialize_with = "name::as_rfc3339")]
    modified: i64,
}

impl ForkRow {
    /// Bytes that the fork takes on disk.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }
}

/// Every fork that a file has, ascending by cell and name.
pub(crate) async fn forks(
    volume: &Volume,
    path: &RemotePath,
    attributes: &Attributes,
) -> Result<Vec<ForkRow>> {
    let Some(layout) = &attributes.layout else {
        return Ok(Vec::new());
    };
    let forks = volume.forks(attributes).await;
    let forks = forks.with_context(|| path.to_string())?;
    if forks.is_empty() {
        return Ok(Vec::new());
    }
    let layout = Layout::try_from(layout).with_context(|| path.to_string())?;
    let row = |f: weft_client::Fork| ForkRow {
        cell: f.cell,
        server: layout.server_of(CellIndex(f.cell)).0,
        fork: f.fork,
        length: f.length,
        stored: f.stored,
        modified: f.modified,
    };
    Ok(forks.into_iter().map(row).collect())
}

/// The forks as people read them.
pub(crate) fn fork_table(rows: &[ForkRow]) -> Table {
    let mut table = output::table(&["cell", "server", "fork", "length", "on disk", "modified"]);
    for row in rows {
        table.add_row(vec![
            row.cell.to_string(),
            row.server.to_string(),
            name::escape(row.fork.as_bytes()),
            row.length.to_string(),
            output::bytes(row.stored),
            name::time(row.modified, true),
        ]);
    }
    table
}
