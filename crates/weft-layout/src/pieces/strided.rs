//! Pieces at equal distances, taken together, so that a loop over many small pieces learns once
//! what they have in common.
//!
//! A [`Splitter`](crate::Splitter) hands them out in lengths that suit its user (a frame, a batch),
//! so that client and server split the same stream without looking at each piece. Rejected: handing
//! out pieces one by one. A piece of 64 bytes costs a few nanoseconds to copy, and as much again
//! for each layer that sees it alone.

use super::piece::Piece;
use crate::strided_copy::Strided;
use crate::{CellIndex, CellOffset};

/// `count` pieces of one cell: the first, and how the next ones follow. They are disjoint and
/// ascend in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedPieces {
    /// The cell.
    pub cell: CellIndex,
    /// The first piece's first byte in the cell.
    pub offset: CellOffset,
    /// Bytes of each piece, at least 1.
    pub length: u64,
    /// Number of the first piece's first byte, as [`Piece::memory`].
    pub memory: u64,
    /// Pieces, at least 1.
    pub count: u64,
    /// From piece to piece in the cell, at least `length`; means nothing for one piece.
    pub stride: u64,
    /// From piece to piece among the bytes of the request.
    pub memory_stride: i64,
}

impl From<Piece> for StridedPieces {
    fn from(piece: Piece) -> StridedPieces {
        StridedPieces {
            cell: piece.cell,
            offset: piece.offset,
            length: piece.length,
            memory: piece.memory,
            count: 1,
            stride: piece.length,
            memory_stride: 0,
        }
    }
}

impl StridedPieces {
    /// Bytes of all its pieces.
    pub fn bytes(&self) -> u64 {
        self.length * self.count
    }

    /// One past its last piece's last byte in the cell.
    pub fn end(&self) -> u64 {
        self.offset.0 + self.stride * (self.count - 1) + self.length
    }

    /// Number of the first byte of piece `n`, as [`Piece::memory`].
    pub fn memory_of(&self, n: u64) -> u64 {
        let step = self.memory_stride.cast_unsigned();
        self.memory.wrapping_add(step.wrapping_mul(n))
    }

    /// Its pieces.
    pub fn pieces(self) -> impl Iterator<Item = Piece> {
        (0..self.count).map(move |n| Piece {
            cell: self.cell,
            offset: CellOffset(self.offset.0 + self.stride * n),
            length: self.length,
            memory: self.memory_of(n),
        })
    }

    /// Whether its bytes have consecutive numbers in the request, from `memory` on.
    pub fn is_contiguous_in_memory(&self) -> bool {
        self.count == 1 || self.memory_stride.cast_unsigned() == self.length
    }

    /// Where its pieces lie among the bytes of the request.
    pub fn in_memory(&self) -> Strided {
        Strided {
            at: self.memory as usize,
            step: self.memory_stride as isize,
        }
    }

    /// Its first piece.
    pub fn first(&self) -> Piece {
        Piece {
            cell: self.cell,
            offset: self.offset,
            length: self.length,
            memory: self.memory,
        }
    }

    /// All pieces but the first `n`; of `count` 0 when none is left.
    #[must_use]
    pub fn rest(&self, n: u64) -> StridedPieces {
        StridedPieces {
            offset: CellOffset(self.offset.0.wrapping_add(self.stride.wrapping_mul(n))),
            memory: self.memory_of(n),
            count: self.count - n,
            ..*self
        }
    }

    /// All pieces but the first `n`, if any is left.
    pub(crate) fn after(&self, n: u64) -> Option<StridedPieces> {
        (n < self.count).then(|| self.rest(n))
    }

    /// Bytes `from..to` of the first piece.
    pub(crate) fn within(&self, from: u64, to: u64) -> StridedPieces {
        StridedPieces {
            offset: CellOffset(self.offset.0 + from),
            memory: self.memory + from,
            length: to - from,
            count: 1,
            ..*self
        }
    }
}
