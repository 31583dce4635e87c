//! Pieces at equal distances, taken together: what a loop over many small pieces needs to know once.
//!
//! A [`Cutter`] hands stretches out in lengths that suit its user (a frame, a batch), so that client and server cut the
//! same stream without looking at each piece. Rejected: handing out pieces one by one. A piece of 64 bytes costs
//! a few nanoseconds to copy, and as much again for each layer that sees it alone.

use crate::{CellIndex, CellOffset, Piece, Pieces, Spaced};

/// Runs that are looked at together.
pub(crate) const RUNS: u32 = 64;

/// `count` pieces of one cell: the first, and how the next ones follow. They are disjoint and ascend in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The cell.
    pub cell: CellIndex,
    /// The first piece's first byte in the cell.
    pub offset: CellOffset,
    /// Bytes of each piece, at least 1.
    pub length: u64,
    /// Number of the first piece's first byte, as [`Piece::memory`].
    pub memory: u64,
    /// Pieces, at least 1.
    pub count: u64,
    /// From piece to piece in the cell, at least `length`; means nothing for one piece.
    pub stride: u64,
    /// From piece to piece among the bytes of the request.
    pub memory_stride: i64,
}

impl From<Piece> for Stretch {
    fn from(piece: Piece) -> Stretch {
        Stretch {
            cell: piece.cell,
            offset: piece.offset,
            length: piece.length,
            memory: piece.memory,
            count: 1,
            stride: piece.length,
            memory_stride: 0,
        }
    }
}

impl Stretch {
    /// Bytes of all its pieces.
    pub fn bytes(&self) -> u64 {
        self.length * self.count
    }

    /// One past its last piece's last byte in the cell.
    pub fn end(&self) -> u64 {
        self.offset.0 + self.stride * (self.count - 1) + self.length
    }

    /// Number of the first byte of piece `n`, as [`Piece::memory`].
    pub fn memory_of(&self, n: u64) -> u64 {
        let step = self.memory_stride.cast_unsigned();
        self.memory.wrapping_add(step.wrapping_mul(n))
    }

    /// Its pieces.
    pub fn pieces(self) -> impl Iterator<Item = Piece> {
        (0..self.count).map(move |n| Piece {
            cell: self.cell,
            offset: CellOffset(self.offset.0 + self.stride * n),
            length: self.length,
            memory: self.memory_of(n),
        })
    }

    /// Whether its bytes follow one another without a gap in the request's numbers: then so many from `memory` on.
    pub fn in_a_row(&self) -> bool {
        self.count == 1 || self.memory_stride.cast_unsigned() == self.length
    }

    /// Where its pieces lie among the bytes of the request.
    pub fn in_memory(&self) -> Spaced {
        Spaced {
            at: self.memory as usize,
            step: self.memory_stride as isize,
        }
    }

    /// Its first piece.
    pub fn first(&self) -> Piece {
        Piece {
            cell: self.cell,
            offset: self.offset,
            length: self.length,
            memory: self.memory,
        }
    }

    /// What is left without the first `n` pieces, with a `count` of 0 where that is nothing.
    #[must_use]
    pub fn rest(&self, n: u64) -> Stretch {
        Stretch {
            offset: CellOffset(self.offset.0.wrapping_add(self.stride.wrapping_mul(n))),
            memory: self.memory_of(n),
            count: self.count - n,
            ..*self
        }
    }

    /// All pieces but the first `n`.
    fn after(&self, n: u64) -> Option<Stretch> {
        (n < self.count).then(|| self.rest(n))
    }

    /// Bytes `from..to` of the first piece.
    fn within(&self, from: u64, to: u64) -> Stretch {
        Stretch {
            offset: CellOffset(self.offset.0 + from),
            memory: self.memory + from,
            length: to - from,
            count: 1,
            ..*self
        }
    }
}

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

/// Hands out the stretches of a stream of pieces, cut where its user wants.
#[derive(Clone, Debug)]
pub struct Cutter<L> {
    pieces: Pieces,
    /// What was taken from `pieces` and not handed out, the next one last.
    waiting: Vec<Stretch>,
    lengths: L,
}

