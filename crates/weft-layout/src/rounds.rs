//! The pieces of several requests, round by round in the order of the disk.
//!
//! A collective's job goes once over the cells of its server. A *band* is the same range of offsets
//! in all cells; a round is what all members have in one band or in several bands that follow one
//! another, as much as memory allows. Where members touch the same bytes, or bytes beside each
//! other, they do so in one round: what is read is read once, what is written fills blocks
//! together. Each member's pieces keep their own order, so that each stream stays what it is for a
//! single request.
//!
//! Both sides of a joined call run the same rounds: the cuts follow from the pieces alone.

use crate::stretch::RUNS;
use crate::{CellIndex, CellOffset, Grid, Piece, Pieces, ServerSlot};

/// Weight that a round aims at.
const TARGET: u64 = 4 << 20;
/// Weight that a round has at most; bytes, if it is a part of one band.
const WEIGHT_MAX: u64 = 16 << 20;
/// Pieces of a round.
const PIECES_MAX: usize = 256 << 10;
/// What a piece that lies alone weighs beside its bytes: the rest of the blocks at its ends is read
/// with it.
const ALONE: u64 = 8 << 10;
/// Bands are not made narrower than this.
pub(crate) const WIDTH_MIN: u64 = 4 << 10;

/// What each member has in a round, in its own order.
pub type Round = Vec<Vec<Piece>>;

/// Pieces that can be looked for a little at a time.
pub trait Search: Iterator<Item = Piece> {
    /// As [`Pieces::look`].
    fn look(&mut self, _runs: u32) -> bool {
        true
    }
}

impl Search for std::vec::IntoIter<Piece> {}

impl Search for Pieces {
    fn look(&mut self, runs: u32) -> bool {
        Pieces::look(self, runs)
    }
}

/// Goes over the pieces of all members.
#[derive(Clone, Debug)]
pub struct Rounds<I> {
    members: Vec<Cursor<I>>,
    cells: u64,
    width: u64,
    begun: Option<Begun<I>>,
}

/// A round that is put together.
#[derive(Clone, Debug)]
struct Begun<I> {
    round: Round,
    weight: u64,
    pieces: usize,
    width: u64,
    /// Less than a band is too much already.
    part: bool,
    band: Option<Band<I>>,
}

/// A band that is added to a round.
#[derive(Clone, Debug)]
struct Band<I> {
    end: u64,
    /// The members before it, and what each had: its pieces and the last of them.
    before: Vec<Cursor<I>>,
    had: Vec<(usize, Option<Piece>)>,
    /// Whose turn it is, and how many bytes it has already.
    member: usize,
    mine: u64,
    /// What all have.
    bytes: u64,
    pieces: usize,
}

/// Pieces that are taken one after another, or a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<I> {
    pieces: I,
    /// The next, if it was looked for.
    pub(crate) next: Option<Piece>,
    known: bool,
}

/// How wide bands are, as long as nothing makes them narrower.
pub(crate) fn width(grid: &Grid, slot: ServerSlot) -> u64 {
    let width = (TARGET / cells(grid, slot)).max(WIDTH_MIN);
    // Whole units, so that members that go row by row stay together; units larger than rounds are
    // cut.
    match grid.bsu() {
        unit if unit <= width => width / unit * unit,
        unit if unit <= TARGET => unit,
        _ => width,
    }
}

fn cells(grid: &Grid, slot: ServerSlot) -> u64 {
    (grid.cells_on(slot).count() as u64).max(1)
}

impl<I: Search + Clone> Rounds<I> {
    /// The rounds of these members' pieces on one server.
    pub fn new(grid: &Grid, slot: ServerSlot, members: impl IntoIterator<Item = I>) -> Self {
        Rounds {
            members: members.into_iter().map(Cursor::new).collect(),
            cells: cells(grid, slot),
            width: width(grid, slot),
            begun: None,
        }
    }

