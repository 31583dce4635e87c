//! Conversion between messages and the checked types of `weft-layout`: legal values survive it in
//! both directions, and illegal ones are refused.

use proptest::prelude::*;
use weft_layout::{
    CellIndex, Grid, Layout, LayoutSpec, Map, Order, Partition, Request, ServerId, Storage,
    Subfile, View, ViewOffset,
};
use weft_proto::io::{Access, Pattern};
use weft_proto::prost::Message;
use weft_proto::{ConvertError, io, meta};

/// Encodes and decodes a message, as on the wire.
fn wire<M: Message + Default>(message: &M) -> M {
    M::decode(&message.encode_to_vec()[..]).unwrap()
}

fn grid() -> Grid {
    Grid::new(6, 4096, 4).unwrap()
}

fn access() -> Access {
    let request = Request::Contiguous {
        offset: ViewOffset(5),
        length: 100,
    };
    Access {
        file: 1,
        grid: io::Grid::from(&grid()),
        view: io::View::from(&View::canonical()),
        pattern: Pattern::from_request(&request, true).unwrap(),
        slot: 1,
        fork: "data".to_owned(),
        epoch: 1,
        checkpoint: 0,
    }
}

fn patterns() -> impl Strategy<Value = weft_layout::Pattern> {
    use weft_layout::Pattern;
    let leaf = prop_oneof![
        (1..50u64).prop_map(Pattern::bytes),
        prop::collection::vec((-90..900i64, 0..9u64), 0..20).prop_map(Pattern::list),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            (inner.clone(), -900..900i64, 0..9u64)
                .prop_map(|(body, by, n)| body.every(by).times(n)),
            prop::collection::vec((-90..900i64, inner), 0..3).prop_map(Pattern::Sequence),
        ]
    })
}

proptest! {
    #[test]
    fn a_shaped_request_survives_encoding(pattern in patterns(), join in any::<bool>()) {
        let request = Request::new(ViewOffset(1 << 40), &pattern).unwrap();
        let (offset, parts) = request.to_nodes(join);
        let sent = Pattern::from_request(&request, join).unwrap();
        let arrived = Request::try_from(&wire(&sent)).unwrap();
        prop_assert_eq!(arrived, Request::from_nodes(offset, &parts).unwrap());
    }

    #[test]
    fn no_parts_cause_a_panic(
        parts in prop::collection::vec((any::<i64>(), 0..5u8, any::<i64>(), any::<u64>()), 0..20),
        (offset, small) in any::<(u64, bool)>(),
    ) {
        let number = |n: u64| if small { n % 5 } else { n };
        let parts = parts.into_iter().map(|(at, kind, signed, unsigned)| {
            let kind = match kind {
                0 => None,
                1 => Some(io::PartKind::Bytes(number(unsigned))),
                2 => Some(io::PartKind::Repeat(io::PartRepeat { stride: signed, times: number(unsigned) })),
                3 => Some(io::PartKind::Sequence(number(unsigned) as u32)),
                _ => Some(io::PartKind::Runs(io::Runs {
                    gaps: vec![signed, at],
                    lengths: vec![number(unsigned)],
                    times: vec![number(unsigned); 2],
                    strides: vec![signed; 2],
                })),
            };
            io::Part { at: if small { at % 100 } else { at }, kind }
        });
        let pattern = Pattern { kind: Some(io::PatternKind::Shaped(io::Shaped { offset, parts: parts.collect() })) };
        if let Ok(request) = Request::try_from(&pattern) {
            let map = Map::new(grid(), View::canonical()).unwrap();
            if let Ok(pieces) = map.pieces(&request, weft_layout::ServerSlot(1)) {
                prop_assert!(pieces.take(100).all(|piece| piece.length > 0));
            }
        }
    }
}

#[test]
fn a_list_whose_columns_differ_or_that_is_too_long_is_refused() {
    let refused = |runs: io::Runs| {
        let part = io::Part {
            at: 0,
            kind: Some(io::PartKind::Runs(runs)),
        };
        let shaped = io::Shaped {
            offset: 0,
            parts: vec![part],
        };
        let pattern = Pattern {
            kind: Some(io::PatternKind::Shaped(shaped)),
        };
        matches!(Request::try_from(&pattern), Err(ConvertError::List { .. }))
    };
    let runs = |gaps: usize, lengths: usize, times: usize, strides: usize| io::Runs {
        gaps: vec![1; gaps],
        lengths: vec![1; lengths],
        times: vec![1; times],
        strides: vec![1; strides],
    };
    assert!(!refused(runs(5, 1, 0, 0)) && !refused(runs(5, 5, 5, 5)) && !refused(runs(0, 0, 0, 0)));
    assert!(refused(runs(5, 2, 0, 0)) && refused(runs(5, 0, 0, 0)));
    assert!(refused(runs(5, 5, 5, 0)) && refused(runs(5, 5, 2, 2)));
    assert!(refused(runs(weft_proto::limits::LIST_MAX + 1, 1, 0, 0)));
}

prop_compose! {
    fn subfiles()(
        vbs in 1u64..9, vn in 1u64..9, hbs in 1u64..9, hn in 1u64..9, index: proptest::sample::Index,
        order in proptest::sample::select(vec![Order::Default, Order::Row, Order::Column]),
    ) -> View {
        let index = index.index((hn * vn) as usize) as u64;
        View::Subfile(Subfile { vbs, vn, hbs, hn, index, order })
    }
}

prop_compose! {
    fn partitions()(offset in 0u64..1 << 40, group in 1u64..1 << 30, gap in 0u64..1 << 30) -> View {
        View::Partition(Partition { offset, group, stride: group + gap })
    }
}

