//! Pieces cut into parts of bounded size, and how many of their bytes their cells hold.

use crate::stretch::RUNS;
use crate::{CellIndex, Pieces, Stretch};

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

    /// The next bytes of the stream, at most `room` of them (at least 1): whole pieces where one
    /// fits, else a part of one.
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

    /// Looks for the next bytes for at most so many steps of some nanoseconds each, and counts them
    /// down: whether there are any, or `None` if it is not known yet. Whoever must not stay too
    /// long looks before each [`Cutter::next`].
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

    /// What of a stretch lies below its cell's length; of one that reaches beyond, the whole pieces
    /// first.
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
