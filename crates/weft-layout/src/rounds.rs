//! The pieces of several requests, round by round in the order of the disk.
//!
//! A collective's job goes once over the cells of its server. A *band* is the same range of offsets in all cells; a round
//! is what all members have in one band or in several bands that follow one another, as much as memory allows. Where
//! members touch the same bytes, or bytes beside each other, they do so in one round: what is read is read once, what is
//! written fills blocks together. Each member's pieces keep their own order, so that each stream stays what it is for a
//! single request.
//!
//! Both sides of a joined call run the same rounds: the cuts follow from the pieces alone.

use crate::{CellIndex, CellOffset, Grid, Piece, Pieces, ServerSlot};

/// Weight that a round aims at.
const TARGET: u64 = 4 << 20;
/// Weight that a round of several bands has at most.
const WEIGHT_MAX: u64 = 16 << 20;
/// Pieces of a round.
const PIECES_MAX: usize = 256 << 10;
/// What a piece that lies alone weighs beside its bytes: the rest of the blocks at its ends is read with it.
const ALONE: u64 = 8 << 10;
/// Bands are not made narrower than this.
const WIDTH_MIN: u64 = 4 << 10;
/// Pieces that are compared with one another whatever their order.
const COMPARED_MAX: usize = 256 << 10;
/// Pieces of a band that are compared with one another.
const BAND_MAX: usize = 1 << 20;

/// What each member has in a round, in its own order.
pub type Round = Vec<Vec<Piece>>;

/// Goes over the pieces of all members.
#[derive(Clone, Debug)]
pub struct Rounds<I> {
    members: Vec<Cursor<I>>,
    cells: u64,
    width: u64,
}

#[derive(Clone, Debug)]
struct Cursor<I> {
    pieces: I,
    next: Option<Piece>,
}

/// Whether members touch the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// No byte is touched twice.
    No,
    /// These two members (or one, twice) touch this byte.
    Byte {
        /// The one.
        first: usize,
        /// The other, or the same.
        second: usize,
        /// In which cell.
        cell: CellIndex,
        /// Where.
        offset: CellOffset,
    },
    /// There are too many pieces in too wild an order to tell.
    Unknown,
}

impl<I: Iterator<Item = Piece> + Clone> Rounds<I> {
    /// The rounds of these members' pieces on one server.
    pub fn new(grid: &Grid, slot: ServerSlot, members: impl IntoIterator<Item = I>) -> Self {
        let cells = (grid.cells_on(slot).count() as u64).max(1);
        let width = (TARGET / cells).max(WIDTH_MIN);
        // Whole units, so that members that go row by row stay together; units larger than rounds are cut.
        let width = match grid.bsu() {
            unit if unit <= width => width / unit * unit,
            unit if unit <= TARGET => unit,
            _ => width,
        };
        let cursor = |mut pieces: I| {
            let next = pieces.next();
            Cursor { pieces, next }
        };
        let members = members.into_iter().map(cursor).collect();
        Rounds {
            members,
            cells,
            width,
        }
    }

    /// Where the band of width `width` ends in which the first of all next pieces lies.
    fn band(&self, width: u64) -> Option<u64> {
        let next = self.members.iter().filter_map(|m| m.next);
        next.map(|piece| (piece.offset.0 / width + 1) * width).min()
    }

    /// Takes what lies before `end`, of each member at most `most` bytes.
    fn take(&mut self, end: u64, most: u64, round: &mut Round) -> (u64, usize) {
        let (mut bytes, mut pieces) = (0, 0);
        for (member, taken) in self.members.iter_mut().zip(round) {
            let had = taken.len();
            bytes += member.take(end, most, taken);
            pieces += taken.len() - had;
        }
        (bytes, pieces)
    }

    /// Whether members touch the same bytes.
    ///
    /// Cost: every piece is sorted among those of its band.
    pub fn shared(self) -> Shared {
        let few = self
            .members
            .iter()
            .map(|m| m.pieces.clone().take(COMPARED_MAX + 1).count());
        let mut sweep = Sweep::default();
        if few.sum::<usize>() <= COMPARED_MAX {
            for (member, cursor) in self.members.into_iter().enumerate() {
                sweep.all.extend(
                    cursor
                        .next
                        .into_iter()
                        .chain(cursor.pieces)
                        .map(|p| (member, p)),
                );
            }
            return sweep.compare().unwrap_or(Shared::No);
        }
        self.shared_by_bands(sweep)
    }

