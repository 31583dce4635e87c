//! A stream of pieces, split into segments of bounded size, without the bytes past the ends of
//! cells.

use super::Pieces;
use super::strided::StridedPieces;
use crate::CellIndex;
use crate::limits::RUNS_PER_LOOK;

/// Says where cells end.
pub trait CellLengths {
    /// Bytes of a cell; what lies beyond is not there.
    fn length_of(&mut self, cell: CellIndex) -> u64;
}

impl<F: FnMut(CellIndex) -> u64> CellLengths for F {
    fn length_of(&mut self, cell: CellIndex) -> u64 {
        self(cell)
    }
}

/// Cells of whatever length.
#[derive(Clone, Copy, Debug)]
pub struct Endless;

impl CellLengths for Endless {
    fn length_of(&mut self, _: CellIndex) -> u64 {
        u64::MAX
    }
}

/// Hands out a stream of pieces, in segments as long as its user wants.
#[derive(Clone, Debug)]
pub struct Splitter<L> {
    pieces: Pieces,
    /// Taken from `pieces` and not yet handed out, the next one last.
    waiting: Vec<StridedPieces>,
    lengths: L,
}

impl Splitter<Endless> {
    /// All bytes of the pieces.
    pub fn whole(pieces: Pieces) -> Self {
        Splitter::new(pieces, Endless)
    }
}

impl<L: CellLengths> Splitter<L> {
    /// The bytes of the pieces that lie below the lengths of their cells.
    pub fn new(pieces: Pieces, lengths: L) -> Self {
        Splitter {
            pieces,
            waiting: Vec::with_capacity(4),
            lengths,
        }
    }

    /// The next bytes of the stream, at most `max` of them (at least 1): whole pieces where one
    /// fits, else a segment of one.
    ///
    /// Cost: O(1) whatever the number of pieces; no allocation.
    /// # Source
    /// Property `a_stream_split_anywhere_has_the_same_pieces`.
    #[inline]
    pub fn next(&mut self, max: u64) -> Option<StridedPieces> {
        let strided = match self.waiting.pop() {
            Some(strided) => strided,
            None => self.fetch()?,
        };
        if strided.bytes() <= max {
            return Some(strided);
        }
        let whole = max / strided.length;
        if whole > 0 {
            return Some(self.keep(strided, whole));
        }
        self.waiting.extend(strided.after(1));
        self.waiting.push(strided.within(max, strided.length));
        Some(strided.within(0, max))
    }

    /// Looks for the next bytes for at most so many steps of some nanoseconds each, and counts them
    /// down: whether there are any, or `None` if it is not known yet. Callers that must not block
    /// for long look before each [`Splitter::next`].
    pub fn look(&mut self, steps: &mut u32) -> Option<bool> {
        while self.waiting.is_empty() {
            *steps = steps.checked_sub(1)?;
            if !self.pieces.look(RUNS_PER_LOOK) {
                *steps = steps.saturating_sub(RUNS_PER_LOOK);
                continue;
            }
            let Some(strided) = self.pieces.next_strided() else {
                return Some(false);
            };
            let valid = self.valid(strided);
            self.waiting.extend(valid);
        }
        Some(true)
    }

    /// Takes back all but the first `count` pieces of the last ones handed out, and returns these.
    pub fn keep(&mut self, strided: StridedPieces, count: u64) -> StridedPieces {
        self.waiting.extend(strided.after(count));
        StridedPieces {
            count: count.min(strided.count),
            ..strided
        }
    }

    /// The lengths of cells that it was given.
    pub fn into_lengths(self) -> L {
        self.lengths
    }

    /// Whether every byte was handed out.
    pub fn is_done(&mut self) -> bool {
        if self.waiting.is_empty() {
            let next = self.fetch();
            self.waiting.extend(next);
        }
        self.waiting.is_empty()
    }

    /// The next pieces with bytes below their cell's length.
    fn fetch(&mut self) -> Option<StridedPieces> {
        loop {
            let strided = self.pieces.next_strided()?;
            if let Some(valid) = self.valid(strided) {
                return Some(valid);
            }
        }
    }

    /// The bytes that lie below the length of their cell; if the pieces reach beyond, the whole
    /// ones first.
    #[inline]
    fn valid(&mut self, strided: StridedPieces) -> Option<StridedPieces> {
        let length = self.lengths.length_of(strided.cell);
        if strided.end() <= length {
            return Some(strided);
        }
        let below = length.checked_sub(strided.offset.0).filter(|b| *b > 0)?;
        let whole = match below.checked_sub(strided.length) {
            Some(rest) => (rest / strided.stride + 1).min(strided.count),
            None => 0,
        };
        let last = strided.after(whole);
        let last = last.filter(|last| last.offset.0 < length);
        let last = last.map(|last| last.within(0, length - last.offset.0));
        if whole == 0 {
            return last;
        }
        self.waiting.extend(last);
        Some(StridedPieces {
            count: whole,
            ..strided
        })
    }
}

/// Bytes of a stream of pieces below the lengths of their cells.
pub fn bytes_of(pieces: Pieces, lengths: impl CellLengths) -> u64 {
    let mut splitter = Splitter::new(pieces, lengths);
    let mut sum = 0;
    while let Some(strided) = splitter.next(u64::MAX) {
        sum += strided.bytes();
    }
    sum
}