fn views() -> impl Strategy<Value = View> {
    prop_oneof![
        subfiles(),
        partitions(),
        (0u32..6).prop_map(|cell| View::Cell(CellIndex(cell)))
    ]
}

proptest! {
    #[test]
    fn legal_layouts_survive_encoding(
        cells in 1u32..65_536, bsu in 1u64..1 << 40, chunk in 4096u32..16 << 20, first: u32,
        servers in 1u32..50, addressed: bool,
    ) {
        let layout = Layout::new(LayoutSpec {
            cells,
            bsu,
            chunk,
            servers: (0..servers).map(|i| ServerId(first.wrapping_add(i))).collect(),
            storage: if addressed { Storage::Addressed } else { Storage::Plain },
        }).unwrap();
        let message = wire(&meta::Layout::from(&layout));
        prop_assert_eq!(Layout::try_from(&message).unwrap(), layout);
    }

    #[test]
    fn legal_accesses_survive_encoding(view in views(), offset in 0u64..1 << 50, length in 0u64..1 << 40) {
        let request = Request::Contiguous { offset: ViewOffset(offset), length };
        let message = wire(&Access {
            view: io::View::from(&view),
            pattern: Pattern::from_request(&request, true).unwrap(),
            ..access()
        });
        let (map, found) = message.checked().unwrap();
        prop_assert_eq!(map, Map::new(grid(), view).unwrap());
        prop_assert_eq!(found, request);
        prop_assert_eq!(View::try_from(&message.view).unwrap(), view);
    }

    /// An accepted message has a grid and a view that `weft-layout` accepts.
    #[test]
    fn numbers_of_any_size_are_legal_or_refused(numbers: [u64; 9], small: bool, kind in 0..4) {
        let n = |i: usize| if small { numbers[i] % 5 } else { numbers[i] >> (numbers[8] % 64) };
        let view = match kind {
            0 => Some(io::ViewKind::Subfile(io::Subfile {
                vbs: n(0), vn: n(1), hbs: n(2), hn: n(3), index: n(4), order: n(5) as u32,
            })),
            1 => Some(io::ViewKind::Partition(io::Partition { offset: n(0), group: n(1), stride: n(2) })),
            2 => Some(io::ViewKind::Cell(n(0) as u32)),
            _ => None,
        };
        let message = wire(&Access {
            grid: io::Grid { cells: n(5) as u32, bsu: n(6), servers: n(7) as u32 },
            view: io::View { kind: view },
            ..access()
        });
        if let Ok((map, _)) = message.checked() {
            prop_assert_eq!(io::Grid::from(map.grid()), message.grid);
        }
    }
}

type Change = fn(&mut meta::Layout);

#[test]
fn illegal_layouts_are_refused_with_their_reason() {
    let legal = meta::Layout {
        cells: 6,
        bsu: 4096,
        chunk: 65_536,
        servers: vec![1, 2],
        storage: 0,
        parity: 0,
    };
    assert!(Layout::try_from(&legal).is_ok());
    let illegal: [(Change, &str); 9] = [
        (|l| l.cells = 0, "0 cells"),
        (|l| l.cells = 65_537, "65537 cells"),
        (|l| l.bsu = 0, "0 bytes"),
        (|l| l.bsu = u64::MAX, "BSU"),
        (|l| l.chunk = 4095, "chunk"),
        (|l| l.chunk = u32::MAX, "chunk"),
        (|l| l.servers.clear(), "0 servers"),
        (
            |l| l.servers = vec![5, 6, 5],
            "server 5 is named more than once",
        ),
        (|l| l.storage = 2, "unknown kind of storage"),
    ];
    for (change, words) in illegal {
        let mut layout = legal.clone();
        change(&mut layout);
        let error = Layout::try_from(&layout).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn illegal_accesses_are_refused_with_their_reason() {
    let subfile = |change: fn(&mut io::Subfile)| {
        let mut s = io::Subfile {
            vbs: 1,
            vn: 2,
            hbs: 1,
            hn: 2,
            index: 0,
            order: 0,
        };
        change(&mut s);
        Some(io::ViewKind::Subfile(s))
    };
    let partition = |offset, group, stride| {
        Some(io::ViewKind::Partition(io::Partition {
            offset,
            group,
            stride,
        }))
    };
    let illegal = [
        (subfile(|s| s.vbs = 0), "vbs is 0"),
        (subfile(|s| s.hn = 0), "hn is 0"),
        (subfile(|s| s.index = 4), "no subfile 4"),
        (subfile(|s| s.hbs = u64::MAX), "too wide"),
        (subfile(|s| s.order = 3), "unknown kind of byte order"),
        (partition(0, 0, 5), "group is 0"),
        (partition(0, 6, 5), "overlaps"),
        (partition(u64::MAX, 1, 5), "offset"),
        (Some(io::ViewKind::Cell(6)), "no cell 6"),
        (None, "unknown kind of view"),
    ];
    for (kind, words) in illegal {
        let message = wire(&Access {
            view: io::View { kind },
            ..access()
        });
        let error = message.checked().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let nothing = wire(&Access {
        pattern: Pattern { kind: None },
        ..access()
    });
    let error = nothing.checked().unwrap_err();
    assert!(matches!(error, ConvertError::Unknown { what: "request" }));
    let zero = wire(&Access {
        grid: io::Grid::default(),
        ..access()
    });
    assert!(matches!(
        zero.checked().unwrap_err(),
        ConvertError::Layout(_)
    ));
    let empty = Access::decode(&[][..]).unwrap();
    assert!(
        empty.checked().is_err(),
        "a message without its fields was accepted"
    );
}
