//! Requests: which bytes of a view one call touches.
//!
//! A request travels in this compact form; each server works out its own pieces. Memory positions
//! belong to the pieces, not to the request, so that a request with a memory layout of its own
//! changes nothing for those who consume pieces.

use crate::{CellIndex, CellOffset, MapError, OFFSET_MAX, ViewOffset};

/// Which bytes of a view one call touches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Request {
    /// `length` bytes from `offset` on.
    Contiguous {
        /// The first byte.
        offset: ViewOffset,
        /// How many; 0 touches nothing.
        length: u64,
    },
}

impl Request {
    /// Bytes of the caller's buffer that the request spans, those of ghosts and holes included.
    pub fn memory(&self) -> u64 {
        match self {
            Request::Contiguous { length, .. } => *length,
        }
    }
}

/// One contiguous run of bytes in one fork of one cell that a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The cell.
    pub cell: CellIndex,
    /// The run's first byte in the cell.
    pub offset: CellOffset,
    /// Bytes of the run, at least 1.
    pub length: u64,
    /// Position of the run's first byte in the caller's buffer.
    pub memory: u64,
}

/// A range of view bytes whose end is at most [`OFFSET_MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    pub(crate) fn new(offset: ViewOffset, length: u64) -> Result<Self, MapError> {
        match offset.0.checked_add(length) {
            Some(end) if end <= OFFSET_MAX => Ok(Self {
                start: offset.0,
                end,
            }),
            _ => Err(MapError::PastLimit {
                offset: offset.0,
                length,
            }),
        }
    }
}
