//! Pieces of patterns: strip by strip, within a strip run by run.

use std::sync::Arc;

use super::Pieces;
use crate::nest::{Nest, Strip, Walk};
use crate::request::Span;
use crate::shape::Shape;
use crate::{Grid, Piece, ServerSlot};

#[derive(Clone, Debug)]
pub(crate) struct StripPieces {
    grid: Grid,
    shape: Shape,
    slot: ServerSlot,
    walk: Walk,
    /// The runs of the current strip that were not begun.
    strip: Option<Strip>,
    /// What is left of the current run, and its rank.
    run: Option<(Pieces, u64)>,
}

impl StripPieces {
    /// The caller checked that the whole nest can be mapped.
    pub(crate) fn new(grid: Grid, shape: Shape, nest: &Arc<Nest>, slot: ServerSlot) -> Self {
        let mut walk = nest.walk();
        let strip = walk.next();
        Self {
            grid,
            shape,
            slot,
            walk,
            strip,
            run: None,
        }
    }

    /// The next run, as a range of the view and a rank.
    fn next_run(&mut self) -> Option<(Span, u64)> {
        let strip = self.strip.as_mut()?;
        let span = Span {
            start: strip.at,
            end: strip.at + strip.length,
        };
        let rank = strip.rank;
        strip.count -= 1;
        strip.at = strip.at.wrapping_add(strip.stride as u64);
        strip.rank = strip.rank.wrapping_add(strip.rank_stride as u64);
        if strip.count == 0 {
            self.strip = self.walk.next();
        }
        Some((span, rank))
    }
}

impl Iterator for StripPieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some((pieces, rank)) = &mut self.run {
                if let Some(piece) = pieces.next() {
                    let memory = *rank + piece.memory;
                    return Some(Piece { memory, ..piece });
                }
                self.run = None;
            }
            let (span, rank) = self.next_run()?;
            let pieces = Pieces::contiguous(&self.grid, &self.shape, span, self.slot)
                .expect("every run lies in the hull that was checked");
            self.run = Some((pieces, rank));
        }
    }
}
