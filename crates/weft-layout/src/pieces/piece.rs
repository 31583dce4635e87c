//! One piece, and the range of a view that pieces are asked for.

use crate::{CellIndex, CellOffset, MapError, OFFSET_MAX, ViewOffset};

/// One contiguous run of bytes in one fork of one cell that a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The cell.
    pub cell: CellIndex,
    /// The run's first byte in the cell.
    pub offset: CellOffset,
    /// Bytes of the run, at least 1.
    pub length: u64,
    /// Number of the run's first byte among the bytes of the request, in the caller's order: its
    /// position in a buffer that holds exactly these.
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