impl Cutter<Endless> {
    /// All bytes of the pieces.
    pub fn whole(pieces: Pieces) -> Self {
        Cutter::new(pieces, Endless)
    }
}

impl<L: CellLengths> Cutter<L> {
    /// The bytes of the pieces that lie below the lengths of their cells.
    pub fn new(pieces: Pieces, lengths: L) -> Self {
        Cutter {
            pieces,
            waiting: Vec::with_capacity(4),
            lengths,
        }
    }

    /// The next bytes of the stream, at most `room` of them (at least 1): whole pieces where one fits, else a part of one.
    ///
    /// Cost: O(1) whatever the number of pieces; no allocation.
    /// # Source
    /// Property `stretches_are_the_pieces_however_they_are_cut`.
    #[inline]
    pub fn next(&mut self, room: u64) -> Option<Stretch> {
        let stretch = match self.waiting.pop() {
            Some(stretch) => stretch,
            None => self.fetch()?,
        };
        if stretch.bytes() <= room {
            return Some(stretch);
        }
        let whole = room / stretch.length;
        if whole > 0 {
            return Some(self.keep(stretch, whole));
        }
        self.waiting.extend(stretch.after(1));
        self.waiting.push(stretch.within(room, stretch.length));
        Some(stretch.within(0, room))
    }

    /// Looks for the next bytes for at most so many steps of some nanoseconds each, and counts them down: whether there are
    /// any, or `None` if it is not known yet. Whoever must not stay too long looks before each [`Cutter::next`].
    pub fn look(&mut self, steps: &mut u32) -> Option<bool> {
        while self.waiting.is_empty() {
            *steps = steps.checked_sub(1)?;
            if !self.pieces.look(RUNS) {
                *steps = steps.saturating_sub(RUNS);
                continue;
            }
            let Some(stretch) = self.pieces.next_stretch() else {
                return Some(false);
            };
            let valid = self.valid(stretch);
            self.waiting.extend(valid);
        }
        Some(true)
    }

    /// Takes the last stretch handed out back but for its first `count` pieces, which it returns.
    pub fn keep(&mut self, stretch: Stretch, count: u64) -> Stretch {
        self.waiting.extend(stretch.after(count));
        Stretch {
            count: count.min(stretch.count),
            ..stretch
        }
    }

    /// What it was given to know where cells end.
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

    /// The next stretch with bytes below its cell's length.
    fn fetch(&mut self) -> Option<Stretch> {
        loop {
            let stretch = self.pieces.next_stretch()?;
            if let Some(valid) = self.valid(stretch) {
                return Some(valid);
            }
        }
    }

    /// What of a stretch lies below its cell's length; of one that reaches beyond, the whole pieces first.
    #[inline]
    fn valid(&mut self, stretch: Stretch) -> Option<Stretch> {
        let length = self.lengths.length_of(stretch.cell);
        if stretch.end() <= length {
            return Some(stretch);
        }
        let below = length.checked_sub(stretch.offset.0).filter(|b| *b > 0)?;
        let whole = match below.checked_sub(stretch.length) {
            Some(rest) => (rest / stretch.stride + 1).min(stretch.count),
            None => 0,
        };
        let cut = stretch.after(whole);
        let cut = cut.filter(|cut| cut.offset.0 < length);
        let cut = cut.map(|cut| cut.within(0, length - cut.offset.0));
        if whole == 0 {
            return cut;
        }
        self.waiting.extend(cut);
        Some(Stretch {
            count: whole,
            ..stretch
        })
    }
}

/// Bytes of a stream of pieces below the lengths of their cells.
pub fn bytes_of(pieces: Pieces, lengths: impl CellLengths) -> u64 {
    let mut cutter = Cutter::new(pieces, lengths);
    let mut sum = 0;
    while let Some(stretch) = cutter.next(u64::MAX) {
        sum += stretch.bytes();
    }
    sum
}
