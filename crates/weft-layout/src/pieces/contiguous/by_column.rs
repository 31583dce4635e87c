//! Pieces of an access in column-major order: cell by cell, within a cell by ascending offset.
//!
//! Which bytes the access touches is decided in the default order. They are then numbered column by
//! column, ghosts included; how many lie in the columns before one is a closed formula, so that
//! columns on other servers cost nothing.

use super::local_columns::{LocalColumn, LocalColumns};
use crate::pieces::piece::{Piece, Span};
use crate::view::columns::Columns;
use crate::{CellIndex, CellOffset};

#[derive(Clone, Debug)]
pub(crate) struct ByColumnPieces {
    columns: Columns,
    local: LocalColumns,
    span: Span,
    /// Columns that the access touches: all before `head_end`, and all from `tail_start` to before
    /// `tail_end`.
    head_end: u64,
    tail_start: u64,
    tail_end: u64,
    /// The column being yielded, with what is left of it.
    at: Option<LocalColumn>,
    offset: u64,
    memory: u64,
    left: u64,
    /// Bytes until the next gap in the cell.
    run_left: u64,
    /// Bytes from gap to gap, and of a gap.
    run: u64,
    gap: u64,
}

impl ByColumnPieces {
    /// The span is not empty and its offsets are below the limit.
    pub(crate) fn new(columns: Columns, local: LocalColumns, span: Span) -> Self {
        let (first_row, last_row) = (span.start / columns.band, (span.end - 1) / columns.band);
        let first = span.start % columns.band / columns.unit;
        let end = (span.end - 1) % columns.band / columns.unit + 1;
        let (head_end, tail_start, tail_end) = if first_row == last_row {
            (0, first, end)
        } else if last_row - first_row == 1 && end < first {
            (end, first, columns.width)
        } else {
            (0, 0, columns.width)
        };
        // Where no gap lies between runs, a column is one piece.
        let (run, gap) = if columns.unbroken() {
            (u64::MAX, 0)
        } else {
            (columns.run, columns.period - columns.run)
        };
        let mut pieces = Self {
            columns,
            local,
            span,
            head_end,
            tail_start,
            tail_end,
            at: None,
            offset: 0,
            memory: 0,
            left: 0,
            run_left: 0,
            run,
            gap,
        };
        pieces.enter(local.seek(0));
        pieces
    }

    /// Moves to this local column, or to the first touched one after it.
    fn enter(&mut self, local: Option<LocalColumn>) {
        self.at = local
            .and_then(|at| {
                let between = at.column >= self.head_end && at.column < self.tail_start;
                if between {
                    self.local.seek(self.tail_start)
                } else {
                    Some(at)
                }
            })
            .filter(|at| at.column < self.tail_end);
        let Some(LocalColumn { column, .. }) = self.at else {
            return;
        };
        let Span { start, end } = self.span;
        let dense = self.columns.share(start, column);
        self.left = self.columns.share(end, column) - dense;
        self.memory =
            self.columns.share_before(end, column) - self.columns.share_before(start, column);
        // Fits: the caller checked the largest offset of the span.
        self.offset = self.columns.offset_of(dense) as u64;
        self.run_left = if self.gap == 0 {
            self.run
        } else {
            self.run - dense % self.run
        };
    }
}

impl Iterator for ByColumnPieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let at = self.at?;
        let length = self.left.min(self.run_left);
        let piece = Piece {
            cell: CellIndex(at.cell as u32),
            offset: CellOffset(self.offset),
            length,
            memory: self.memory,
        };
        self.left -= length;
        if self.left == 0 {
            self.enter(self.local.step(at));
        } else {
            self.memory += length;
            self.offset += length + self.gap;
            self.run_left = self.run;
        }
        Some(piece)
    }
}
