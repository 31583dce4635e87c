//! Pieces without the bytes past the ends of their cells.

use super::cursor::Search;
use crate::{CellIndex, Piece, Pieces};

/// The pieces of one member, clipped at the ends of their cells: bytes beyond do not exist.
#[derive(Clone, Debug)]
pub struct Clipped<L> {
    pieces: Pieces,
    length_of: L,
    /// The cell last looked up: neighbours mostly lie in one.
    last: Option<(CellIndex, u64)>,
    /// The next, if it was found already.
    ready: Option<Piece>,
}

impl<L: FnMut(CellIndex) -> u64> Clipped<L> {
    /// `length_of` says where each cell ends.
    pub fn new(pieces: Pieces, length_of: L) -> Self {
        Clipped {
            pieces,
            length_of,
            last: None,
            ready: None,
        }
    }

    fn clip(&mut self, piece: Piece) -> Option<Piece> {
        let length = match self.last {
            Some((cell, length)) if cell == piece.cell => length,
            _ => (self.length_of)(piece.cell),
        };
        self.last = Some((piece.cell, length));
        let valid = length.saturating_sub(piece.offset.0).min(piece.length);
        (valid > 0).then_some(Piece {
            length: valid,
            ..piece
        })
    }
}

impl<L: FnMut(CellIndex) -> u64> Search for Clipped<L> {
    fn look(&mut self, runs: u32) -> bool {
        for _ in 0..runs {
            if self.ready.is_some() {
                return true;
            }
            if self.pieces.look(1) {
                let Some(piece) = self.pieces.next() else {
                    return true;
                };
                self.ready = self.clip(piece);
            }
        }
        self.ready.is_some()
    }
}

impl<L: FnMut(CellIndex) -> u64> Iterator for Clipped<L> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if let Some(piece) = self.ready.take() {
            return Some(piece);
        }
        loop {
            let piece = self.pieces.next()?;
            if let Some(piece) = self.clip(piece) {
                return Some(piece);
            }
        }
    }
}
