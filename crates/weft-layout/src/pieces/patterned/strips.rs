//! Pieces of patterns: strip by strip, within a strip from local run to local run.
//!
//! A window of local bytes is kept while runs fall into it, so a run costs a comparison and
//! additions. Runs that end before the next window are passed with one division. Where local units
//! are evenly spaced, the runs that touch one are the hits of an arithmetic progression
//! (`arithmetic/progression.rs`), so that runs of other servers cost nothing at all; and where a
//! run falls into the same column as the one before, the window moves with it.

use std::sync::Arc;

use super::finder::Finder;
use super::window::Window;
use crate::arithmetic::progression::ProgressionHits;
use crate::limits::PROGRESSION_RUNS_MIN;
use crate::pieces::piece::Piece;
use crate::pieces::strided::StridedPieces;
use crate::request::nest::{Nest, Strip, Walk};
use crate::{CellIndex, CellOffset};

#[derive(Clone, Debug)]
pub(crate) struct StripPieces {
    walk: Walk,
    finder: Finder,
    window: Window,
    /// The runs of the current strip from the current one on; none are left when `count` is 0.
    strip: Strip,
    /// There are no more strips.
    over: bool,
    /// Bytes of the current run that were passed.
    passed: u64,
    hits: Option<HitCursor>,
    /// How the window moves from run to run.
    lift: Option<u64>,
    /// Pieces found and not yet handed out.
    ready: EqualPieces,
}

/// Pieces that follow one another at equal distances. Offsets step by `stride`, cells by `cells`;
/// one of them is 0.
#[derive(Clone, Copy, Debug)]
struct EqualPieces {
    piece: Piece,
    count: u64,
    stride: u64,
    cells: u32,
    memory_stride: i64,
}

/// The current run among those that touch local units.
#[derive(Clone, Copy, Debug)]
struct HitCursor {
    hits: ProgressionHits,
    place: u64,
}

impl StripPieces {
    /// The caller checked that the whole nest can be mapped, and that the view does not rearrange.
    pub(crate) fn new(finder: Finder, nest: &Arc<Nest>) -> Self {
        let mut pieces = Self {
            walk: Walk::new(nest),
            finder,
            window: Window::NONE,
            strip: Strip::DONE,
            over: false,
            passed: 0,
            hits: None,
            lift: None,
            ready: EqualPieces::NONE,
        };
        pieces.next_strip();
        pieces
    }

    /// Goes to the next strip, of which no run is left if it has no local bytes.
    fn next_strip(&mut self) {
        let next = self.walk.next();
        self.over = next.is_none();
        self.strip = next.unwrap_or(Strip::DONE);
        self.passed = 0;
        (self.hits, self.lift) = (None, None);
        if self.strip.count >= PROGRESSION_RUNS_MIN && !self.find_first_hit() {
            self.strip.count = 0;
        }
    }

    /// Goes to the first run that touches a local unit, if these are a progression's hits; false
    /// when no run does.
    fn find_first_hit(&mut self) -> bool {
        let Finder::Even(even) = &self.finder else {
            return true;
        };
        self.lift = even.lift(self.strip.stride);
        let range = even.unit().saturating_add(self.strip.length - 1);
        if !even.even || self.strip.stride <= 0 || range >= even.spacing() {
            return true;
        }
        let hits = ProgressionHits::new(self.strip.stride.cast_unsigned(), even.spacing(), range);
        // A run touches a unit when its last byte is less than both lengths past the unit's start.
        let last = self.strip.at + self.strip.length - 1;
        let Some((over, place)) = hits.first(even.past_local(last)) else {
            return false;
        };
        if over >= self.strip.count {
            return false;
        }
        self.hits = Some(HitCursor { hits, place });
        self.forward(over);
        true
    }

    /// Moves so many runs on, at most to the end of the strip.
    #[inline]
    fn forward(&mut self, runs: u64) {
        self.strip.count -= runs;
        self.strip.at = self
            .strip
            .at
            .wrapping_add(self.strip.stride.cast_unsigned().wrapping_mul(runs));
        self.strip.rank = self
            .strip
            .rank
            .wrapping_add(self.strip.rank_stride.cast_unsigned().wrapping_mul(runs));
    }

    /// Goes to the next run that may have local bytes.
    #[inline]
    fn next_run(&mut self) {
        self.passed = 0;
        let runs = match &mut self.hits {
            Some(cursor) => {
                let (over, place) = cursor.hits.next(cursor.place);
                cursor.place = place;
                over
            }
            None => 1,
        };
        if runs >= self.strip.count {
            return self.next_strip();
        }
        if let Some(lift) = self.lift {
            let moved = self.strip.stride.cast_unsigned().wrapping_mul(runs);
            self.window.from = self.window.from.wrapping_add(moved);
            self.window.start = self.window.start.wrapping_add(moved);
            self.window.end = self.window.end.wrapping_add(moved);
            self.window.offset = self.window.offset.wrapping_add(lift * runs);
        }
        self.forward(runs);
    }

