//! Status, sync, truncate and delete of cells; forks that are created and removed.

use weft_layout::{CellIndex, FileId, Grid, ServerSlot};
use weft_proto::io::{
    CellStatusReply, CellStatusRequest, CreateForkReply, CreateForkRequest, DeleteCellsReply,
    DeleteCellsRequest, ForkPlace, ForkSeen, ForkState, RemoveForkReply, RemoveForkRequest,
    SyncReply, SyncRequest, TruncateCellsReply, TruncateCellsRequest,
};
use weft_proto::stamp::Position;
use weft_proto::{Code, Failure};
use weft_store::{ForkKey, ForkName, ForkStatus, Timestamp};

use crate::failure;
use crate::io::IoService;
use crate::io::job::{checkpoint, file_id, fork_name};
use crate::io::sharers::Change;
use crate::limits::STATUS_PAGE_FORKS;
use crate::position;

fn state((key, status): &(ForkKey, ForkStatus)) -> ForkState {
    ForkState {
        cell: key.cell.0,
        fork: key.fork.as_str().to_owned(),
        length: status.length,
        modified: status.modified.0,
        stored: status.stored,
    }
}

fn key(file: u64, place: &ForkPlace) -> Result<ForkKey, Failure> {
    Ok(ForkKey {
        file: file_id(file)?,
        cell: CellIndex(place.cell),
        fork: fork_name(&place.fork)?,
    })
}

impl IoService {
    pub(in crate::io) async fn sync(&self, request: SyncRequest) -> Result<SyncReply, Failure> {
        self.check_written(&request.written)?;
        if !request.check_only {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        // 0 names no file, and a server that was formatted anew would take it for a lost one.
        if request.file != 0 {
            self.check_alive(file_id(request.file)?).await?;
        }
        // No client reads the lengths that the reply has a field for.
        Ok(SyncReply { cells: Vec::new() })
    }

    /// Refuses a file that was deleted, or lost by this server.
    pub(in crate::io) async fn check_alive(&self, file: FileId) -> Result<(), Failure> {
        self.check_present(file)?;
        // The status of any fork says it, whether the fork is there or not.
        let any = ForkKey {
            file,
            cell: CellIndex(0),
            fork: ForkName::data(),
        };
        let status = self.store.status(&any).await;
        status.map(drop).map_err(|e| failure::of_store(&e))
    }

    /// Refuses a client that got acknowledgements of changes which are gone.
    fn check_written(&self, written: &[Position]) -> Result<(), Failure> {
        for at in written {
            let held = self.store.still_has(position::from_wire(at));
            held.map_err(|without| failure::lost("this server", without.began))?;
        }
        Ok(())
    }

    pub(in crate::io) async fn cell_status(
        &self,
        request: CellStatusRequest,
    ) -> Result<CellStatusReply, Failure> {
        let which = (file_id(request.file)?, checkpoint(request.checkpoint));
        self.status_page(which, &request.fork, request.after.as_ref())
            .await
    }

    /// The forks of a live file, or of one of its checkpoints.
    pub(in crate::io) async fn forks_of(
        &self,
        file: FileId,
        checkpoint: Option<u64>,
    ) -> Result<Vec<(ForkKey, ForkStatus)>, Failure> {
        self.check_present(file)?;
        let forks = match checkpoint {
            None => self.store.forks(file).await,
            Some(number) => self.store.checkpoint_forks(file, number),
        };
        forks.map_err(|e| failure::of_store(&e))
    }

    async fn status_page(
        &self,
        (file, checkpoint): (FileId, Option<u64>),
        fork: &str,
        after: Option<&ForkPlace>,
    ) -> Result<CellStatusReply, Failure> {
        // Before the forks are listed: a write that ends the doubt meanwhile is in the list.
        let doubted = self.store.doubts_ends(file, checkpoint);
        let mut forks = self.forks_of(file, checkpoint).await?;
        forks.retain(|(key, _)| {
            let place = (key.cell.0, key.fork.as_str());
            (fork.is_empty() || key.fork.as_str() == fork)
                && after.is_none_or(|a| place > (a.cell, a.fork.as_str()))
        });
        forks.sort_by(|(a, _), (b, _)| a.cmp(b));
        let more = forks.len() > STATUS_PAGE_FORKS;
        Ok(CellStatusReply {
            forks: forks.iter().take(STATUS_PAGE_FORKS).map(state).collect(),
            more,
            doubted,
        })
    }

    pub(in crate::io) async fn truncate_cells(
        &self,
        request: TruncateCellsRequest,
    ) -> Result<TruncateCellsReply, Failure> {
        let grid = Grid::try_from(&request.grid).map_err(|e| failure::of_convert(&e))?;
        let file = file_id(request.file)?;
        let mut lengths = Vec::new();
        for cell in grid.cells_on(ServerSlot(request.slot)) {
            let key = ForkKey {
                file,
                cell,
                fork: ForkName::data(),
            };
            lengths.push((key, grid.cell_length(request.size, cell)));
        }
        match self.check_present(file) {
            Ok(()) => {}
            Err(failure) if failure.code() == Code::Busy => return Err(failure),
            // Lost cells get no length: it would turn them into holes.
            Err(_) => lengths.clear(),
        }
        let store = &self.store;
        let truncated = store.truncate(file, lengths, request.op, self.now()).await;
        self.tell_sharers(file, Change::All).await;
        truncated.map_err(|e| failure::of_store(&e))?;
        store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(TruncateCellsReply {})
    }

    pub(in crate::io) async fn delete_cells(
        &self,
        request: DeleteCellsRequest,
    ) -> Result<DeleteCellsReply, Failure> {
        let mut files = Vec::new();
        for file in request.files {
            let file = file_id(file)?;
            let deleted = self.store.delete_file(file).await;
            self.tell_sharers(file, Change::All).await;
            deleted.map_err(|e| failure::of_store(&e))?;
            files.push(file);
        }
        // No pointer of a deleted file can be made any more.
        self.remove_pointers(&files).await?;
        self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        Ok(DeleteCellsReply {})
    }

    pub(in crate::io) async fn create_fork(
        &self,
        request: CreateForkRequest,
    ) -> Result<CreateForkReply, Failure> {
        let key = key(request.file, &request.place)?;
        if !request.accept_loss {
            self.check_present(key.file)?;
        } else if let Some(number) = request.checkpoint {
            let accepted = self.store.accept_checkpoint(key.file, number, self.now());
            accepted.await.map_err(|e| failure::of_store(&e))?;
            return Ok(CreateForkReply {});
        }
        let made = self
            .store
            .create_fork(&key, request.chunk, self.now())
            .await;
        made.map_err(|e| failure::of_store(&e))?;
        Ok(CreateForkReply {})
    }

    pub(in crate::io) async fn remove_fork(
        &self,
        request: RemoveForkRequest,
    ) -> Result<RemoveForkReply, Failure> {
        let key = key(request.file, &request.place)?;
        let removed = match request.seen {
            None => self.store.remove_fork(&key).await.map(|()| true),
            Some(ForkSeen { length, modified }) => {
                let unchanged = self
                    .store
                    .remove_unchanged_fork(&key, length, Timestamp(modified));
                unchanged.await
            }
        };
        self.tell_sharers(key.file, Change::All).await;
        let removed = removed.map_err(|e| failure::of_store(&e))?;
        Ok(RemoveForkReply { changed: !removed })
    }
}
