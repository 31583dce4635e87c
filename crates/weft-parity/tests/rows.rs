//! Properties of rows and of their arithmetic.
#![allow(missing_docs)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use weft_parity::{Code, CodeError, Item, Piece, Rows, Shape, ShapeError};

fn shapes() -> impl Strategy<Value = (Shape, u32)> {
    (1_u32..=12, 1_u32..=4, 0_u32..=9).prop_map(|(data, parity, more)| {
        let shape = Shape::new(data, parity).unwrap();
        (shape, shape.pieces() + more)
    })
}

proptest! {
    /// Each part is in one row, and no slot has two pieces of a row.
    #[test]
    fn rows_take_each_part_once_and_no_slot_twice((shape, slots) in shapes(), parts in 1_u64..40) {
        let rows = Rows::new(shape, slots).unwrap();
        let mut seen = BTreeSet::new();
        for row in 0..rows.count(parts) {
            let pieces = rows.pieces(row);
            prop_assert_eq!(pieces.len() as u32, shape.pieces());
            let on: BTreeSet<u32> = pieces.iter().map(|piece| piece.slot()).collect();
            prop_assert_eq!(on.len() as u32, shape.pieces());
            prop_assert!(on.iter().all(|slot| *slot < slots));
            for (at, piece) in (0..).zip(pieces) {
                if let Piece::Data(item) = piece {
                    prop_assert_eq!(rows.of(item), (row, at));
                    prop_assert!(seen.insert(item));
                }
            }
        }
        let all = (0..slots).flat_map(|slot| (0..parts).map(move |part| Item { slot, part }));
        prop_assert!(all.into_iter().all(|item| seen.contains(&item)));
    }

    /// Over many rows no slot has much more parity than its share.
    #[test]
    fn parity_is_spread_over_all_slots((shape, slots) in shapes()) {
        let rows = Rows::new(shape, slots).unwrap();
        let cycle = 200 * u64::from(slots);
        let mut counts = vec![0_u64; slots as usize];
        for row in 0..cycle {
            for piece in rows.pieces(row) {
                if let Piece::Parity { slot } = piece {
                    counts[slot as usize] += 1;
                }
            }
        }
        let share = cycle * u64::from(shape.parity()) / u64::from(slots);
        prop_assert!(counts.iter().all(|count| *count <= share + share / 2), "{:?}", counts);
    }

    /// Any k pieces give each of the others; k − 1 do not.
    #[test]
    fn any_k_pieces_give_all(
        (shape, _) in shapes(),
        length in 1_usize..300,
        many_columns in any::<bool>(),
        seed in any::<u64>(),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 1..=4),
    ) {
        let length = length + if many_columns { 100_000 } else { 0 };
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let code = Code::new(shape);
        let data: Vec<Vec<u8>> = (0..shape.data())
            .map(|_| (0..length).map(|_| next()).collect())
            .collect();
        let coded = code.parity(&data).unwrap();
        prop_assert_eq!(coded.len() as u32, shape.parity());
        let all: Vec<Vec<u8>> = data.into_iter().chain(coded).collect();
        let lost = lost.into_iter().take(shape.parity() as usize);
        let lost: BTreeSet<usize> = lost.map(|index| index.index(all.len())).collect();
        let mut left = all.clone();
        let mut there = vec![true; all.len()];
        for piece in &lost {
            left[*piece].fill(0xee);
            there[*piece] = false;
        }
        code.complete(&mut left, &there).unwrap();
        prop_assert!(left == all, "{lost:?} of {shape}");
        let few = (0..all.len()).map(|piece| piece + 1 < shape.data() as usize);
        let refused = code.complete(&mut left, &few.collect::<Vec<_>>());
        let too_few = matches!(refused, Err(CodeError::TooFew { .. }));
        prop_assert!(too_few);
        left[0].push(0);
        prop_assert!(matches!(code.complete(&mut left, &there), Err(CodeError::Pieces(_))));
    }
}

#[test]
fn shapes_are_read_as_they_are_written_and_bounded() {
    for text in ["4+1", "8+2", "1+4", "64+4", "5+3"] {
        assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
    }
    for text in ["", "4", "4+", "+1", "4-1", "four+1", "4+1+1", "-4+1"] {
        assert_eq!(text.parse::<Shape>(), Err(ShapeError::Form(text.into())));
    }
    for (data, parity) in [(0, 1), (65, 1), (4, 0), (4, 5)] {
        let refused = format!("{data}+{parity}").parse::<Shape>();
        assert_eq!(refused, Err(ShapeError::Bounds { data, parity }));
    }
    let shape = Shape::new(4, 1).unwrap();
    assert!(Rows::new(shape, 4).is_none() && Rows::new(shape, 5).is_some());
}
