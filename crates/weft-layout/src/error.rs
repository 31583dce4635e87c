//! What is wrong with a layout, or with a request that a map was asked for.

use thiserror::Error;

use crate::limits::{BSU_MAX, CELLS_MAX, CHUNK_MAX, CHUNK_MIN, SERVERS_MAX};
use crate::{CellIndex, OFFSET_MAX, ServerId, ServerSlot};

/// Why a layout, or a grid, is not legal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The number of cells is out of range.
    #[error("a file cannot have {cells} cells: choose 1 to {CELLS_MAX}")]
    Cells {
        /// The number asked for.
        cells: u32,
    },
    /// The BSU is out of range.
    #[error("the BSU cannot be {bsu} bytes: choose 1 to {BSU_MAX}")]
    Bsu {
        /// The size asked for.
        bsu: u64,
    },
    /// The number of servers is out of range.
    #[error("a file cannot live on {servers} servers: choose 1 to {SERVERS_MAX}")]
    Servers {
        /// The number asked for.
        servers: u32,
    },
    /// The chunk is out of range.
    #[error("a chunk cannot be {chunk} bytes: choose {CHUNK_MIN} to {CHUNK_MAX}")]
    Chunk {
        /// The size asked for.
        chunk: u32,
    },
    /// A server is named more than once.
    #[error("server {server} is named more than once: a file names each of its servers once")]
    DuplicateServer {
        /// The server, the smallest of those named twice.
        server: ServerId,
    },
}

/// Why a place cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// Bytes are past the largest offset: in the view itself, or in the cell or the file that the
    /// view maps them to.
    #[error(
        "{length} bytes from offset {offset} on reach past {OFFSET_MAX}, in the view or where it maps them to"
    )]
    PastLimit {
        /// The first byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
    },
    /// The file has no such cell.
    #[error("there is no cell {cell}: the file has {cells}, numbered from 0")]
    NoSuchCell {
        /// The cell asked for.
        cell: CellIndex,
        /// Number of cells.
        cells: u32,
    },
    /// The layout has no such slot.
    #[error("there is no server slot {slot}: the layout has {servers}, numbered from 0")]
    NoSuchSlot {
        /// The slot asked for.
        slot: ServerSlot,
        /// Number of servers.
        servers: u32,
    },
}
