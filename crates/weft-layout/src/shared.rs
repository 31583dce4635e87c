//! Whether the pieces of several members touch the same bytes, found in bounded memory and in small
//! steps.
//!
//! A few pieces are sorted and compared at once. Many are compared band by band, in one pass, as
//! long as no member goes back behind a band that was compared; bands with too many pieces are made
//! narrower. Where members do go back (cell after cell, say) all pieces are passed again and again,
//! and each pass compares the next [`KEPT`] in the order of the cells: time instead of memory, up
//! to [`PASSES_MAX`].
//!
//! Rejected: a bit for each byte (a server's cells may be sparse and of any length), and trusting
//! any order of the pieces: views and patterns have too many.

use crate::rounds::{Cursor, Search, WIDTH_MIN, width};
use crate::stretch::RUNS;
use crate::{CellIndex, CellOffset, Grid, Piece, ServerSlot};

/// Pieces that are compared with one another at a time.
const KEPT: usize = 256 << 10;
/// Passes over pieces that are not in the order of bands.
const PASSES_MAX: usize = 64;
/// Pieces, and runs of other servers between them, that a step looks at.
const STEP: u32 = 32 << 10;

/// Whether members touch the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// No byte is touched twice.
    No,
    /// These two members touch this byte; one member twice only if no two members touch the same.
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

/// Compares the pieces of members with one another.
#[derive(Clone, Debug)]
pub struct Comparison<I> {
    members: Vec<I>,
    width: u64,
    /// A byte that one member touches twice.
    own: Option<Shared>,
    way: Way<I>,
}

#[derive(Clone, Debug)]
enum Way<I> {
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
    /// Where the bands end that were compared.
    done: u64,
    band: Option<Band<I>>,
}

/// The pieces of one band, as far as they were found.
#[derive(Clone, Debug)]
struct Band<I> {
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
    /// Those before it, itself included, were compared.
    after: Option<Key>,
    kept: Vec<(usize, Piece)>,
    /// More than are kept were seen.
    more: bool,
    seen: usize,
    reach: Reach,
}

impl<I: Search + Clone> Comparison<I> {
    /// Of these members' pieces on one server.
    pub fn new(grid: &Grid, slot: ServerSlot, members: impl IntoIterator<Item = I>) -> Self {
        let members: Vec<I> = members.into_iter().collect();
        Comparison {
            width: width(grid, slot),
            own: None,
            way: Way::All(Pass::new(&members)),
            members,
        }
    }

    /// Compares all.
    ///
    /// Cost: every piece is sorted among those near it, O(pieces · log) where members go on from
    /// band to band; else up to [`PASSES_MAX`] passes.
    pub fn shared(mut self) -> Shared {
        loop {
            if let Some(shared) = self.step() {
                return shared;
            }
        }
    }

    /// Compares some; `None` until it is known. A step takes some milliseconds at most.
    pub fn step(&mut self) -> Option<Shared> {
        match &mut self.way {
            Way::All(pass) => {
                let ended = pass.walk(STEP);
                if pass.more {
                    self.way = Way::Bands(Bands {
                        next: self.members.iter().cloned().map(Cursor::new).collect(),
                        done: 0,
                        band: None,
                    });
                    return None;
                }
                let kept = ended.then(|| std::mem::take(&mut pass.kept))?;
                let found = Reach::default().compare(kept, &mut self.own);
                found.or(self.own).or(Some(Shared::No))
            }
            Way::Bands(bands) => match bands.step(&mut self.width, &mut self.own) {
                Some(Shared::Unknown) => {
                    self.way = Way::Passes(Pass::new(&self.members));
                    None
                }
                Some(Shared::No) => self.own.or(Some(Shared::No)),
                found => found,
            },
            Way::Passes(pass) => {
                if !pass.walk(STEP) {
                    return (pass.seen > PASSES_MAX * KEPT).then_some(Shared::Unknown);
                }
                if let Some(found) = pass.compare(&mut self.own) {
                    return Some(found);
                }
                if !pass.more {
                    return self.own.or(Some(Shared::No));
                }
                pass.again(&self.members);
                None
            }
        }
    }
}

