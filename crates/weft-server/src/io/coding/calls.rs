//! The calls of a server that codes a file, or computes a piece of a row.

use weft_layout::{CellIndex, CellOffset};
use weft_proto::Failure;
use weft_proto::parity::{CodeCellsReply, CodeCellsRequest, ReadPieceReply, ReadPieceRequest};
use weft_store::{ForkKey, Store};

use crate::failure;
use crate::io::IoService;
use crate::io::job::{file_id, fork_name};
use crate::limits::PIECE_READ_MAX;

impl IoService {
    pub(in crate::io) async fn read_piece(
        &self,
        request: ReadPieceRequest,
    ) -> Result<ReadPieceReply, Failure> {
        if request.length > PIECE_READ_MAX {
            return Err(failure::invalid("it asks for too many bytes"));
        }
        let key = ForkKey {
            file: file_id(request.fork.file)?,
            cell: CellIndex(request.fork.cell),
            fork: fork_name(&request.fork.fork)?,
        };
        let (at, length) = (CellOffset(request.offset), request.length);
        let end = request.offset.saturating_add(length);
        let checkpoint = (request.checkpoint != 0).then_some(request.checkpoint);
        let proven = self
            .store
            .check_proven(&key, checkpoint, request.offset..end);
        proven.map_err(|e| failure::of_store(&e))?;
        // Not through rows: they may need this piece.
        let store: &Store = &self.store;
        let read = match checkpoint {
            Some(number) => store.read_checkpoint(&key, number, at, length).await,
            None if request.restore => self.store.read(&key, at, length).await,
            None => store.read(&key, at, length).await,
        };
        let slices = read.map_err(|e| failure::of_store(&e))?;
        let data = match &slices[..] {
            [one] => one.clone(),
            more => more.concat().into(),
        };
        Ok(ReadPieceReply { data })
    }

    pub(in crate::io) async fn code_cells(
        &self,
        request: CodeCellsRequest,
    ) -> Result<CodeCellsReply, Failure> {
        let file = file_id(request.file)?;
        let told = self.store.code_backups(file, request.checkpoint).await;
        told.map_err(|e| failure::of_store(&e))?;
        Ok(CodeCellsReply {})
    }
}
