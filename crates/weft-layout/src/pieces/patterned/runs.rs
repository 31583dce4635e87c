//! Pieces of patterns in column-major order: each run is rearranged in itself, and costs what a
//! contiguous access costs.

use std::sync::Arc;

use crate::pieces::contiguous::Contiguous;
use crate::pieces::piece::{Piece, Span};
use crate::request::nest::{Nest, Strip, Walk};
use crate::view::shape::Shape;
use crate::{Grid, ServerSlot};

/// Pieces of patterns where each run is rearranged in itself.
#[derive(Clone, Debug)]
pub(crate) struct RunPieces {
    grid: Grid,
    shape: Shape,
    slot: ServerSlot,
    walk: Walk,
    /// The runs of the current strip that were not started.
    strip: Strip,
    /// What is left of the current run, and its rank.
    run: Option<(Contiguous, u64)>,
    /// Found and not yet handed out.
    ready: Option<Piece>,
}

impl RunPieces {
    /// The caller checked that the whole nest can be mapped.
    pub(crate) fn new(grid: Grid, shape: Shape, slot: ServerSlot, nest: &Arc<Nest>) -> Self {
        Self {
            grid,
            shape,
            slot,
            walk: Walk::new(nest),
            strip: Strip::DONE,
            run: None,
            ready: None,
        }
    }

    /// Looks at so many runs for the next piece; `None` if it is not among these.
    #[allow(clippy::option_option)] // not known yet, and there is none, are two answers
    fn find_among(&mut self, runs: u32) -> Option<Option<Piece>> {
        for _ in 0..runs {
            if let Some((pieces, rank)) = &mut self.run {
                if let Some(piece) = pieces.next() {
                    let memory = *rank + piece.memory;
                    return Some(Some(Piece { memory, ..piece }));
                }
                self.run = None;
            }
            let Some((span, rank)) = self.next_run() else {
                return Some(None);
            };
            let pieces = Contiguous::new(&self.grid, &self.shape, span, self.slot)
                .expect("every run lies in the hull that was checked");
            self.run = Some((pieces, rank));
        }
        None
    }

    /// As [`Pieces::look`](crate::Pieces::look).
    pub(crate) fn look(&mut self, runs: u32) -> bool {
        if self.ready.is_some() {
            return true;
        }
        let found = self.find_among(runs);
        self.ready = found.flatten();
        found.is_some()
    }

    /// The next run, as a range of the view and a rank.
    fn next_run(&mut self) -> Option<(Span, u64)> {
        if self.strip.count == 0 {
            self.strip = self.walk.next()?;
        }
        let strip = &mut self.strip;
        let (start, rank) = (strip.at, strip.rank);
        strip.count -= 1;
        strip.at = strip.at.wrapping_add(strip.stride.cast_unsigned());
        strip.rank = strip.rank.wrapping_add(strip.rank_stride.cast_unsigned());
        let end = start + strip.length;
        Some((Span { start, end }, rank))
    }
}

impl Iterator for RunPieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if let Some(piece) = self.ready.take() {
            return Some(piece);
        }
        loop {
            if let Some(found) = self.find_among(u32::MAX) {
                return found;
            }
        }
    }
}
