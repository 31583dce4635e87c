//! Rounds: every piece occurs once and in the order of its member, and blocks that members share
//! are in one round.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use weft_layout::{
    CellIndex, CellOffset, Comparison, Grid, MemberOverlap, Piece, Rounds, Search, ServerSlot,
};

const MIB: u64 = 1 << 20;

fn grid(cells: u32, bsu: u64) -> Grid {
    Grid::new(cells, bsu, 1).unwrap()
}

fn rounds(grid: &Grid, members: &[Vec<Piece>]) -> Rounds<std::vec::IntoIter<Piece>> {
    Rounds::new(
        grid,
        ServerSlot(0),
        members.iter().map(|m| m.clone().into_iter()),
    )
}

fn shared(grid: &Grid, members: &[Vec<Piece>]) -> MemberOverlap {
    let members = members.iter().map(|m| m.clone().into_iter());
    Comparison::new(grid, ServerSlot(0), members).overlap()
}

/// Runs of other servers before each piece of a [`Far`].
const RUNS: u32 = 1000;

/// Pieces far from one another, which must be searched for before they are taken.
#[derive(Clone)]
struct Far {
    pieces: std::vec::IntoIter<Piece>,
    passed: u32,
}

impl Far {
    fn each(members: &[Vec<Piece>]) -> impl Iterator<Item = Far> {
        members.iter().map(|m| Far {
            pieces: m.clone().into_iter(),
            passed: 0,
        })
    }
}

impl Search for Far {
    fn look(&mut self, runs: u32) -> bool {
        self.passed = RUNS.min(self.passed + runs);
        self.passed == RUNS
    }
}

impl Iterator for Far {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        assert_eq!(self.passed, RUNS, "a piece was taken before it was found");
        self.passed = 0;
        self.pieces.next()
    }
}

/// Pieces that are adjacent in memory.
fn numbered(places: Vec<(u32, u64, u64)>) -> Vec<Piece> {
    let mut memory = 0;
    let piece = |(cell, offset, length)| {
        let piece = Piece {
            cell: CellIndex(cell),
            offset: CellOffset(offset),
            length,
            memory,
        };
        memory += length;
        piece
    };
    places.into_iter().map(piece).collect()
}

/// The pieces in the same order, with adjacent ones joined.
fn joined(pieces: impl IntoIterator<Item = Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last)
                if last.cell == piece.cell
                    && last.offset.0 + last.length == piece.offset.0
                    && last.memory + last.length == piece.memory =>
            {
                last.length += piece.length;
            }
            _ => joined.push(piece),
        }
    }
    joined
}

fn wild(cells: u32) -> impl Strategy<Value = Vec<Piece>> {
    let length = prop_oneof![1..200u64, 1..9 * MIB];
    vec((0..cells, 0..40 * MIB, length), 0..40).prop_map(numbered)
}

fn ascending() -> impl Strategy<Value = Vec<Piece>> {
    vec((0..5 * MIB, prop_oneof![1..200u64, 1..3 * MIB]), 0..40).prop_map(|steps| {
        let mut at = 0;
        let place = |(gap, length)| {
            let place = (0, at + gap, length);
            at += gap + length;
            place
        };
        numbered(steps.into_iter().map(place).collect())
    })
}

proptest! {
    #[test]
    fn rounds_have_every_piece_once_in_the_order_of_its_member(
        cells in 1..5u32,
        bsu in prop_oneof![1..100u64, 1..9 * MIB],
        seeds in vec(wild(4), 1..5),
    ) {
        let members: Vec<Vec<Piece>> = seeds
            .into_iter()
            .map(|m| m.into_iter().map(|p| Piece { cell: CellIndex(p.cell.0 % cells), ..p }).collect())
            .collect();
        let mut all = vec![Vec::new(); members.len()];
        for round in rounds(&grid(cells, bsu), &members) {
            prop_assert!(round.iter().any(|m| !m.is_empty()));
            let bytes: u64 = round.iter().flatten().map(|p| p.length).sum();
            prop_assert!(bytes <= 16 * MIB);
            for (all, mine) in all.iter_mut().zip(round) {
                all.extend(mine);
            }
        }
        for (got, wanted) in all.into_iter().zip(members) {
            prop_assert_eq!(joined(got), joined(wanted));
        }
    }

    #[test]
    fn a_search_in_small_steps_finds_the_same_rounds(
        bsu in prop_oneof![1..100u64, 1..9 * MIB],
        members in vec(prop_oneof![wild(1), ascending()], 1..5),
        steps in 1..2000u32,
    ) {
        let grid = grid(1, bsu);
        let mut far = Rounds::new(&grid, ServerSlot(0), Far::each(&members));
        let mut looks = 0;
        let mut next = || loop {
            looks += 1;
            if let Some(round) = far.look(&mut { steps }) {
                break round;
            }
        };
        for round in rounds(&grid, &members) {
            prop_assert_eq!(next(), Some(round));
        }
        prop_assert_eq!(next(), None);
        let pieces = members.iter().map(Vec::len).sum::<usize>() as u32;
        prop_assert!(looks >= pieces * RUNS / (steps + 64), "{} looks", looks);
        let far = Comparison::new(&grid, ServerSlot(0), Far::each(&members));
        prop_assert_eq!(far.overlap(), shared(&grid, &members));
    }

    #[test]
    fn blocks_shared_by_ascending_members_are_in_one_round(members in vec(ascending(), 2..5)) {
        let mut round_of: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        for (n, round) in rounds(&grid(1, 4096), &members).enumerate() {
            for (member, piece) in round.iter().enumerate().flat_map(|(m, p)| p.iter().map(move |p| (m, p))) {
                for block in piece.offset.0 / 4096..=(piece.offset.0 + piece.length - 1) / 4096 {
                    round_of.entry((member, block)).or_insert(n);
                }
            }
        }
        for ((member, block), n) in &round_of {
            for other in 0..*member {
                if let Some(m) = round_of.get(&(other, *block)) {
                    prop_assert_eq!(n, m, "block {}", block);
                }
            }
        }
    }

    #[test]
    fn an_overlap_is_found_exactly_when_two_pieces_touch_a_byte(
        members in vec(vec((0..2u32, 0..60u64, 1..12u64), 0..6).prop_map(numbered), 1..4),
    ) {
        let mut touched: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        let mut between = false;
        let mut by: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for (member, piece) in members.iter().enumerate().flat_map(|(m, p)| p.iter().map(move |p| (m, p))) {
            for at in piece.offset.0..piece.offset.0 + piece.length {
                *touched.entry((piece.cell.0, at)).or_default() += 1;
                between |= *by.entry((piece.cell.0, at)).or_insert(member) != member;
            }
        }
        match shared(&grid(2, 8), &members) {
            MemberOverlap::No => prop_assert!(touched.values().all(|n| *n == 1)),
            MemberOverlap::Byte { first, second, cell, offset } => {
                let holds = |m: usize| members[m].iter().any(|p| {
                    p.cell == cell && (p.offset.0..p.offset.0 + p.length).contains(&offset.0)
                });
                prop_assert!(touched[&(cell.0, offset.0)] > 1 && holds(first) && holds(second));
                prop_assert_eq!(first != second, between, "an overlap of two members is reported before one within a member");
            }
            MemberOverlap::Unknown => prop_assert!(false, "a few pieces were not compared"),
        }
    }
}

