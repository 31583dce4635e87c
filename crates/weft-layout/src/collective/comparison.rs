//! Whether the pieces of several members touch the same bytes, found in bounded memory and in small
//! steps.
//!
//! A few pieces are sorted and compared at once. Many are compared band by band, in one pass, as
//! long as no member goes back behind a band that was compared; bands with too many pieces are made
//! narrower. Where members do go back (cell after cell, say) all pieces are passed again and again,
//! and each pass compares the next [`COMPARED_PIECES_MAX`] in the order of the cells: time instead
//! of memory, up to [`COMPARISON_PASSES_MAX`].
//!
//! Rejected: a bit for each byte (a server's cells may be sparse and of any length), and trusting
//! any order of the pieces: views and patterns have too many.

use super::bands::width;
use super::cursor::{Cursor, Search};
use crate::limits::{
    BAND_WIDTH_MIN, COMPARED_PIECES_MAX, COMPARISON_PASSES_MAX, COMPARISON_STEP, RUNS_PER_LOOK,
};
use crate::{CellIndex, CellOffset, Grid, Piece, ServerSlot};

/// Whether members touch the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberOverlap {
    /// No byte is touched twice.
    No,
    /// These two members touch this byte; `first` equals `second`, where one member touches it
    /// twice, only if no two members touch a byte.
    Byte {
        /// One member.
        first: usize,
        /// The other one, or the same.
        second: usize,
        /// In which cell.
        cell: CellIndex,
        /// Where.
        offset: CellOffset,
    },
    /// There are too many pieces, in too irregular an order, to tell.
    Unknown,
}

/// Compares the pieces of members with one another.
#[derive(Clone, Debug)]
pub struct Comparison<I> {
    members: Vec<I>,
    width: u64,
    /// A byte that one member touches twice.
    within_member: Option<MemberOverlap>,
    strategy: Strategy<I>,
}

#[derive(Clone, Debug)]
enum Strategy<I> {
    /// Compares all at once, if they are not too many.
    All(Pass<I>),
    /// Compares them band by band.
    Bands(Bands<I>),
    /// Compares the next of them in the order of the cells, whatever order they come in.
    Passes(Pass<I>),
}

/// The pieces of all members, band by band.
#[derive(Clone, Debug)]
struct Bands<I> {
    next: Vec<Cursor<I>>,
    /// The end of the bands that were compared.
    done: u64,
    band: Option<ComparedBand<I>>,
}

/// The pieces of one band, as far as they were found.
#[derive(Clone, Debug)]
struct ComparedBand<I> {
    end: u64,
    before: Vec<Cursor<I>>,
    member: usize,
    all: Vec<(usize, Piece)>,
}

/// Where a piece is in the order of the cells: no two are in one place.
type Key = (CellIndex, CellOffset, usize, u64);

/// Once over all pieces.
#[derive(Clone, Debug)]
struct Pass<I> {
    /// What is left of each member, the last one first.
    left: Vec<(usize, I)>,
    /// Pieces up to this one were compared.
    after: Option<Key>,
    kept: Vec<(usize, Piece)>,
    /// There were more pieces than are kept.
    more: bool,
    seen: usize,
    frontier: Frontier,
}

impl<I: Search + Clone> Comparison<I> {
    /// Of these members' pieces on one server.
    pub fn new(grid: &Grid, slot: ServerSlot, members: impl IntoIterator<Item = I>) -> Self {
        let members: Vec<I> = members.into_iter().collect();
        Comparison {
            width: width(grid, slot),
            within_member: None,
            strategy: Strategy::All(Pass::new(&members)),
            members,
        }
    }

    /// Compares all.
    ///
    /// Cost: every piece is sorted among those near it, O(pieces · log) where members go on from
    /// band to band; else up to [`COMPARISON_PASSES_MAX`] passes.
    pub fn overlap(mut self) -> MemberOverlap {
        loop {
            if let Some(overlap) = self.step() {
                return overlap;
            }
        }
    }

    /// Compares some pieces; `None` until the result is known. A step takes some milliseconds at
    /// most.
    pub fn step(&mut self) -> Option<MemberOverlap> {
        match &mut self.strategy {
            Strategy::All(pass) => {
                let ended = pass.walk(COMPARISON_STEP);
                if pass.more {
                    self.strategy = Strategy::Bands(Bands {
                        next: self.members.iter().cloned().map(Cursor::new).collect(),
                        done: 0,
                        band: None,
                    });
                    return None;
                }
                let kept = ended.then(|| std::mem::take(&mut pass.kept))?;
                let found = Frontier::default().compare(kept, &mut self.within_member);
                found.or(self.within_member).or(Some(MemberOverlap::No))
            }
            Strategy::Bands(bands) => match bands.step(&mut self.width, &mut self.within_member) {
                Some(MemberOverlap::Unknown) => {
                    self.strategy = Strategy::Passes(Pass::new(&self.members));
                    None
                }
                Some(MemberOverlap::No) => self.within_member.or(Some(MemberOverlap::No)),
                found => found,
            },
            Strategy::Passes(pass) => {
                if !pass.walk(COMPARISON_STEP) {
                    return (pass.seen > COMPARISON_PASSES_MAX * COMPARED_PIECES_MAX)
                        .then_some(MemberOverlap::Unknown);
                }
                if let Some(found) = pass.compare(&mut self.within_member) {
                    return Some(found);
                }
                if !pass.more {
                    return self.within_member.or(Some(MemberOverlap::No));
                }
                pass.again(&self.members);
                None
            }
        }
    }
}