    /// Skips a run that ends before the window, and later ones that do.
    #[inline]
    fn skip_run(&mut self) {
        if self.lift.is_some() && self.passed == 0 {
            // All later runs fall into the same column.
            return self.next_strip();
        }
        let end = self.strip.at + self.strip.length;
        let gap = self.window.start - end;
        let stride = self.strip.stride.cast_unsigned();
        // Runs that overlap this one may have bytes before the place from which the window was
        // sought.
        let clear = self.strip.stride > 0 && self.strip.at.wrapping_add(stride) >= self.window.from;
        if self.hits.is_none() && clear && gap >= stride {
            let runs = gap / stride;
            if runs >= self.strip.count {
                return self.next_strip();
            }
            self.forward(runs);
        }
        self.next_run();
    }
}

impl EqualPieces {
    const NONE: EqualPieces = EqualPieces {
        piece: Piece {
            cell: CellIndex(0),
            offset: CellOffset(0),
            length: 0,
            memory: 0,
        },
        count: 0,
        stride: 0,
        cells: 0,
        memory_stride: 0,
    };

    /// Takes the next piece.
    #[inline]
    fn step(&mut self) {
        self.count -= 1;
        // Past the last piece these mean nothing and may wrap.
        self.piece.offset.0 = self.piece.offset.0.wrapping_add(self.stride);
        self.piece.cell.0 = self.piece.cell.0.wrapping_add(self.cells);
        let memory = self.piece.memory;
        self.piece.memory = memory.wrapping_add(self.memory_stride.cast_unsigned());
    }
}

impl StripPieces {
    /// Finds the next pieces; false when there are none.
    fn find(&mut self) -> bool {
        loop {
            if let Some(found) = self.find_among(u32::MAX) {
                return found;
            }
        }
    }

    /// Looks at so many runs for the next pieces; `None` if they are not among these.
    fn find_among(&mut self, runs: u32) -> Option<bool> {
        for _ in 0..runs {
            if self.strip.count == 0 {
                if self.over {
                    return Some(false);
                }
                self.next_strip();
                continue;
            }
            let (start, end) = (
                self.strip.at + self.passed,
                self.strip.at + self.strip.length,
            );
            if start < self.window.from || start >= self.window.end {
                self.window = self.finder.seek(start);
            }
            if self.window.start >= end {
                self.skip_run();
                continue;
            }
            let first = start.max(self.window.start);
            let last = end.min(self.window.end);
            self.ready = EqualPieces {
                piece: Piece {
                    cell: self.window.cell,
                    offset: CellOffset(self.window.offset + (first - self.window.start)),
                    length: last - first,
                    memory: self.strip.rank + (first - self.strip.at),
                },
                count: 1,
                ..EqualPieces::NONE
            };
            if last < end {
                self.passed = last - self.strip.at;
            } else if first > self.strip.at || self.strip.count == 1 {
                self.next_run();
            } else {
                self.take_equal(end);
            }
            return Some(true);
        }
        None
    }

    /// As [`Pieces::look`](crate::Pieces::look).
    pub(crate) fn look(&mut self, runs: u32) -> bool {
        self.ready.count > 0 || self.find_among(runs).is_some()
    }

    /// Passes over loops and strips that begin at `end` or after it.
    pub(crate) fn below(&mut self, end: u64) {
        self.walk.below(end);
        if self.strip.count > 0 && self.strip.stride >= 0 && self.strip.at >= end {
            self.strip.count = 0;
        }
    }

    /// The current run is one piece: adds the runs after it that are equal pieces, and moves past
    /// them.
    #[inline]
    fn take_equal(&mut self, end: u64) {
        let stride = self.strip.stride.cast_unsigned();
        self.ready.memory_stride = self.strip.rank_stride;
        if let Some(lift) = self.lift.filter(|lift| *lift >= self.strip.length) {
            (self.ready.count, self.ready.stride) = (self.strip.count, lift);
            return self.next_strip();
        }
        if self.strip.stride >= self.strip.length.cast_signed()
            && end.wrapping_add(stride) <= self.window.end
        {
            let passed = ((self.window.end - end) / stride).min(self.strip.count - 1);
            (self.ready.count, self.ready.stride) = (passed + 1, stride);
            if let Some(cursor) = &mut self.hits {
                // They touch the same unit, so the place moves as far as they do.
                cursor.place += stride * passed;
            }
            self.forward(passed);
            return self.next_run();
        }
        if let (Some(cursor), Finder::Even(even)) = (&self.hits, &self.finder)
            && let Some(runs) = cursor.hits.even()
            && runs < self.strip.count
            && let Some((cells, count)) = even.along_row(&self.window, stride.wrapping_mul(runs))
        {
            let passed = (count - 1).min((self.strip.count - 1) / runs);
            (self.ready.count, self.ready.cells) = (passed + 1, cells);
            self.ready.memory_stride = self.strip.rank_stride.wrapping_mul(runs.cast_signed());
            self.forward(passed * runs);
        }
        self.next_run();
    }

    /// The next pieces of one cell that lie at equal distances.
    pub(crate) fn next_strided(&mut self) -> Option<StridedPieces> {
        if self.ready.count == 0 && !self.find() {
            return None;
        }
        let ready = self.ready;
        if ready.cells > 0 || ready.count == 1 {
            self.ready.step();
            return Some(ready.piece.into());
        }
        self.ready.count = 0;
        Some(StridedPieces {
            count: ready.count,
            stride: ready.stride,
            memory_stride: ready.memory_stride,
            ..ready.piece.into()
        })
    }
}

impl Iterator for StripPieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.ready.count == 0 && !self.find() {
            return None;
        }
        let piece = self.ready.piece;
        self.ready.step();
        Some(piece)
    }
}
