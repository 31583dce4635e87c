//! Arrays in files: hyperslabs, compared with a walk over every element.

use proptest::prelude::*;
use weft_layout::array::{Array, ArrayError, ArrayOrder, Element, Slab};
use weft_layout::{Grid, Map, Request, ServerSlot, View};

fn dimension() -> impl Strategy<Value = (u64, Slab)> {
    (0..4u64, 0..4u64, 1..4u64, 0..3u64, 0..4u64).prop_map(|(start, count, block, gap, spare)| {
        let stride = block + gap;
        let slab = Slab {
            start,
            stride,
            count,
            block,
        };
        (start + count * stride + block + spare, slab)
    })
}

/// The bytes of a hyperslab, found by a walk over every element of the array.
fn walked(array: &Array, slabs: &[Slab]) -> Vec<u64> {
    let shape = array.shape();
    let size = array.element().bytes();
    let mut bytes = Vec::new();
    for place in 0..shape.iter().product::<u64>() {
        let mut rest = place;
        let mut inside = true;
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if array.order() == ArrayOrder::Row {
            order.reverse();
        }
        for d in order {
            let (at, slab) = (rest % shape[d], slabs[d]);
            rest /= shape[d];
            inside &= (0..slab.count)
                .any(|k| (0..slab.block).any(|b| slab.start + k * slab.stride + b == at));
        }
        if inside {
            bytes.extend((0..size).map(|b| place * size + b));
        }
    }
    bytes
}

proptest! {
    #[test]
    fn a_hyperslab_matches_a_walk_over_all_elements(
        dimensions in prop::collection::vec(dimension(), 1..4), wide in any::<bool>(), columns in any::<bool>(),
    ) {
        let element = if wide { Element::Float(8) } else { Element::Opaque(3) };
        let order = if columns { ArrayOrder::Column } else { ArrayOrder::Row };
        let (shape, slabs): (Vec<u64>, Vec<Slab>) = dimensions.into_iter().unzip();
        let array = Array::new(element, shape, order).unwrap();
        let (offset, pattern) = array.hyperslab(&slabs).unwrap();
        let request = Request::new(offset, &pattern).unwrap();
        let map = Map::new(Grid::new(1, 4096, 1).unwrap(), View::canonical()).unwrap();
        let bytes: Vec<u64> = map
            .pieces(&request, ServerSlot(0))
            .unwrap()
            .flat_map(|piece| piece.offset.0..piece.offset.0 + piece.length)
            .collect();
        prop_assert_eq!(bytes, walked(&array, &slabs));
        prop_assert_eq!(array.to_string().parse(), Ok(array));
    }
}

#[test]
fn a_hyperslab_that_does_not_fit_its_array_is_refused() {
    let array: Array = "i16 10x4".parse().unwrap();
    let whole = Slab::from(0).block(4);
    assert_eq!(
        array.hyperslab(&[whole]),
        Err(ArrayError::Dimensions { array: 2, slabs: 1 })
    );
    for slab in [
        Slab::from(10),
        Slab::from(0).block(11),
        Slab::from(1).every(3).times(4),
        Slab::from(0).every(2).block(3).times(2),
        Slab::from(u64::MAX).every(u64::MAX).times(u64::MAX),
    ] {
        let refused = array.hyperslab(&[slab, whole]);
        assert_eq!(
            refused,
            Err(ArrayError::Slab {
                dimension: 0,
                size: 10,
                slab
            })
        );
    }
}

#[test]
fn a_hyperslab_that_does_not_fit_is_refused_with_its_reason() {
    let array: Array = "u8 10".parse().unwrap();
    for (slab, reason) in [
        (
            Slab::from(0).every(2).block(3).times(2),
            "0:2:2:3 overlaps itself: blocks of 3, one every 2",
        ),
        (Slab::from(0).every(0).times(2), "0:0:2:1 overlaps itself"),
        (
            Slab::from(8).times(3),
            "8:1:3:1 reaches element 10; the last is 9",
        ),
        (Slab::from(u64::MAX).times(2), "reaches past every element"),
    ] {
        let error = array.hyperslab(&[slab]).unwrap_err().to_string();
        let said = format!("dimension 0 has 10 elements, and {reason}");
        assert!(
            error.starts_with(&said) || error.contains(reason),
            "{error}"
        );
    }
}

#[test]
fn arrays_are_formatted_as_they_are_parsed() {
    for text in [
        "f64 1000x500",
        "u8 7",
        "bytes24 2x3x4 column",
        "i32 1x1x1x1x1x1x1",
    ] {
        assert_eq!(text.parse::<Array>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "f64",
        "f8 3",
        "u7 3",
        "u128 3",
        "bytes0 3",
        "f64 3x",
        "f64 3 diagonal",
        "f64 3 row row",
    ] {
        assert!(
            matches!(text.parse::<Array>(), Err(ArrayError::Text { .. })),
            "{text}"
        );
    }
    for text in ["f64 0", "f64 1x1x1x1x1x1x1x1", "f64 9223372036854775807"] {
        assert!(
            matches!(text.parse::<Array>(), Err(ArrayError::Shape { .. })),
            "{text}"
        );
    }
}
