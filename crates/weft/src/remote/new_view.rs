//! Checks a view against a file before the file is made, so that a refused view leaves no empty
//! file behind. Removing the file again is no option: another process may have found it.

use anyhow::{Context, Result};
use weft_client::Volume;
use weft_layout::{BSU_DEFAULT, Grid, Map, View};

use crate::args::LayoutArgs;
use crate::remote::path::{RemotePath, look, look_link};

/// Refuses a view that a new file with this path and layout could not have. An existing file, and
/// the canonical view, need no check.
///
/// # Errors
/// Those of opening the view. A view can pass and yet be refused of the file: where servers are
/// down, a new file may get fewer cells than the volume has servers.
pub(crate) async fn check_view(
    volume: &Volume,
    file: &RemotePath,
    view: View,
    layout: &LayoutArgs,
) -> Result<()> {
    if view == View::canonical() || look_link(volume, file).await?.is_some() {
        return Ok(());
    }
    let Some(directory) = look(volume, &file.directory()).await? else {
        // Creating the file fails with a better message.
        return Ok(());
    };
    let layout = layout.layout();
    let given = directory.layout;
    let known = |number: u32| (number > 0).then_some(number);
    let requested = given
        .as_ref()
        .and_then(|g| known(g.cells).or(known(g.servers.len() as u32)));
    let cells = match layout.cells.or(requested) {
        Some(cells) => cells,
        None => volume.server_map().await?.servers.len() as u32,
    };
    let bsu = given.map(|g| g.bsu).filter(|bsu| *bsu > 0);
    let bsu = layout.bsu.or(bsu).unwrap_or(BSU_DEFAULT);
    Map::new(Grid::new(cells, bsu, 1)?, view)
        .with_context(|| format!("cannot create {file} and write this view of it"))?;
    Ok(())
}
