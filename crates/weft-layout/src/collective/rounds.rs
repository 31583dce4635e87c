//! The pieces of several requests, round by round in the order of the disk.
//!
//! A collective's job goes once over the cells of its server. A *band* is the same range of offsets
//! in all cells; a *round* is all members' pieces in one band or in several consecutive bands, as
//! many as memory allows. Where members touch the same bytes, or neighbouring ones, they do so in
//! one round: the server reads each byte once, and writes fill blocks together. Each member's
//! pieces keep their order, so that each stream is the same as for a single request.
//!
//! Both sides of a joined call run the same rounds: where these end follows from the pieces alone.

use super::bands;
use super::cursor::{Cursor, Search};
use crate::limits::{
    BAND_WIDTH_MIN, LONE_PIECE_WEIGHT, ROUND_PIECES_MAX, ROUND_WEIGHT_MAX, ROUND_WEIGHT_TARGET,
};
use crate::{Grid, Piece, ServerSlot};

/// The pieces of each member in a round, in the member's order.
pub type Round = Vec<Vec<Piece>>;

/// Goes over the pieces of all members.
#[derive(Clone, Debug)]
pub struct Rounds<I> {
    members: Vec<Cursor<I>>,
    cells: u64,
    width: u64,
    begun: Option<RoundInProgress<I>>,
}

/// A round that is being put together.
#[derive(Clone, Debug)]
struct RoundInProgress<I> {
    round: Round,
    weight: u64,
    pieces: usize,
    width: u64,
    /// Even the narrowest band weighs too much, so that the round is a segment of it.
    partial: bool,
    band: Option<BandInProgress<I>>,
}

/// A band that is being added to a round.
#[derive(Clone, Debug)]
struct BandInProgress<I> {
    end: u64,
    /// The members before the band, and of each the number of its pieces and the last of them.
    before: Vec<Cursor<I>>,
    had: Vec<(usize, Option<Piece>)>,
    /// The member whose pieces are being added, and its bytes so far.
    member: usize,
    member_bytes: u64,
    /// Bytes and pieces of the members before it.
    bytes: u64,
    pieces: usize,
}

impl<I: Search + Clone> Rounds<I> {
    /// The rounds of these members' pieces on one server.
    pub fn new(grid: &Grid, slot: ServerSlot, members: impl IntoIterator<Item = I>) -> Self {
        Rounds {
            members: members.into_iter().map(Cursor::new).collect(),
            cells: bands::cells(grid, slot),
            width: bands::width(grid, slot),
            begun: None,
        }
    }

    /// Looks for the next round for at most so many steps of some nanoseconds each, and counts them
    /// down: `None` if it is not known yet.
    #[allow(clippy::option_option)] // whether it is known, and whether there is one
    pub fn look(&mut self, steps: &mut u32) -> Option<Option<Round>> {
        let mut begun = self.begun.take().unwrap_or_else(|| RoundInProgress {
            round: vec![Vec::new(); self.members.len()],
            weight: 0,
            pieces: 0,
            width: self.width,
            partial: false,
            band: None,
        });
        if self.advance(&mut begun, steps).is_none() {
            self.begun = Some(begun);
            return None;
        }
        let any = begun.round.iter().any(|taken| !taken.is_empty());
        Some(any.then_some(begun.round))
    }

    /// Adds bands until the round is whole; `None` if it is not yet.
    fn advance(&mut self, begun: &mut RoundInProgress<I>, steps: &mut u32) -> Option<()> {
        while begun.weight < ROUND_WEIGHT_TARGET {
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
            if begun.partial {
                break;
            }
            // Lone pieces bring the blocks around them; not more than the band has.
            let across = begun.width * self.cells;
            let alone = (band.bytes + LONE_PIECE_WEIGHT * band.pieces as u64).min(across);
            let weight = begun.weight + band.bytes.max(alone);
            let pieces = begun.pieces + band.pieces;
            if weight <= ROUND_WEIGHT_MAX && pieces <= ROUND_PIECES_MAX {
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
            begun.partial = begun.width <= BAND_WIDTH_MIN;
            begun.width = (begun.width / 2).max(BAND_WIDTH_MIN);
        }
        Some(())
    }

    /// The band in which the first of all next pieces lies.
    #[allow(clippy::option_option)] // as of `look`
    fn band(
        &mut self,
        begun: &RoundInProgress<I>,
        steps: &mut u32,
    ) -> Option<Option<BandInProgress<I>>> {
        let mut end: Option<u64> = None;
        for member in &mut self.members {
            let next = member.look(steps)?;
            let ends = next.map(|piece| (piece.offset.0 / begun.width + 1) * begun.width);
            end = end.into_iter().chain(ends).min();
        }
        let had = begun.round.iter().map(|r| (r.len(), r.last().copied()));
        Some(end.map(|end| BandInProgress {
            end,
            before: self.members.clone(),
            had: had.collect(),
            member: 0,
            member_bytes: 0,
            bytes: 0,
            pieces: 0,
        }))
    }

    /// Takes the pieces in the band, up to one more than fits; of a partial round, each member's
    /// share.
    fn take(
        &mut self,
        begun: &mut RoundInProgress<I>,
        band: &mut BandInProgress<I>,
        steps: &mut u32,
    ) -> Option<()> {
        let count = self.members.len();
        let (most, each) = if begun.partial {
            let most = (ROUND_WEIGHT_MAX / count as u64).max(1);
            (most, (ROUND_PIECES_MAX / count).max(1))
        } else {
            (begun.width * self.cells, usize::MAX)
        };
        while let Some(cursor) = self.members.get_mut(band.member) {
            let (had, _) = band.had[band.member];
            let taken = &mut begun.round[band.member];
            let pieces = band.pieces + taken.len() - had;
            let full = !begun.partial && begun.pieces + pieces > ROUND_PIECES_MAX;
            if !full
                && taken.len() < each
                && let Some(piece) = cursor.take(band.end, most - band.member_bytes, steps)?
            {
                band.member_bytes += piece.length;
                add(taken, piece);
                continue;
            }
            band.bytes += band.member_bytes;
            (band.pieces, band.member_bytes) = (pieces, 0);
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
