//! Pieces of a view whose order goes row by row across its columns: the canonical order, and a
//! subfile's default and row-major orders.
//!
//! Two units of one column that follow one another in memory exist only where the view has one
//! column; there a unit is a whole run (see `columns.rs`), and runs do not meet, or the shape
//! would be linear. So each local unit is one piece and nothing is left to coalesce.

use super::local_columns::{LocalColumn, LocalColumns};
use crate::pieces::piece::{Piece, Span};
use crate::pieces::strided::StridedPieces;
use crate::view::columns::Columns;
use crate::{CellIndex, CellOffset};

#[derive(Clone, Debug)]
pub(crate) struct RowPieces {
    local: LocalColumns,
    /// The local column a row begins with.
    first: LocalColumn,
    /// The local column of the next piece; its row starts at `row`.
    at: LocalColumn,
    span: Span,
    unit: u64,
    band: u64,
    /// View byte with which the row starts. No piece is left when it is at or past the span's end.
    row: u64,
    /// Where the row's units start in their cells.
    offset: u64,
    /// Rows up to the end of the run, this one included.
    rows_left: u64,
    rows_of_run: u64,
    /// From the end of a run to the start of the next.
    gap: u64,
}

impl RowPieces {
    /// `None` when no column is local. The span is not empty and its offsets are below the limit.
    pub(crate) fn new(columns: &Columns, local: LocalColumns, span: Span) -> Option<Self> {
        let first = local.seek(0)?;
        let rest = span.start % columns.band;
        let mut row = span.start / columns.band;
        let at = local.seek(rest / columns.unit).unwrap_or_else(|| {
            row += 1;
            first
        });
        // Row `row` may lie past the span, and its offset then past 64 bits; nothing is yielded.
        let start = u64::try_from(u128::from(row) * u128::from(columns.band));
        let row_start = start.ok().filter(|&start| start < span.end)?;
        let dense = row * columns.unit;
        let rows_of_run = columns.run / columns.unit;
        Some(Self {
            local,
            first,
            at,
            span,
            unit: columns.unit,
            band: columns.band,
            row: row_start,
            // The caller checked the largest offset of the span, and this row's start is not larger
            // than its bytes', so it fits.
            offset: columns.offset_of(dense) as u64,
            rows_left: rows_of_run - row % rows_of_run,
            rows_of_run,
            gap: columns.period - columns.run,
        })
    }

    fn next_row(&mut self) {
        self.row += self.band;
        self.offset += self.unit;
        self.rows_left -= 1;
        if self.rows_left == 0 {
            self.rows_left = self.rows_of_run;
            self.offset += self.gap;
        }
        self.at = self.first;
    }
}

impl RowPieces {
    /// The next pieces of one cell at equal distances: where one local column is all there is, the
    /// rows of its run.
    #[inline]
    pub(crate) fn next_strided(&mut self) -> Option<StridedPieces> {
        let (at, row) = (self.at.column, self.row);
        let piece = self.next()?;
        let mut strided = StridedPieces::from(piece);
        if self.row != row + self.band || self.at.column != at || piece.length < self.unit {
            return Some(strided);
        }
        // Where no gap comes between runs, or one after every row, all rows are alike; else those
        // of a run.
        let alike = self.rows_of_run == 1 || self.gap == 0;
        let unit_end = self.row + at * self.unit + self.unit;
        if unit_end > self.span.end || (!alike && self.rows_left == self.rows_of_run) {
            return Some(strided);
        }
        let inside = (self.span.end - unit_end) / self.band + 1;
        let more = if alike {
            inside
        } else {
            inside.min(self.rows_left)
        };
        strided.count += more;
        strided.stride = self.unit + if alike { self.gap } else { 0 };
        strided.memory_stride = self.band.cast_signed();
        self.row += self.band * (more - 1);
        self.offset += strided.stride * (more - 1);
        if !alike {
            self.rows_left -= more - 1;
        }
        self.next_row();
        Some(strided)
    }
}

impl Iterator for RowPieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.row >= self.span.end {
            return None;
        }
        let unit_start = self.row + self.at.column * self.unit;
        if unit_start >= self.span.end {
            self.row = self.span.end;
            return None;
        }
        // Only the first and the last unit of a request can be cut.
        let start = unit_start.max(self.span.start);
        let end = (unit_start + self.unit).min(self.span.end);
        let piece = Piece {
            cell: CellIndex(self.at.cell as u32),
            offset: CellOffset(self.offset + (start - unit_start)),
            length: end - start,
            memory: start - self.span.start,
        };
        match self.local.step(self.at) {
            Some(next) => self.at = next,
            None => self.next_row(),
        }
        Some(piece)
    }
}