    /// Looks for the next round for at most so many steps of some nanoseconds each, and counts them
    /// down: `None` if it is not known yet.
    #[allow(clippy::option_option)] // whether it is known, and whether there is one
    pub fn look(&mut self, steps: &mut u32) -> Option<Option<Round>> {
        let mut begun = self.begun.take().unwrap_or_else(|| Begun {
            round: vec![Vec::new(); self.members.len()],
            weight: 0,
            pieces: 0,
            width: self.width,
            part: false,
            band: None,
        });
        if self.go_on(&mut begun, steps).is_none() {
            self.begun = Some(begun);
            return None;
        }
        let any = begun.round.iter().any(|taken| !taken.is_empty());
        Some(any.then_some(begun.round))
    }

    /// Adds bands until the round is whole; `None` if it is not yet.
    fn go_on(&mut self, begun: &mut Begun<I>, steps: &mut u32) -> Option<()> {
        while begun.weight < TARGET {
            let mut band = match begun.band.take() {
                Some(band) => band,
                None => match self.band(begun, steps)? {
                    Some(band) => band,
                    None => break,
                },
            };
            if self.take(begun, &mut band, steps).is_none() {
                begun.band = Some(band);
                return None;
            }
            if begun.part {
                break;
            }
            // Pieces that lie alone bring the blocks around them; not more than the band has.
            let across = begun.width * self.cells;
            let alone = (band.bytes + ALONE * band.pieces as u64).min(across);
            let weight = begun.weight + band.bytes.max(alone);
            let pieces = begun.pieces + band.pieces;
            if weight <= WEIGHT_MAX && pieces <= PIECES_MAX {
                (begun.weight, begun.pieces) = (weight, pieces);
                continue;
            }
            self.members = band.before;
            for (taken, (length, last)) in begun.round.iter_mut().zip(band.had) {
                taken.truncate(length);
                if let (Some(now), Some(last)) = (taken.last_mut(), last) {
                    *now = last;
                }
            }
            if begun.weight > 0 {
                break;
            }
            begun.part = begun.width <= WIDTH_MIN;
            begun.width = (begun.width / 2).max(WIDTH_MIN);
        }
        Some(())
    }

    /// The band in which the first of all next pieces lies.
    #[allow(clippy::option_option)] // as of `look`
    fn band(&mut self, begun: &Begun<I>, steps: &mut u32) -> Option<Option<Band<I>>> {
        let mut end: Option<u64> = None;
        for member in &mut self.members {
            let next = member.look(steps)?;
            let ends = next.map(|piece| (piece.offset.0 / begun.width + 1) * begun.width);
            end = end.into_iter().chain(ends).min();
        }
        let had = begun.round.iter().map(|r| (r.len(), r.last().copied()));
        Some(end.map(|end| Band {
            end,
            before: self.members.clone(),
            had: had.collect(),
            member: 0,
            mine: 0,
            bytes: 0,
            pieces: 0,
        }))
    }

    /// Takes what lies in the band, up to one piece more than there is room for; of a part, as much
    /// as each member may have.
    fn take(&mut self, begun: &mut Begun<I>, band: &mut Band<I>, steps: &mut u32) -> Option<()> {
        let count = self.members.len();
        let (most, each) = if begun.part {
            let most = (WEIGHT_MAX / count as u64).max(1);
            (most, (PIECES_MAX / count).max(1))
        } else {
            (begun.width * self.cells, usize::MAX)
        };
        while let Some(cursor) = self.members.get_mut(band.member) {
            let (had, _) = band.had[band.member];
            let taken = &mut begun.round[band.member];
            let pieces = band.pieces + taken.len() - had;
            let full = !begun.part && begun.pieces + pieces > PIECES_MAX;
            if !full
                && taken.len() < each
                && let Some(piece) = cursor.cut(band.end, most - band.mine, steps)?
            {
                band.mine += piece.length;
                add(taken, piece);
                continue;
            }
            band.bytes += band.mine;
            (band.pieces, band.mine) = (pieces, 0);
            if full {
                break;
            }
            band.member += 1;
        }
        Some(())
    }
}