    fn shared_by_bands(mut self, mut sweep: Sweep) -> Shared {
        let mut done = 0;
        while let Some(end) = self.band(self.width) {
            for (member, cursor) in self.members.iter_mut().enumerate() {
                let mut taken = Vec::new();
                cursor.take(end, u64::MAX, &mut taken);
                // Behind the bands that were compared: what it meets there is forgotten.
                if taken.iter().any(|piece| piece.offset.0 < done) {
                    return Shared::Unknown;
                }
                let taken = taken.into_iter().map(|piece| (member, piece));
                sweep.all.extend(taken);
                if sweep.all.len() > BAND_MAX {
                    return Shared::Unknown;
                }
            }
            if let Some(found) = sweep.compare() {
                return found;
            }
            done = end;
        }
        Shared::No
    }
}

impl<I: Iterator<Item = Piece> + Clone> Iterator for Rounds<I> {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let mut round = vec![Vec::new(); self.members.len()];
        let (mut weight, mut pieces) = (0, 0);
        let mut width = self.width;
        while weight < TARGET {
            let Some(end) = self.band(width) else { break };
            let before = self.clone();
            let had: Vec<(usize, Option<Piece>)> =
                round.iter().map(|r| (r.len(), r.last().copied())).collect();
            let across = width * self.cells;
            let (bytes, count) = self.take(end, across, &mut round);
            // Pieces that lie alone bring the blocks around them; not more than the band has.
            let more = bytes.max((bytes + ALONE * count as u64).min(across));
            let fits = weight + more <= WEIGHT_MAX && pieces + count <= PIECES_MAX;
            if fits || (weight == 0 && width == WIDTH_MIN) {
                (weight, pieces) = (weight + more, pieces + count);
                continue;
            }
            *self = before;
            for (taken, (length, last)) in round.iter_mut().zip(had) {
                taken.truncate(length);
                if let (Some(now), Some(last)) = (taken.last_mut(), last) {
                    *now = last;
                }
            }
            if weight > 0 {
                break;
            }
            width = (width / 2).max(WIDTH_MIN);
        }
        (weight > 0).then_some(round)
    }
}

impl<I: Iterator<Item = Piece>> Cursor<I> {
    /// Takes the pieces that start before `end`, cut there, at most `most` bytes of them; how many bytes those are.
    fn take(&mut self, end: u64, most: u64, taken: &mut Vec<Piece>) -> u64 {
        let mut bytes = 0;
        while let Some(piece) = self.next {
            if piece.offset.0 >= end || bytes >= most {
                break;
            }
            let length = piece.length.min(end - piece.offset.0).min(most - bytes);
            bytes += length;
            match taken.last_mut() {
                Some(last)
                    if last.cell == piece.cell
                        && last.offset.0 + last.length == piece.offset.0
                        && last.memory + last.length == piece.memory =>
                {
                    last.length += length;
                }
                _ => taken.push(Piece { length, ..piece }),
            }
            self.next = if length < piece.length {
                Some(Piece {
                    offset: CellOffset(piece.offset.0 + length),
                    length: piece.length - length,
                    memory: piece.memory + length,
                    ..piece
                })
            } else {
                self.pieces.next()
            };
        }
        bytes
    }
}

/// The pieces of one member, cut at the ends of their cells: bytes beyond are not there to be read.
#[derive(Clone, Debug)]
pub struct Clipped<L> {
    pieces: Pieces,
    length_of: L,
    /// The cell last looked up: neighbours mostly lie in one.
    last: Option<(CellIndex, u64)>,
}

impl<L: FnMut(CellIndex) -> u64> Clipped<L> {
    /// `length_of` says where each cell ends.
    pub fn new(pieces: Pieces, length_of: L) -> Self {
        Clipped {
            pieces,
            length_of,
            last: None,
        }
    }
}

impl<L: FnMut(CellIndex) -> u64> Iterator for Clipped<L> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            let piece = self.pieces.next()?;
            let length = match self.last {
                Some((cell, length)) if cell == piece.cell => length,
                _ => (self.length_of)(piece.cell),
            };
            self.last = Some((piece.cell, length));
            let valid = length.saturating_sub(piece.offset.0).min(piece.length);
            if valid > 0 {
                return Some(Piece {
                    length: valid,
                    ..piece
                });
            }
        }
    }
}

/// Pieces that are compared with one another.
#[derive(Default)]
struct Sweep {
    all: Vec<(usize, Piece)>,
}

impl Sweep {
    /// The first byte that is touched twice; forgets the pieces.
    fn compare(&mut self) -> Option<Shared> {
        self.all.sort_by_key(|(_, p)| (p.cell, p.offset));
        let mut reach: Option<(usize, Piece)> = None;
        for (member, piece) in self.all.drain(..) {
            if let Some((first, last)) = reach
                && last.cell == piece.cell
                && piece.offset.0 < last.offset.0 + last.length
            {
                return Some(Shared::Byte {
                    first: first.min(member),
                    second: first.max(member),
                    cell: piece.cell,
                    offset: piece.offset,
                });
            }
            reach = Some((member, piece));
        }
        None
    }
}