impl<I: Search + Clone> Bands<I> {
    /// Compares the next band, or finds some of its pieces; `None` if more may follow,
    /// [`Shared::Unknown`] if bands do not settle it.
    fn step(&mut self, width: &mut u64, own: &mut Option<Shared>) -> Option<Shared> {
        let steps = &mut { STEP };
        let mut band = if let Some(band) = self.band.take() {
            band
        } else {
            let mut first = None;
            for cursor in &mut self.next {
                let next = cursor.look(steps)?.map(|p| p.offset.0);
                first = first.into_iter().chain(next).min();
            }
            let Some(first) = first else {
                return Some(Shared::No);
            };
            Band {
                end: (first / *width + 1) * *width,
                before: self.next.clone(),
                member: 0,
                all: Vec::new(),
            }
        };
        while band.all.len() <= KEPT
            && let Some(cursor) = self.next.get_mut(band.member)
        {
            let Some(cut) = cursor.cut(band.end, u64::MAX, steps) else {
                self.band = Some(band);
                return None;
            };
            match cut {
                // Behind the bands that were compared: what it meets there is forgotten.
                Some(piece) if piece.offset.0 < self.done => return Some(Shared::Unknown),
                Some(piece) => band.all.push((band.member, piece)),
                None => band.member += 1,
            }
        }
        if band.all.len() <= KEPT {
            self.done = band.end;
            return Reach::default().compare(band.all, own);
        }
        if *width <= WIDTH_MIN {
            return Some(Shared::Unknown);
        }
        self.next = band.before;
        *width = (*width / 2).max(WIDTH_MIN);
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
            reach: Reach::default(),
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
            if !rest.look(RUNS) {
                steps = steps.saturating_sub(RUNS);
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
            if self.kept.len() == 2 * KEPT {
                self.keep();
            }
        }
        true
    }

    /// Forgets all but the first.
    fn keep(&mut self) {
        if self.kept.len() > KEPT {
            self.kept.select_nth_unstable_by_key(KEPT, key);
            self.kept.truncate(KEPT);
            self.more = true;
        }
    }

    /// Compares what was kept of a pass.
    fn compare(&mut self, own: &mut Option<Shared>) -> Option<Shared> {
        self.keep();
        self.after = self.kept.iter().map(key).max().or(self.after);
        self.reach.compare(std::mem::take(&mut self.kept), own)
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

/// How far pieces reach that were compared, in the cell of the last: those of the member that
/// reaches farthest, and of the one that does among the others.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    cell: Option<CellIndex>,
    ends: [Option<(usize, u64)>; 2],
}

impl Reach {
    /// Goes on over these pieces; the first byte that two members touch. Keeps one that a member
    /// touches twice.
    fn compare(
        &mut self,
        mut pieces: Vec<(usize, Piece)>,
        own: &mut Option<Shared>,
    ) -> Option<Shared> {
        // Each member's pieces mostly ascend already: runs that a merge sort finds.
        pieces.sort_by_key(key);
        for (member, piece) in pieces {
            if self.cell != Some(piece.cell) {
                *self = Reach::default();
                self.cell = Some(piece.cell);
            }
            for (other, end) in self.ends.into_iter().flatten() {
                if end <= piece.offset.0 || (other == member && own.is_some()) {
                    continue;
                }
                let found = Shared::Byte {
                    first: other.min(member),
                    second: other.max(member),
                    cell: piece.cell,
                    offset: piece.offset,
                };
                if other != member {
                    return Some(found);
                }
                *own = Some(found);
            }
            self.reaches(member, piece.offset.0 + piece.length);
        }
        None
    }

    fn reaches(&mut self, member: usize, end: u64) {
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
