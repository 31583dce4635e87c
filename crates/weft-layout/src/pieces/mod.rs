//! The pieces of a request on one server: one lazy iterator per shape of view.
//!
//! `contiguous/` has the iterators over one range of a view, `patterned/` those over the strips of
//! a pattern. `strided.rs` takes pieces at equal distances together, `splitter.rs` hands them out
//! in bounded sizes.
//!
//! Each iterator keeps its place as a few sums and advances them, so that a piece costs additions
//! and comparisons; what needs a division is worked out when the iterator is made. Bounds are
//! checked there too, once for the whole request ([`Pieces::contiguous`], [`Pieces::shaped`]), so
//! the loops add without checking: nothing they hold exceeds 2·[`OFFSET_MAX`].
//!
//! Invariant: client and server produce the same pieces in the same order. This is a wire contract:
//! data travels as one stream in that order and the pieces are never sent, so a change of the order
//! or of where pieces are split is a change of the protocol.

mod contiguous;
mod patterned;
pub(crate) mod piece;
pub(crate) mod splitter;
pub(crate) mod strided;

use std::iter::FusedIterator;
use std::sync::Arc;

use crate::request::nest::Nest;
use crate::view::shape::Shape;
use crate::{Grid, MapError, Piece, ServerSlot};
use contiguous::Contiguous;
use patterned::{Finder, RunPieces, StripPieces};
use piece::Span;
use strided::StridedPieces;

/// The pieces of a request on one server, by ascending memory position; made by
/// [`Map::pieces`](crate::Map::pieces).
#[derive(Clone, Debug)]
pub struct Pieces(Kind);

#[expect(
    clippy::large_enum_variant,
    reason = "most requests are contiguous, and a box would cost each of them an allocation"
)]
#[derive(Clone, Debug)]
enum Kind {
    Contiguous(Contiguous),
    Strips(Box<StripPieces>),
    Runs(Box<RunPieces>),
}

impl Pieces {
    /// The pieces of a contiguous range of view bytes.
    pub(crate) fn contiguous(
        grid: &Grid,
        shape: &Shape,
        span: Span,
        slot: ServerSlot,
    ) -> Result<Self, MapError> {
        let pieces = Contiguous::new(grid, shape, span, slot)?;
        Ok(Self(Kind::Contiguous(pieces)))
    }

    /// The pieces of a nest of strips.
    pub(crate) fn shaped(
        grid: &Grid,
        shape: &Shape,
        nest: &Arc<Nest>,
        slot: ServerSlot,
    ) -> Result<Self, MapError> {
        let hull = Span {
            start: nest.first,
            end: nest.end,
        };
        // Whatever is legal for all bytes between the first and the last is legal for each run.
        let all = Contiguous::new(grid, shape, hull, slot)?;
        if nest.is_one_run() {
            return Ok(Self(Kind::Contiguous(all)));
        }
        let kind = match Finder::new(*grid, *shape, slot, nest.end) {
            Some(finder) => Kind::Strips(Box::new(StripPieces::new(finder, nest))),
            None => Kind::Runs(Box::new(RunPieces::new(*grid, *shape, slot, nest))),
        };
        Ok(Self(kind))
    }
}

impl Pieces {
    /// Looks for the next piece among the next `runs` runs of the request, any number of which may
    /// lie on other servers, and returns after them. True when the next call finds a piece, or that
    /// there is none, at once.
    pub fn look(&mut self, runs: u32) -> bool {
        match &mut self.0 {
            Kind::Strips(pieces) => pieces.look(runs),
            Kind::Runs(pieces) => pieces.look(runs),
            Kind::Contiguous(_) => true,
        }
    }

    /// Skips pieces at `end` of the view or after it, which the caller does not need, where this is
    /// cheap. Others of them may still come.
    #[must_use]
    pub fn below(mut self, end: u64) -> Pieces {
        if let Kind::Strips(pieces) = &mut self.0 {
            pieces.below(end);
        }
        self
    }

    /// The next pieces of one cell that lie at equal distances; if [`Iterator::next`] has taken
    /// some of them, the rest.
    #[inline]
    pub fn next_strided(&mut self) -> Option<StridedPieces> {
        match &mut self.0 {
            Kind::Contiguous(pieces) => pieces.next_strided(),
            Kind::Strips(pieces) => pieces.next_strided(),
            Kind::Runs(pieces) => pieces.next().map(StridedPieces::from),
        }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        match &mut self.0 {
            Kind::Contiguous(pieces) => pieces.next(),
            Kind::Strips(pieces) => pieces.next(),
            Kind::Runs(pieces) => pieces.next(),
        }
    }

    /// Chooses the loop once instead of at each piece; `for_each`, `sum` and `extend` come here.
    fn fold<B, F>(self, init: B, f: F) -> B
    where
        F: FnMut(B, Piece) -> B,
    {
        match self.0 {
            Kind::Contiguous(pieces) => pieces.fold(init, f),
            Kind::Strips(pieces) => pieces.fold(init, f),
            Kind::Runs(pieces) => pieces.fold(init, f),
        }
    }
}

impl FusedIterator for Pieces {}
