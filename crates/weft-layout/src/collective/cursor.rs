//! The pieces of one member, taken one after another and split at the ends of bands.

use crate::limits::RUNS_PER_LOOK;
use crate::{CellOffset, Piece, Pieces};

/// Pieces that can be looked for a little at a time.
pub trait Search: Iterator<Item = Piece> {
    /// As [`Pieces::look`].
    fn look(&mut self, _runs: u32) -> bool {
        true
    }
}

impl Search for std::vec::IntoIter<Piece> {}

impl Search for Pieces {
    fn look(&mut self, runs: u32) -> bool {
        Pieces::look(self, runs)
    }
}

/// Takes pieces one after another, whole or up to a place.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<I> {
    pieces: I,
    /// The next, if it was looked for.
    pub(crate) next: Option<Piece>,
    known: bool,
}

impl<I: Search> Cursor<I> {
    pub(crate) fn new(pieces: I) -> Self {
        Cursor {
            pieces,
            next: None,
            known: false,
        }
    }

    /// The next piece; counts down the steps it takes to find it, `None` if they are too few.
    #[allow(clippy::option_option)] // whether it is known, and whether there is one
    pub(crate) fn look(&mut self, steps: &mut u32) -> Option<Option<Piece>> {
        while !self.known {
            *steps = steps.checked_sub(1)?;
            if self.pieces.look(RUNS_PER_LOOK) {
                (self.next, self.known) = (self.pieces.next(), true);
            } else {
                *steps = steps.saturating_sub(RUNS_PER_LOOK);
            }
        }
        Some(self.next)
    }

    /// The next piece if it starts before `end`, up to there and to `most` bytes; `None` as of
    /// [`Cursor::look`].
    #[allow(clippy::option_option)] // as of `look`
    pub(super) fn take(&mut self, end: u64, most: u64, steps: &mut u32) -> Option<Option<Piece>> {
        let next = self.look(steps)?;
        let Some(piece) = next.filter(|p| p.offset.0 < end && most > 0) else {
            return Some(None);
        };
        let length = piece.length.min(end - piece.offset.0).min(most);
        self.known = length < piece.length;
        self.next = self.known.then(|| Piece {
            offset: CellOffset(piece.offset.0 + length),
            length: piece.length - length,
            memory: piece.memory + length,
            ..piece
        });
        Some(Some(Piece { length, ..piece }))
    }
}
