//! Patterns over any view, compared with a byte-by-byte model.

mod model;

use std::collections::HashSet;

use model::Byte;
use model::patterns::{placed, places};
use proptest::prelude::*;
use weft_layout::{
    CellIndex, Map, Memory, Order, Partition, Pattern, PatternError, Request, ServerSlot, Splitter,
    Subfile, View, ViewOffset, bytes_of,
};

#[test]
fn runs_in_a_unit_that_begins_before_the_view_are_found() {
    let whole = View::Partition(Partition {
        offset: 41,
        group: 1,
        stride: 1,
    });
    let map = Map::new(model::grid(2, 4, 2).unwrap(), whole).unwrap();
    let again = Pattern::bytes(1).every(0).times(16);
    let request = Request::new(ViewOffset(0), &again).unwrap();
    let offset = 21;
    let expected: Vec<(u64, Byte)> = (0..16).map(|i| (i, Byte { cell: 0, offset })).collect();
    assert_eq!(found(&map, &request, ServerSlot(0)), expected);
}

/// The number of cases of each property; `WEFT_CASES` overrides it.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("WEFT_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(usual),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let leaf = prop_oneof![
        4 => (0..12u64).prop_map(Pattern::bytes),
        2 => prop::collection::vec((-60..200i64, 0..9u64), 0..8).prop_map(Pattern::list),
        // Enough runs to be encoded as evenly spaced.
        3 => (1..9u64, -40..60i64, 16..60u64)
            .prop_map(|(length, stride, times)| Pattern::bytes(length).every(stride).times(times)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            3 => (inner.clone(), -90..90i64, 0..5u64)
                .prop_map(|(body, stride, times)| body.every(stride).times(times)),
            2 => prop::collection::vec((-50..100i64, inner.clone()), 0..4).prop_map(Pattern::Sequence),
            1 => (inner, -30..30i64).prop_map(|(body, at)| body.at(at)),
        ]
    })
}

fn view() -> impl Strategy<Value = View> {
    let order = prop_oneof![Just(Order::Default), Just(Order::Row), Just(Order::Column)];
    prop_oneof![
        4 => (1..4u64, 1..3u64, 1..5u64, 1..4u64, any::<u64>(), order).prop_map(
            |(vbs, vn, hbs, hn, index, order)| {
                View::Subfile(Subfile { vbs, vn, hbs, hn, index: index % (hn * vn), order })
            }
        ),
        2 => (0..60u64, 1..30u64, 0..50u64).prop_map(|(offset, group, gap)| {
            View::Partition(Partition { offset, group, stride: group + gap })
        }),
        3 => Just(View::canonical()),
        1 => (0..3u32).prop_map(|cell| View::Cell(CellIndex(cell))),
    ]
}

fn map() -> impl Strategy<Value = Map> {
    let grid = prop_oneof![
        (1..14u64, 1..9u64, 1..6u64),
        // The cells are evenly spread over the servers.
        (1..4u64, 1..9u64, 1..5u64).prop_map(|(rows, bsu, servers)| (rows * servers, bsu, servers)),
    ];
    (grid, view()).prop_filter_map("the view is not legal", |((cells, bsu, servers), view)| {
        Map::new(model::grid(cells, bsu, servers).unwrap(), view).ok()
    })
}

/// The bytes of the pieces on a slot, in their order, each with its number in memory.
fn found(map: &Map, request: &Request, slot: ServerSlot) -> Vec<(u64, Byte)> {
    let pieces = map.pieces(request, slot).unwrap();
    pieces
        .flat_map(|piece| {
            assert!(piece.length > 0);
            (0..piece.length).map(move |i| {
                let (cell, offset) = (piece.cell.0.into(), piece.offset.0 + i);
                (piece.memory + i, Byte { cell, offset })
            })
        })
        .collect()
}

/// Like [`found`], in stretches that are cut to these sizes in turn and end at their cell's
/// length.
fn cut(
    map: &Map,
    request: &Request,
    slot: ServerSlot,
    rooms: &[u64],
    length_of: impl Fn(CellIndex) -> u64,
) -> Vec<(u64, Byte)> {
    let mut cutter = Splitter::new(map.pieces(request, slot).unwrap(), length_of);
    let mut bytes = Vec::new();
    for room in rooms.iter().cycle() {
        let Some(stretch) = cutter.next(*room) else {
            break;
        };
        assert!((1..=*room).contains(&stretch.bytes()));
        assert!(stretch.count == 1 || stretch.stride >= stretch.length);
        let end = stretch.pieces().last().unwrap();
        assert_eq!(stretch.end(), end.offset.0 + end.length);
        for piece in stretch.pieces() {
            bytes.extend((0..piece.length).map(|i| {
                let (cell, offset) = (piece.cell.0.into(), piece.offset.0 + i);
                (piece.memory + i, Byte { cell, offset })
            }));
        }
    }
    assert!(cutter.is_done());
    bytes
}

fn expected(map: &Map, places: &[Option<Byte>], slot: ServerSlot) -> Vec<(u64, Byte)> {
    let on = |byte: &Byte| map.grid().slot_of(CellIndex(byte.cell as u32)) == slot;
    (0..)
        .zip(places)
        .filter_map(|(number, byte)| byte.filter(on).map(|byte| (number, byte)))
        .collect()
}

