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
/// Weight that a round has at most; bytes, if it is a part of one band.
const WEIGHT_MAX: u64 = 16 << 20;
/// Pieces of a round.
const PIECES_MAX: usize = 256 << 10;
/// What a piece that lies alone weighs beside its bytes: the rest of the blocks at its ends is read with it.
const ALONE: u64 = 8 << 10;
/// Bands are not made narrower than this.
pub(crate) const WIDTH_MIN: u64 = 4 << 10;

/// What each member has in a round, in its own order.
pub type Round = Vec<Vec<Piece>>;

/// Goes over the pieces of all members.
#[derive(Clone, Debug)]
pub struct Rounds<I> {
    members: Vec<Cursor<I>>,
    cells: u64,
    width: u64,
}

/// Pieces that are taken one after another, or a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<I> {
    pieces: I,
    pub(crate) next: Option<Piece>,
}

/// How wide bands are, as long as nothing makes them narrower.
pub(crate) fn width(grid: &Grid, slot: ServerSlot) -> u64 {
    let width = (TARGET / cells(grid, slot)).max(WIDTH_MIN);
    // Whole units, so that members that go row by row stay together; units larger than rounds are cut.
    match grid.bsu() {
        unit if unit <= width => width / unit * unit,
        unit if unit <= TARGET => unit,
        _ => width,
    }
}

fn cells(grid: &Grid, slot: ServerSlot) -> u64 {
    (grid.cells_on(slot).count() as u64).max(1)
}

impl<I: Iterator<Item = Piece> + Clone> Rounds<I> {
    /// The rounds of these members' pieces on one server.
    pub fn new(grid: &Grid, slot: ServerSlot, members: impl IntoIterator<Item = I>) -> Self {
        Rounds {
            members: members.into_iter().map(Cursor::new).collect(),
            cells: cells(grid, slot),
            width: width(grid, slot),
        }
    }

    /// Where the band of width `width` ends in which the first of all next pieces lies.
    fn band(&self, width: u64) -> Option<u64> {
        let next = self.members.iter().filter_map(|m| m.next);
        next.map(|piece| (piece.offset.0 / width + 1) * width).min()
    }

    /// Takes what lies before `end`, of each member at most `most` bytes; stops after one piece more than there is room
    /// for. How many bytes and pieces that makes.
    fn take(&mut self, end: u64, most: u64, room: usize, round: &mut Round) -> (u64, usize) {
        let (mut bytes, mut pieces) = (0, 0);
        for (member, taken) in self.members.iter_mut().zip(round) {
            let had = taken.len();
            bytes += member.take(end, most, had + room + 1 - pieces, taken);
            pieces += taken.len() - had;
            if pieces > room {
                break;
            }
        }
        (bytes, pieces)
    }

    /// A part of a band that is too much for one round.
    fn part(&mut self) -> Option<Round> {
        let end = self.band(WIDTH_MIN)?;
        let members = self.members.len();
        let (bytes, pieces) = (
            (WEIGHT_MAX / members as u64).max(1),
            (PIECES_MAX / members).max(1),
        );
        let mut round = vec![Vec::new(); members];
        for (member, taken) in self.members.iter_mut().zip(&mut round) {
            member.take(end, bytes, pieces, taken);
        }
        Some(round)
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
            let room = PIECES_MAX - pieces;
            let (bytes, count) = self.take(end, across, room, &mut round);
            // Pieces that lie alone bring the blocks around them; not more than the band has.
            let more = bytes.max((bytes + ALONE * count as u64).min(across));
            if weight + more <= WEIGHT_MAX && count <= room {
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
            if width <= WIDTH_MIN {
                return self.part();
            }
            width = (width / 2).max(WIDTH_MIN);
        }
        (weight > 0).then_some(round)
    }
}

impl<I: Iterator<Item = Piece>> Cursor<I> {
    pub(crate) fn new(mut pieces: I) -> Self {
        let next = pieces.next();
        Cursor { pieces, next }
    }

    /// The next piece if it starts before `end`, cut there and after `most` bytes.
    pub(crate) fn cut(&mut self, end: u64, most: u64) -> Option<Piece> {
        let piece = self.next.filter(|p| p.offset.0 < end && most > 0)?;
        let length = piece.length.min(end - piece.offset.0).min(most);
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
        Some(Piece { length, ..piece })
    }

    /// Takes the pieces that start before `end`, cut there, at most `most` bytes of them and until there are `pieces` in
    /// all; how many bytes those are.
    fn take(&mut self, end: u64, most: u64, pieces: usize, taken: &mut Vec<Piece>) -> u64 {
        let mut bytes = 0;
        while taken.len() < pieces
            && let Some(piece) = self.cut(end, most - bytes)
        {
            bytes += piece.length;
            match taken.last_mut() {
                Some(last)
                    if last.cell == piece.cell
                        && last.offset.0 + last.length == piece.offset.0
                        && last.memory + last.length == piece.memory =>
                {
                    last.length += piece.length;
                }
                _ => taken.push(piece),
            }
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