/// Ascending pieces in larger numbers than one comparison takes are compared band by band.
#[test]
fn many_pieces_are_compared_band_by_band() {
    let member = |shift: u64, step: u64| {
        let pieces = (0..200_000u64).map(|i| (0, shift + i * 128, 64));
        let mut pieces: Vec<_> = pieces.collect();
        pieces[150_000].1 += step;
        numbered(pieces)
    };
    let grid = grid(1, 4096);
    let none = shared(&grid, &[member(0, 0), member(64, 0)]);
    assert_eq!(none, MemberOverlap::No);
    let met = shared(&grid, &[member(0, 0), member(64, 32)]);
    assert!(is_of(met, 0, 1), "{met:?}");
}

fn is_of(shared: MemberOverlap, one: usize, other: usize) -> bool {
    matches!(shared, MemberOverlap::Byte { first, second, .. } if (first, second) == (one, other))
}

/// Subfiles of whole blocks usually have this order: cell after cell, each from its start.
#[test]
fn many_pieces_in_any_order_are_compared() {
    let member = |shift: u64| {
        let cells = (0..2u32).flat_map(|cell| (0..200_000u64).map(move |i| (cell, i)));
        let pieces = cells.map(|(cell, i)| (cell, shift + i * 64, 32));
        pieces.collect::<Vec<_>>()
    };
    let grid = grid(2, 64);
    let (one, other) = (member(0), member(32));
    let both = [numbered(one.clone()), numbered(other.clone())];
    assert_eq!(shared(&grid, &both), MemberOverlap::No);
    let mut wild = one.clone();
    wild.swap(10, 390_000);
    assert_eq!(
        shared(&grid, &[numbered(wild), numbered(other.clone())]),
        MemberOverlap::No
    );
    for place in [0, 399_999] {
        let mut met = one.clone();
        met[place].2 = 33;
        let met = shared(&grid, &[numbered(met), numbered(other.clone())]);
        assert!(is_of(met, 0, 1), "{met:?}");
    }
    // An overlap within a member does not hide an overlap between two.
    let (mut twice, mut met) = (one.clone(), other);
    twice[5] = twice[4];
    let own = shared(&grid, &[numbered(twice.clone()), numbered(met.clone())]);
    assert!(is_of(own, 0, 0), "{own:?}");
    met[300_000].1 -= 1;
    let both = shared(&grid, &[numbered(twice), numbered(met)]);
    assert!(is_of(both, 0, 1), "{both:?}");
}

/// The bound of a round holds even if a band of minimum width exceeds it.
#[test]
fn rounds_of_many_cells_and_members_are_bounded() {
    let cells = 6000;
    let member = |shift| {
        let pieces = (0..cells).map(|cell| (cell, shift, 4000));
        numbered(pieces.collect())
    };
    let members = [member(0), member(10_000), member(0)];
    let mut all = vec![Vec::new(); members.len()];
    for round in rounds(&grid(cells, 4096), &members) {
        let bytes: u64 = round.iter().flatten().map(|p| p.length).sum();
        assert!(bytes <= 16 * MIB, "{bytes}");
        for (all, mine) in all.iter_mut().zip(round) {
            all.extend(mine);
        }
    }
    for (got, wanted) in all.into_iter().zip(members) {
        assert!(joined(got) == joined(wanted));
    }
}
