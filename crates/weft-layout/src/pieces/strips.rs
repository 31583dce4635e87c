//! Pieces of patterns: strip by strip, within a strip from own run to own run.
//!
//! A window of own bytes is kept while runs fall into it, so a run costs a comparison and
//! additions. Runs that end before the next window are passed with one division. Where own units
//! are evenly spaced, which runs touch one is a rhythm of two jumps and their sum (`rhythm.rs`), so
//! that runs of other servers cost nothing at all; and where a run falls into the same column as
//! the one before, the window moves with it.
//!
//! In column-major order each run is rearranged in itself, and costs what a contiguous access
//! costs.

use std::sync::Arc;

use super::contiguous::Contiguous;
use super::finder::Finder;
use super::window::Window;
use crate::nest::{Nest, Strip, Walk};
use crate::request::Span;
use crate::rhythm::Rhythm;
use crate::shape::Shape;
use crate::stretch::Stretch;
use crate::{CellIndex, CellOffset, Grid, Piece, ServerSlot};

/// Strips of fewer runs are not worth a rhythm.
const RHYTHM_MIN: u64 = 16;

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
    rhythm: Option<Beat>,
    /// How the window moves from run to run.
    lift: Option<u64>,
    /// Pieces found and not handed out.
    ready: Alike,
}

/// Pieces that follow one another at equal distances. Offsets step by `stride`, cells by `cells`;
/// one of them is 0.
#[derive(Clone, Copy, Debug)]
struct Alike {
    piece: Piece,
    count: u64,
    stride: u64,
    cells: u32,
    memory_stride: i64,
}

/// Where the current run is in the rhythm of those that touch own units.
#[derive(Clone, Copy, Debug)]
struct Beat {
    rhythm: Rhythm,
    place: u64,
}

const DONE: Strip = Strip {
    at: 0,
    rank: 0,
    length: 0,
    stride: 0,
    rank_stride: 0,
    count: 0,
};

impl StripPieces {
    /// The caller checked that the whole nest can be mapped, and that the view does not rearrange.
    pub(crate) fn new(finder: Finder, nest: &Arc<Nest>) -> Self {
        let mut pieces = Self {
            walk: nest.walk(),
            finder,
            window: Window::NONE,
            strip: DONE,
            over: false,
            passed: 0,
            rhythm: None,
            lift: None,
            ready: Alike::NONE,
        };
        pieces.next_strip();
        pieces
    }

    /// Goes to the next strip, of which no run is left if it has no own bytes.
    fn next_strip(&mut self) {
        let next = self.walk.next();
        self.over = next.is_none();
        self.strip = next.unwrap_or(DONE);
        self.passed = 0;
        (self.rhythm, self.lift) = (None, None);
        if self.strip.count >= RHYTHM_MIN && !self.find_beat() {
            self.strip.count = 0;
        }
    }

    /// Goes to the first run that touches an own unit, if there is a rhythm in that; false when
    /// none does.
    fn find_beat(&mut self) -> bool {
        let Finder::Even(even) = &self.finder else {
            return true;
        };
        self.lift = even.lift(self.strip.stride);
        let reach = even.unit().saturating_add(self.strip.length - 1);
        if !even.even || self.strip.stride <= 0 || reach >= even.spacing() {
            return true;
        }
        let rhythm = Rhythm::new(self.strip.stride.cast_unsigned(), even.spacing(), reach);
        // A run touches a unit when its last byte is less than both lengths past the unit's start.
        let last = self.strip.at + self.strip.length - 1;
        let Some((over, place)) = rhythm.first(even.past_own(last)) else {
            return false;
        };
        if over >= self.strip.count {
            return false;
        }
        self.rhythm = Some(Beat { rhythm, place });
        self.forward(over);
        true
    }

    /// Goes so many runs on, at most to the end of the strip.
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

    /// Goes to the next run that may have own bytes.
    #[inline]
    fn next_run(&mut self) {
        self.passed = 0;
        let runs = match &mut self.rhythm {
            Some(beat) => {
                let (over, place) = beat.rhythm.next(beat.place);
                beat.place = place;
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

    /// Leaves a run that ends before the window, and those after it that do, too.
    #[inline]
    fn leave_run(&mut self) {
        if self.lift.is_some() && self.passed == 0 {
            // The others fall into the same column.
            return self.next_strip();
        }
        let end = self.strip.at + self.strip.length;
        let ahead = self.window.start - end;
        let stride = self.strip.stride.cast_unsigned();
        // Runs that overlap this one may have bytes before the place from which the window was
        // sought.
        let clear = self.strip.stride > 0 && self.strip.at.wrapping_add(stride) >= self.window.from;
        if self.rhythm.is_none() && clear && ahead >= stride {
            let runs = ahead / stride;
            if runs >= self.strip.count {
                return self.next_strip();
            }
            self.forward(runs);
        }
        self.next_run();
    }
}

impl Alike {
    const NONE: Alike = Alike {
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
                self.leave_run();
                continue;
            }
            let first = start.max(self.window.start);
            let last = end.min(self.window.end);
            self.ready = Alike {
                piece: Piece {
                    cell: self.window.cell,
                    offset: CellOffset(self.window.offset + (first - self.window.start)),
                    length: last - first,
                    memory: self.strip.rank + (first - self.strip.at),
                },
                count: 1,
                ..Alike::NONE
            };
            if last < end {
                self.passed = last - self.strip.at;
            } else if first > self.strip.at || self.strip.count == 1 {
                self.next_run();
            } else {
                self.take_alike(end);
            }
            return Some(true);
        }
        None
    }

    /// As [`Pieces::look`](super::Pieces::look).
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

    /// The current run is one piece: takes along those after it that are pieces like it, and goes
    /// on behind them.
    #[inline]
    fn take_alike(&mut self, end: u64) {
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
            if let Some(beat) = &mut self.rhythm {
                // They touch the same unit, so the place moves as far as they do.
                beat.place += stride * passed;
            }
            self.forward(passed);
            return self.next_run();
        }
        if let (Some(beat), Finder::Even(even)) = (&self.rhythm, &self.finder)
            && let Some(runs) = beat.rhythm.even()
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
    pub(crate) fn next_stretch(&mut self) -> Option<Stretch> {
        if self.ready.count == 0 && !self.find() {
            return None;
        }
        let ready = self.ready;
        if ready.cells > 0 || ready.count == 1 {
            self.ready.step();
            return Some(ready.piece.into());
        }
        self.ready.count = 0;
        Some(Stretch {
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

/// Pieces of patterns where each run is rearranged in itself.
#[derive(Clone, Debug)]
pub(crate) struct RunPieces {
    grid: Grid,
    shape: Shape,
    slot: ServerSlot,
    walk: Walk,
    /// The runs of the current strip that were not begun.
    strip: Strip,
    /// What is left of the current run, and its rank.
    run: Option<(Contiguous, u64)>,
    /// Found and not handed out.
    ready: Option<Piece>,
}

impl RunPieces {
    /// The caller checked that the whole nest can be mapped.
    pub(crate) fn new(grid: Grid, shape: Shape, slot: ServerSlot, nest: &Arc<Nest>) -> Self {
        Self {
            grid,
            shape,
            slot,
            walk: nest.walk(),
            strip: DONE,
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

    /// As [`Pieces::look`](super::Pieces::look).
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
