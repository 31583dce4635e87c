//! The forks of a file's cells: list, create, remove.

use weft_layout::{CellIndex, ServerId};
use weft_proto::io::{CreateForkRequest, ForkPlace, RemoveForkRequest};

use crate::volume::Repeat;
use crate::{Error, File, Fork};

impl File {
    /// Every fork of every cell: one request to each server.
    pub async fn forks(&self) -> Result<Vec<Fork>, Error> {
        self.commit().await?;
        let a = &self.0;
        let what = format!("list the forks of {}", a.path);
        let states = a.volume.fork_states(&what, a.cells, &a.layout, "");
        Ok(states.await?.forks)
    }

    /// Creates an empty fork in a cell; it is no error if it exists.
    pub async fn create_fork(&self, cell: CellIndex, fork: &str) -> Result<(), Error> {
        self.commit().await?;
        let (server, place) = self.fork_to_change("create a fork of", cell, fork)?;
        let request = CreateForkRequest {
            file: self.0.id,
            place,
            chunk: self.0.layout.chunk_code(),
            accept_loss: false,
            checkpoint: None,
        };
        let what = format!("create fork {fork} in cell {cell} of {}", self.0.path);
        self.change(&what, server, &request, Repeat::Safe)
            .await
            .map(drop)
    }

    /// Removes a fork of a cell with its bytes.
    pub async fn remove_fork(&self, cell: CellIndex, fork: &str) -> Result<(), Error> {
        self.commit().await?;
        let (server, place) = self.fork_to_change("remove a fork of", cell, fork)?;
        let request = RemoveForkRequest {
            file: self.0.id,
            place,
            seen: None,
        };
        self.note_fork(fork);
        let what = format!("remove fork {fork} of cell {cell} of {}", self.0.path);
        self.change(&what, server, &request, Repeat::Safe)
            .await
            .map(drop)
    }

    /// A fork that may be changed, and its server.
    fn fork_to_change(
        &self,
        doing: &str,
        cell: CellIndex,
        fork: &str,
    ) -> Result<(ServerId, ForkPlace), Error> {
        self.needs_write(doing)?;
        self.needs_cells()?;
        let place = ForkPlace {
            cell: cell.0,
            fork: fork.to_owned(),
        };
        Ok((self.server_of(cell)?, place))
    }
}