impl<I: Search + Clone> Iterator for Rounds<I> {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        loop {
            if let Some(round) = self.look(&mut { u32::MAX }) {
                return round;
            }
        }
    }
}

impl<I: Search> Cursor<I> {
    pub(crate) fn new(pieces: I) -> Self {
        Cursor {
            pieces,
            next: None,
            known: false,
        }
    }

    /// The next piece; counts down the steps it takes to find it, `None` if they are too few.
    #[allow(clippy::option_option)] // whether it is known, and whether there is one
    pub(crate) fn look(&mut self, steps: &mut u32) -> Option<Option<Piece>> {
        while !self.known {
            *steps = steps.checked_sub(1)?;
            if self.pieces.look(RUNS) {
                (self.next, self.known) = (self.pieces.next(), true);
            } else {
                *steps = steps.saturating_sub(RUNS);
            }
        }
        Some(self.next)
    }

    /// The next piece if it starts before `end`, cut there and after `most` bytes; `None` as of
    /// [`Cursor::look`].
    #[allow(clippy::option_option)] // as of `look`
    pub(crate) fn cut(&mut self, end: u64, most: u64, steps: &mut u32) -> Option<Option<Piece>> {
        let next = self.look(steps)?;
        let Some(piece) = next.filter(|p| p.offset.0 < end && most > 0) else {
            return Some(None);
        };
        let length = piece.length.min(end - piece.offset.0).min(most);
        self.known = length < piece.length;
        self.next = self.known.then(|| Piece {
            offset: CellOffset(piece.offset.0 + length),
            length: piece.length - length,
            memory: piece.memory + length,
            ..piece
        });
        Some(Some(Piece { length, ..piece }))
    }
}

/// Adds a piece, to the last one if it goes on with that.
fn add(taken: &mut Vec<Piece>, piece: Piece) {
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

/// The pieces of one member, cut at the ends of their cells: bytes beyond are not there to be read.
#[derive(Clone, Debug)]
pub struct Clipped<L> {
    pieces: Pieces,
    length_of: L,
    /// The cell last looked up: neighbours mostly lie in one.
    last: Option<(CellIndex, u64)>,
    /// The next, if it was found already.
    ready: Option<Piece>,
}

impl<L: FnMut(CellIndex) -> u64> Clipped<L> {
    /// `length_of` says where each cell ends.
    pub fn new(pieces: Pieces, length_of: L) -> Self {
        Clipped {
            pieces,
            length_of,
            last: None,
            ready: None,
        }
    }

    fn clip(&mut self, piece: Piece) -> Option<Piece> {
        let length = match self.last {
            Some((cell, length)) if cell == piece.cell => length,
            _ => (self.length_of)(piece.cell),
        };
        self.last = Some((piece.cell, length));
        let valid = length.saturating_sub(piece.offset.0).min(piece.length);
        (valid > 0).then_some(Piece {
            length: valid,
            ..piece
        })
    }
}

impl<L: FnMut(CellIndex) -> u64> Search for Clipped<L> {
    fn look(&mut self, runs: u32) -> bool {
        for _ in 0..runs {
            if self.ready.is_some() {
                return true;
            }
            if self.pieces.look(1) {
                let Some(piece) = self.pieces.next() else {
                    return true;
                };
                self.ready = self.clip(piece);
            }
        }
        self.ready.is_some()
    }
}

impl<L: FnMut(CellIndex) -> u64> Iterator for Clipped<L> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if let Some(piece) = self.ready.take() {
            return Some(piece);
        }
        loop {
            let piece = self.pieces.next()?;
            if let Some(piece) = self.clip(piece) {
                return Some(piece);
            }
        }
    }
}
