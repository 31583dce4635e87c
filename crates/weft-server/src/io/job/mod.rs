//! A data request, checked: the view it goes through, its bytes, and the fork that they are in.

mod ranges;
pub(super) mod walk;

use weft_layout::{CellIndex, FileId, Map, Pieces, Request, ServerSlot};
use weft_proto::Failure;
use weft_proto::io::Access;
use weft_store::{ForkKey, ForkName};

use crate::failure;

pub(super) use ranges::JoinedPieces;

/// What every data call starts with.
pub(super) struct Job {
    pub(super) map: Map,
    pub(super) request: Request,
    pub(super) slot: ServerSlot,
    pub(super) file: FileId,
    pub(super) fork: ForkName,
    /// `None`: the live file.
    pub(super) checkpoint: Option<u64>,
}

impl Job {
    /// Checks the form of a request, not whether the server may serve it.
    pub(super) fn new(access: &Access) -> Result<Job, Failure> {
        let (map, request) = access.checked().map_err(|e| failure::of_convert(&e))?;
        Ok(Job {
            map,
            request,
            slot: ServerSlot(access.slot),
            file: file_id(access.file)?,
            fork: fork_name(&access.fork)?,
            checkpoint: checkpoint(access.checkpoint),
        })
    }

    /// Refuses a request on a checkpoint.
    pub(super) fn writable(self) -> Result<Self, Failure> {
        match self.checkpoint {
            None => Ok(self),
            Some(_) => Err(failure::invalid("a checkpoint can only be read")),
        }
    }

    pub(super) fn key(&self, cell: CellIndex) -> ForkKey {
        ForkKey {
            file: self.file,
            cell,
            fork: self.fork.clone(),
        }
    }

    /// The server's pieces, in view order.
    pub(super) fn pieces(&self) -> Result<Pieces, Failure> {
        self.map
            .pieces(&self.request, self.slot)
            .map_err(|e| failure::of_map(&e))
    }
}

/// The file that a call names.
pub(super) fn file_id(id: u64) -> Result<FileId, Failure> {
    let file = FileId(id);
    if file >= weft_store::ORDER_STATE {
        let what = "this id is reserved: no file has it";
        return Err(failure::invalid(what));
    }
    Ok(file)
}

/// The fork that a call names.
pub(super) fn fork_name(name: &str) -> Result<ForkName, Failure> {
    ForkName::new(name).map_err(|e| failure::invalid(e.to_string()))
}

/// The checkpoint that a call names; 0 stands for the live file.
pub(super) fn checkpoint(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}
