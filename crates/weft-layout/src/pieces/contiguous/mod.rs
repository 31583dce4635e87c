//! The pieces of a contiguous range of view bytes: one iterator for each form of view (`rows`,
//! `by_column`, `groups`), over the columns of one server (`local_columns`).
//!
//! Owns an iterator's position, a few sums. Invariants: pieces come in the order of memory and are
//! disjoint; bytes on other servers cost no step each; the range was checked against [`OFFSET_MAX`]
//! when the iterator was made. Knows no pattern and no length of a cell.

mod by_column;
mod groups;
mod local_columns;
mod rows;

use super::piece::{Piece, Span};
use super::strided::StridedPieces;
use crate::view::shape::Shape;
use crate::{CellIndex, CellOffset, Grid, MapError, OFFSET_MAX, ServerSlot};
use by_column::ByColumnPieces;
use groups::GroupPieces;
use local_columns::LocalColumns;
use rows::RowPieces;

/// The pieces of a contiguous range on one server, by the shape of the view.
#[derive(Clone, Debug)]
pub(super) enum Contiguous {
    /// At most one piece.
    One(Option<Piece>),
    Rows(RowPieces),
    ByColumn(ByColumnPieces),
    Groups(GroupPieces),
}

impl Contiguous {
    /// The pieces of a contiguous range of view bytes.
    pub(super) fn new(
        grid: &Grid,
        shape: &Shape,
        span: Span,
        slot: ServerSlot,
    ) -> Result<Self, MapError> {
        if span.start == span.end {
            return Ok(Self::One(None));
        }
        let past = MapError::PastLimit {
            offset: span.start,
            length: span.end - span.start,
        };
        let within = |place: u128| {
            if place < OFFSET_MAX.into() {
                Ok(())
            } else {
                Err(past)
            }
        };
        let kind = match shape {
            Shape::Linear(linear) if span.end > linear.limit => return Err(past),
            Shape::Linear(linear) => {
                let local = linear.cell < u64::from(grid.cells())
                    && grid.slot_of(CellIndex(linear.cell as u32)) == slot;
                Self::One(local.then(|| Piece {
                    cell: CellIndex(linear.cell as u32),
                    offset: CellOffset(linear.start + span.start),
                    length: span.end - span.start,
                    memory: 0,
                }))
            }
            Shape::Rows { columns, shift } => {
                // Below 2⁶⁴: both are at most OFFSET_MAX.
                let span = Span {
                    start: span.start + shift,
                    end: span.end + shift,
                };
                within(u128::from(span.end) - 1)?;
                within(columns.farthest(span.start, span.end))?;
                let local = LocalColumns::new(columns, grid, slot);
                RowPieces::new(columns, local, span).map_or(Self::One(None), Self::Rows)
            }
            Shape::ByColumn(columns) => {
                within(columns.farthest(span.start, span.end))?;
                let local = LocalColumns::new(columns, grid, slot);
                Self::ByColumn(ByColumnPieces::new(*columns, local, span))
            }
            Shape::Groups(groups) => {
                within(groups.file_of(span.end - 1))?;
                let pieces = GroupPieces::new(groups, grid, slot, span);
                pieces.map_or(Self::One(None), Self::Groups)
            }
        };
        Ok(kind)
    }

    /// The next pieces of one cell that lie at equal distances.
    #[inline]
    pub(super) fn next_strided(&mut self) -> Option<StridedPieces> {
        match self {
            Self::Rows(pieces) => pieces.next_strided(),
            Self::Groups(pieces) => pieces.next_strided(),
            Self::One(_) | Self::ByColumn(_) => self.next().map(StridedPieces::from),
        }
    }
}

impl Iterator for Contiguous {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        match self {
            Self::One(piece) => piece.take(),
            Self::Rows(pieces) => pieces.next(),
            Self::ByColumn(pieces) => pieces.next(),
            Self::Groups(pieces) => pieces.next(),
        }
    }

    fn fold<B, F>(self, init: B, f: F) -> B
    where
        F: FnMut(B, Piece) -> B,
    {
        match self {
            Self::One(piece) => piece.into_iter().fold(init, f),
            Self::Rows(pieces) => pieces.fold(init, f),
            Self::ByColumn(pieces) => pieces.fold(init, f),
            Self::Groups(pieces) => pieces.fold(init, f),
        }
    }
}