impl<I: Search + Clone> Bands<I> {
    /// Compares the next band, or finds some of its pieces; `None` if more may follow,
    /// [`MemberOverlap::Unknown`] if bands do not settle it.
    fn step(
        &mut self,
        width: &mut u64,
        within_member: &mut Option<MemberOverlap>,
    ) -> Option<MemberOverlap> {
        let steps = &mut { COMPARISON_STEP };
        let mut band = if let Some(band) = self.band.take() {
            band
        } else {
            let mut first = None;
            for cursor in &mut self.next {
                let next = cursor.look(steps)?.map(|p| p.offset.0);
                first = first.into_iter().chain(next).min();
            }
            let Some(first) = first else {
                return Some(MemberOverlap::No);
            };
            ComparedBand {
                end: (first / *width + 1) * *width,
                before: self.next.clone(),
                member: 0,
                all: Vec::new(),
            }
        };
        while band.all.len() <= COMPARED_PIECES_MAX
            && let Some(cursor) = self.next.get_mut(band.member)
        {
            let Some(taken) = cursor.take(band.end, u64::MAX, steps) else {
                self.band = Some(band);
                return None;
            };
            match taken {
                // It lies in a band that was compared, whose pieces are forgotten.
                Some(piece) if piece.offset.0 < self.done => return Some(MemberOverlap::Unknown),
                Some(piece) => band.all.push((band.member, piece)),
                None => band.member += 1,
            }
        }
        if band.all.len() <= COMPARED_PIECES_MAX {
            self.done = band.end;
            return Frontier::default().compare(band.all, within_member);
        }
        if *width <= BAND_WIDTH_MIN {
            return Some(MemberOverlap::Unknown);
        }
        self.next = band.before;
        *width = (*width / 2).max(BAND_WIDTH_MIN);
        None
    }
}

impl<I: Search + Clone> Pass<I> {
    fn new(members: &[I]) -> Self {
        Pass {
            left: members.iter().cloned().enumerate().rev().collect(),
            after: None,
            kept: Vec::new(),
            more: false,
            seen: 0,
            frontier: Frontier::default(),
        }
    }

    /// Goes over the next pieces and keeps those that are first in the order of the cells; whether
    /// it has seen all.
    fn walk(&mut self, mut steps: u32) -> bool {
        while let Some((member, rest)) = self.left.last_mut() {
            let Some(left) = steps.checked_sub(1) else {
                return false;
            };
            steps = left;
            if !rest.look(RUNS_PER_LOOK) {
                steps = steps.saturating_sub(RUNS_PER_LOOK);
                continue;
            }
            let Some(piece) = rest.next() else {
                self.left.pop();
                continue;
            };
            self.seen += 1;
            let piece = (*member, piece);
            if self.after.is_some_and(|after| key(&piece) <= after) {
                continue;
            }
            self.kept.push(piece);
            if self.kept.len() == 2 * COMPARED_PIECES_MAX {
                self.keep();
            }
        }
        true
    }

    /// Forgets all but the first.
    fn keep(&mut self) {
        if self.kept.len() > COMPARED_PIECES_MAX {
            self.kept
                .select_nth_unstable_by_key(COMPARED_PIECES_MAX, key);
            self.kept.truncate(COMPARED_PIECES_MAX);
            self.more = true;
        }
    }

    /// Compares what was kept of a pass.
    fn compare(&mut self, within_member: &mut Option<MemberOverlap>) -> Option<MemberOverlap> {
        self.keep();
        self.after = self.kept.iter().map(key).max().or(self.after);
        self.frontier
            .compare(std::mem::take(&mut self.kept), within_member)
    }

    /// Begins the next pass.
    fn again(&mut self, members: &[I]) {
        let next = Pass::new(members);
        (self.left, self.more, self.seen) = (next.left, false, 0);
    }
}

fn key((member, piece): &(usize, Piece)) -> Key {
    (piece.cell, piece.offset, *member, piece.memory)
}

/// How far the compared pieces reach in the cell of the last one: the ends of the member that
/// reaches farthest, and of the farthest among the others.
#[derive(Clone, Copy, Debug, Default)]
struct Frontier {
    cell: Option<CellIndex>,
    ends: [Option<(usize, u64)>; 2],
}

impl Frontier {
    /// Compares these pieces, which follow the ones before; returns the first byte that two members
    /// touch, and notes one that a member touches twice.
    fn compare(
        &mut self,
        mut pieces: Vec<(usize, Piece)>,
        within_member: &mut Option<MemberOverlap>,
    ) -> Option<MemberOverlap> {
        // Each member's pieces mostly ascend already: runs that a merge sort finds.
        pieces.sort_by_key(key);
        for (member, piece) in pieces {
            if self.cell != Some(piece.cell) {
                *self = Frontier::default();
                self.cell = Some(piece.cell);
            }
            for (other, end) in self.ends.into_iter().flatten() {
                if end <= piece.offset.0 || (other == member && within_member.is_some()) {
                    continue;
                }
                let found = MemberOverlap::Byte {
                    first: other.min(member),
                    second: other.max(member),
                    cell: piece.cell,
                    offset: piece.offset,
                };
                if other != member {
                    return Some(found);
                }
                *within_member = Some(found);
            }
            self.extend(member, piece.offset.0 + piece.length);
        }
        None
    }

    fn extend(&mut self, member: usize, end: u64) {
        let [first, second] = &mut self.ends;
        match first {
            Some((known, far)) if *known == member => *far = end.max(*far),
            Some((_, far)) if *far >= end => {
                let farther = second.is_none_or(|(_, far)| far < end);
                if farther {
                    *second = Some((member, end));
                }
            }
            _ => {
                *second = *first;
                *first = Some((member, end));
            }
        }
    }
}