proptest! {
    #![proptest_config(cases(4096))]

    #[test]
    fn pieces_of_any_pattern_match_the_model(
        map in map(), pattern in pattern(), spare in 0..100u64,
    ) {
        let (offset, runs) = placed(&pattern, spare);
        let places = places(&map, &runs);
        let request = Request::new(offset, &pattern).unwrap();
        prop_assert_eq!(request.memory(), places.len() as u64);
        for slot in model::slots(map.grid()) {
            prop_assert_eq!(found(&map, &request, slot), expected(&map, &places, slot));
        }
        let touched: Vec<ServerSlot> = model::slots(map.grid())
            .filter(|slot| !expected(&map, &places, *slot).is_empty())
            .collect();
        prop_assert_eq!(map.slots(&request).unwrap(), touched);
    }

    #[test]
    fn a_sorted_request_moves_the_same_bytes_and_survives_encoding(
        map in map(), pattern in pattern(), spare in 0..100u64,
    ) {
        let (offset, runs) = placed(&pattern, spare);
        let places = places(&map, &runs);
        let join = !map.rearranges();
        let given = Request::new(offset, &pattern).unwrap();
        let sorted = Request::sorted(offset, &pattern, join).unwrap();
        for request in [given, sorted] {
            let (start, parts) = request.to_nodes(join);
            let arrived = Request::from_nodes(start, &parts).unwrap();
            prop_assert_eq!(arrived.memory(), request.memory());
            for slot in model::slots(map.grid()) {
                let mut bytes = found(&map, &request, slot);
                let stream = found(&map, &arrived, slot);
                prop_assert!(
                    bytes.iter().map(|b| b.1).eq(stream.iter().map(|b| b.1)),
                    "client and server disagree about {:?} and {:?}", request, arrived
                );
                bytes.sort_unstable_by_key(|(number, _)| *number);
                prop_assert_eq!(&bytes, &expected(&map, &places, slot));
            }
        }
    }

    #[test]
    fn a_stream_split_anywhere_has_the_same_pieces(
        map in map(), pattern in pattern(), spare in 0..100u64, sorted in any::<bool>(),
        rooms in prop::collection::vec(1..90u64, 1..6), lengths in prop::collection::vec(0..120u64, 14),
    ) {
        let (offset, _) = placed(&pattern, spare);
        let sorted = sorted && !map.rearranges();
        let request = if sorted {
            Request::sorted(offset, &pattern, true).unwrap()
        } else {
            Request::new(offset, &pattern).unwrap()
        };
        let length_of = |cell: CellIndex| lengths[cell.0 as usize];
        for slot in model::slots(map.grid()) {
            let mut all = found(&map, &request, slot);
            prop_assert_eq!(cut(&map, &request, slot, &rooms, |_| u64::MAX), &all[..]);
            all.retain(|(_, byte)| byte.offset < lengths[byte.cell as usize]);
            prop_assert_eq!(cut(&map, &request, slot, &rooms, length_of), &all[..]);
            let bytes = bytes_of(map.pieces(&request, slot).unwrap(), length_of);
            prop_assert_eq!(bytes, all.len() as u64);
            // A search in small steps, without the pieces beyond the ends of all cells.
            let own = (0..map.grid().cells()).filter(|cell| map.grid().slot_of(CellIndex(*cell)) == slot);
            let end = own.map(|cell| map.extent(CellIndex(cell), lengths[cell as usize])).max();
            let pieces = map.pieces(&request, slot).unwrap().below(end.unwrap_or(0));
            let (mut cutter, mut sum) = (Splitter::new(pieces, length_of), 0);
            loop {
                match cutter.look(&mut 3) {
                    Some(true) => sum += cutter.next(u64::MAX).unwrap().bytes(),
                    Some(false) => break,
                    None => {}
                }
            }
            prop_assert_eq!(sum, bytes);
        }
        let whole = Request::Contiguous { offset, length: request.memory() };
        for slot in model::slots(map.grid()) {
            let mut pieces = map.pieces(&whole, slot).unwrap();
            let mut stretched = Vec::new();
            while let Some(stretch) = pieces.next_strided() {
                stretched.extend(stretch.pieces());
            }
            prop_assert!(map.pieces(&whole, slot).unwrap().eq(stretched));
        }
    }

    #[test]
    fn memory_places_match_the_model(pattern in pattern(), spare in 0..100u64) {
        let (start, runs) = placed(&pattern, spare);
        let bytes: Vec<usize> = runs.into_iter().flatten().collect();
        let request = Request::new(ViewOffset(7), &Pattern::bytes(bytes.len() as u64)).unwrap();
        let memory = Memory::new(start.0, &pattern, &request).unwrap();
        prop_assert_eq!(memory.end(), bytes.iter().max().map_or(start.0, |last| *last as u64 + 1));
        for (number, at) in bytes.iter().enumerate() {
            let (place, row) = memory.place(number as u64);
            prop_assert_eq!(place, *at as u64);
            prop_assert!(row >= 1);
            let last = number + row as usize - 1;
            prop_assert_eq!(bytes.get(last), Some(&(at + row as usize - 1)));
        }
    }

    #[test]
    fn overlap_is_found_exactly_when_a_byte_is_touched_twice(pattern in pattern()) {
        let (offset, runs) = placed(&pattern, 0);
        let mut seen = HashSet::new();
        let twice = runs.iter().flatten().any(|at| !seen.insert(*at));
        let request = Request::new(offset, &pattern).unwrap();
        match request.check_disjoint() {
            Ok(()) => prop_assert!(!twice),
            Err(PatternError::Overlap { at }) => {
                let times = runs.iter().flatten().filter(|byte| **byte == at as usize).count();
                prop_assert!(times > 1);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
