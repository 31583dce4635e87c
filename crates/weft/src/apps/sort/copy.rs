//! Copies the layout, the other forks and the extended attributes of the file to the result.

use std::sync::Arc;

use anyhow::{Result, bail};
use weft_client::{File, Fork, NewLayout, Volume};
use weft_layout::{CellIndex, View};

use super::entry_path::EntryPath;
use crate::apps::stream::{read_into, write_all};
use crate::limits::FORK_COPY_BYTES;

/// The layout of `file`, or one on the same servers with these cells and this BSU.
pub(crate) fn layout(file: &File, grid: Option<(u32, u64)>) -> NewLayout {
    let layout = file.layout();
    let (cells, bsu) = grid.unwrap_or((layout.cells(), layout.bsu()));
    NewLayout {
        cells: Some(cells),
        bsu: Some(bsu),
        chunk: Some(layout.chunk()),
        servers: layout.servers().iter().map(|server| server.0).collect(),
        base: None,
        replicas: None,
        parity: None,
        storage: Some(layout.storage()),
    }
}

/// Refuses to drop forks of cells that the result does not have.
pub(crate) async fn refuse_lost_forks(file: &File, cells: Option<u32>) -> Result<()> {
    let cells = cells.unwrap_or(file.layout().cells());
    if let Some(fork) = others(file).await?.iter().find(|f| f.cell >= cells) {
        bail!(
            "cell {} of {} has a fork {}, but the result has only {cells} cells: remove the fork, or sort without --keep-cells",
            fork.cell,
            file.path(),
            fork.fork
        );
    }
    Ok(())
}

/// Copies every fork but `data`.
pub(crate) async fn forks(from: &File, to: &File) -> Result<()> {
    for fork in others(from).await? {
        let cell = CellIndex(fork.cell);
        to.create_fork(cell, &fork.fork).await?;
        let source = from.view_of_fork(View::Cell(cell), &fork.fork)?;
        let target = Arc::new(to.view_of_fork(View::Cell(cell), &fork.fork)?);
        for at in (0..fork.length).step_by(FORK_COPY_BYTES as usize) {
            let mut piece = vec![0; FORK_COPY_BYTES.min(fork.length - at) as usize];
            let whole = piece.len();
            read_into(&source, at, &mut piece, (whole, 1), |_| {}).await?;
            write_all(&target, at, piece.into()).await?;
        }
    }
    Ok(())
}

/// Copies all extended attributes.
pub(crate) async fn xattrs(volume: &Volume, from: &EntryPath, to: &EntryPath) -> Result<()> {
    for name in volume.list_xattr(from.path()).await? {
        let value = volume.get_xattr(from.path(), &name).await?;
        volume.set_xattr(to.path(), &name, value).await?;
    }
    Ok(())
}

async fn others(file: &File) -> Result<Vec<Fork>> {
    let mut forks = file.forks().await?;
    forks.retain(|f| f.fork != "data");
    Ok(forks)
}
