//! Pieces at equal distances, taken together: what a loop over many small pieces needs to know once.
//!
//! A [`Cutter`] hands stretches out in lengths that suit its user (a frame, a batch), so that client and server cut the
//! same stream without looking at each piece. Rejected: handing out pieces one by one. A piece of 64 bytes costs
//! a few nanoseconds to copy, and as much again for each layer that sees it alone.

use crate::{CellIndex, CellOffset, Piece, Pieces};

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

    /// All pieces but the first `n`.
    fn after(&self, n: u64) -> Option<Stretch> {
        (n < self.count).then(|| Stretch {
            offset: CellOffset(self.offset.0 + self.stride * n),
            memory: self.memory_of(n),
            count: self.count - n,
            ..*self
        })
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

/// Hands out the stretches of a stream of pieces, cut where its user wants.
#[derive(Clone, Debug)]
pub struct Cutter<L> {
    pieces: Pieces,
    /// What was taken from `pieces` and not handed out, the next one last.
    waiting: Vec<Stretch>,
    length_of: L,
}

impl Cutter<fn(CellIndex) -> u64> {
    /// All bytes of the pieces.
    pub fn whole(pieces: Pieces) -> Self {
        Cutter::new(pieces, |_| u64::MAX)
    }
}

impl<L: FnMut(CellIndex) -> u64> Cutter<L> {
    /// The bytes of the pieces that lie below the lengths of their cells.
    pub fn new(pieces: Pieces, length_of: L) -> Self {
        Cutter {
            pieces,
            waiting: Vec::with_capacity(4),
            length_of,
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
            self.waiting.extend(stretch.after(whole));
            return Some(Stretch {
                count: whole,
                ..stretch
            });
        }
        self.waiting.extend(stretch.after(1));
        self.waiting.push(stretch.within(room, stretch.length));
        Some(stretch.within(0, room))
    }

    /// Whether every byte was handed out.
    pub fn is_done(&mut self) -> bool {
        if self.waiting.is_empty() {
            let next = self.fetch();
            self.waiting.extend(next);
        }
        self.waiting.is_empty()
    }

    /// The next stretch with bytes below its cell's length; of one that reaches beyond, the whole pieces first.
    fn fetch(&mut self) -> Option<Stretch> {
        loop {
            let stretch = self.pieces.next_stretch()?;
            let length = (self.length_of)(stretch.cell);
            if stretch.end() <= length {
                return Some(stretch);
            }
            let Some(below) = length.checked_sub(stretch.offset.0).filter(|b| *b > 0) else {
                continue;
            };
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
            return Some(Stretch {
                count: whole,
                ..stretch
            });
        }
    }
}

/// Bytes of a stream of pieces below the lengths of their cells.
pub fn bytes_of(pieces: Pieces, length_of: impl FnMut(CellIndex) -> u64) -> u64 {
    let mut cutter = Cutter::new(pieces, length_of);
    let mut sum = 0;
    while let Some(stretch) = cutter.next(u64::MAX) {
        sum += stretch.bytes();
    }
    sum
}
