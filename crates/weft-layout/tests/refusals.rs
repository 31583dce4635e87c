//! Illegal arguments are refused with the values that prove it; arguments exactly at a limit are
//! accepted.

use weft_layout::{
    BSU_MAX, CELLS_MAX, CHUNK_MAX, CHUNK_MIN, CellIndex, CellOffset, Grid, Layout, LayoutError,
    LayoutSpec, Location, Map, MapError, OFFSET_MAX, Order, Partition, Pattern, PatternError,
    Request, SERVERS_MAX, ServerId, ServerSlot, Storage, Subfile, View, ViewError, ViewOffset,
};

fn subfile(vbs: u64, vn: u64, hbs: u64, hn: u64, index: u64) -> View {
    View::Subfile(Subfile {
        vbs,
        vn,
        hbs,
        hn,
        index,
        order: Order::Default,
    })
}

fn spec() -> LayoutSpec {
    LayoutSpec {
        cells: 3,
        bsu: 1,
        chunk: CHUNK_MIN,
        servers: vec![ServerId(9), ServerId(4)],
        storage: Storage::Plain,
    }
}

#[test]
fn a_cell_is_on_the_server_of_its_number_modulo_the_servers() {
    let layout = Layout::new(spec()).unwrap();
    let servers: Vec<u32> = (0..3)
        .map(|cell| layout.server_of(CellIndex(cell)).0)
        .collect();
    assert_eq!(servers, [9, 4, 9]);
    let on_first: Vec<CellIndex> = layout.grid().cells_on(ServerSlot(0)).collect();
    assert_eq!(on_first, [CellIndex(0), CellIndex(2)]);
    assert_eq!(layout.grid().cells_on(ServerSlot(2)).count(), 0);
}

#[test]
fn an_illegal_layout_is_refused_with_its_value() {
    let refused = |change: fn(&mut LayoutSpec)| {
        let mut spec = spec();
        change(&mut spec);
        Layout::new(spec).unwrap_err()
    };
    assert_eq!(refused(|s| s.cells = 0), LayoutError::Cells { cells: 0 });
    assert_eq!(
        refused(|s| s.cells = CELLS_MAX + 1),
        LayoutError::Cells {
            cells: CELLS_MAX + 1
        }
    );
    assert_eq!(refused(|s| s.bsu = 0), LayoutError::Bsu { bsu: 0 });
    assert_eq!(
        refused(|s| s.bsu = BSU_MAX + 1),
        LayoutError::Bsu { bsu: BSU_MAX + 1 }
    );
    assert_eq!(
        refused(|s| s.chunk = 4095),
        LayoutError::Chunk { chunk: 4095 }
    );
    assert_eq!(
        refused(|s| s.chunk = CHUNK_MAX + 1),
        LayoutError::Chunk {
            chunk: CHUNK_MAX + 1
        }
    );
    assert_eq!(
        refused(|s| s.servers.clear()),
        LayoutError::Servers { servers: 0 }
    );
    assert_eq!(
        refused(|s| s.servers = (0..=SERVERS_MAX as u32).map(ServerId).collect()),
        LayoutError::Servers {
            servers: SERVERS_MAX as u32 + 1
        }
    );
    assert_eq!(
        refused(|s| s.servers = vec![ServerId(4), ServerId(7), ServerId(4)]),
        LayoutError::DuplicateServer {
            server: ServerId(4)
        }
    );
}

#[test]
fn an_illegal_view_is_refused_with_its_values() {
    let grid = Grid::new(4, 10, 2).unwrap();
    let refused = |view| Map::new(grid, view).unwrap_err();
    let partition = |offset, group, stride| {
        View::Partition(Partition {
            offset,
            group,
            stride,
        })
    };
    let max = u64::MAX;
    assert_eq!(
        refused(subfile(0, 1, 1, 1, 0)),
        ViewError::Zero { parameter: "vbs" }
    );
    assert_eq!(
        refused(subfile(1, 1, 1, 0, 0)),
        ViewError::Zero { parameter: "hn" }
    );
    assert_eq!(
        refused(subfile(1, 2, 1, 3, 6)),
        ViewError::Index {
            index: 6,
            hn: 3,
            vn: 2
        }
    );
    assert_eq!(
        refused(subfile(1, 1, max, 2, 0)),
        ViewError::TooWide { hbs: max, hn: 2 }
    );
    assert_eq!(
        refused(subfile(1 << 60, 1, 1, 1, 0)),
        ViewError::TooLong {
            vbs: 1 << 60,
            vn: 1,
            bsu: 10
        }
    );
    assert_eq!(
        refused(subfile(1 << 31, 1, 1 << 31, 1, 0)),
        ViewError::TooLarge {
            width: 1 << 31,
            vbs: 1 << 31,
            bsu: 10
        }
    );
    assert_eq!(
        refused(partition(0, 0, 1)),
        ViewError::Zero { parameter: "group" }
    );
    assert_eq!(
        refused(partition(0, 3, 2)),
        ViewError::GroupPastStride {
            group: 3,
            stride: 2
        }
    );
    assert_eq!(
        refused(partition(max, 1, 1)),
        ViewError::PastLimit {
            parameter: "offset",
            value: max
        }
    );
    assert_eq!(
        refused(View::Cell(CellIndex(4))),
        ViewError::NoSuchCell {
            cell: CellIndex(4),
            cells: 4
        }
    );
}

#[test]
fn places_that_do_not_exist_are_refused() {
    let grid = Grid::new(4, 10, 2).unwrap();
    assert_eq!(
        grid.canonical(CellIndex(4), CellOffset(0)),
        Err(MapError::NoSuchCell {
            cell: CellIndex(4),
            cells: 4
        })
    );
    let far = OFFSET_MAX - 1;
    assert_eq!(
        grid.canonical(CellIndex(0), CellOffset(far)),
        Err(MapError::PastLimit {
            offset: far,
            length: 1
        })
    );
    let map = Map::new(grid, View::canonical()).unwrap();
    let one_byte = Request::Contiguous {
        offset: ViewOffset(0),
        length: 1,
    };
    let no_slot = map.pieces(&one_byte, ServerSlot(2)).unwrap_err();
    assert_eq!(
        no_slot,
        MapError::NoSuchSlot {
            slot: ServerSlot(2),
            servers: 2
        }
    );
}

#[test]
fn an_empty_request_touches_no_server() {
    let map = Map::new(Grid::new(4, 10, 2).unwrap(), View::canonical()).unwrap();
    let nothing = Request::Contiguous {
        offset: ViewOffset(OFFSET_MAX),
        length: 0,
    };
    assert_eq!(map.slots(&nothing), Ok(vec![]));
}

#[test]
fn the_limit_inside_a_cell_is_exact_to_the_byte() {
    // Every fourth BSU of 10 bytes in each of two cells. 2⁶³ − 1 is 7 modulo 40: in the last row
    // the first seven bytes of a cell's BSU are below the limit, the other three are not.
    let map = Map::new(Grid::new(2, 10, 1).unwrap(), subfile(1, 4, 1, 1, 0)).unwrap();
    let row = OFFSET_MAX / 40 * 20;
    let legal = |from: u64, to: u64| {
        let request = Request::Contiguous {
            offset: ViewOffset(row + from),
            length: to - from,
        };
        map.pieces(&request, ServerSlot(0)).is_ok()
    };
    assert!(legal(0, 7) && legal(10, 17));
    assert!(!legal(0, 8) && !legal(17, 18) && !legal(7, 8));
    // The last byte is below the limit in its cell, but a byte before it is past the limit in
    // another.
    assert!(!legal(9, 11) && !legal(0, 11));
    let last = ViewOffset(row + 6);
    assert_eq!(
        map.locate(last),
        Ok(Location::Data(CellIndex(0), CellOffset(OFFSET_MAX - 1)))
    );
    assert_eq!(
        map.invert(CellIndex(0), CellOffset(OFFSET_MAX - 1)),
        Some(last)
    );
    assert_eq!(map.invert(CellIndex(0), CellOffset(OFFSET_MAX)), None);
}

#[test]
fn a_partition_ends_where_its_file_location_passes_the_limit() {
    let grid = Grid::new(4, 7, 2).unwrap();
    // A partition with gaps, one of a single cell, and one without gaps.
    for (offset, group, stride) in [(14, 6, 28), (14, 7, 28), (14, 7, 7)] {
        let partition = Partition {
            offset,
            group,
            stride,
        };
        let map = Map::new(grid, View::Partition(partition)).unwrap();
        let about = (OFFSET_MAX - offset) / stride * group;
        for view in about - 20..about + 20 {
            let file =
                u128::from(view / group) * u128::from(stride) + u128::from(offset + view % group);
            let legal = file < u128::from(OFFSET_MAX);
            assert_eq!(
                map.locate(ViewOffset(view)).is_ok(),
                legal,
                "{partition:?} {view}"
            );
            let request = Request::Contiguous {
                offset: ViewOffset(view),
                length: 1,
            };
            assert_eq!(map.slots(&request).is_ok(), legal, "{partition:?} {view}");
        }
    }
}

/// A request of one byte, repeated in `levels` levels whose strides leave no overlap.
fn nested(levels: u32) -> Result<Request, PatternError> {
    let mut pattern = Pattern::bytes(1);
    for level in 0..levels {
        pattern = pattern.every(3_i64.pow(level + 1)).times(2);
    }
    Request::new(ViewOffset(0), &pattern)
}

#[test]
fn patterns_are_nested_at_most_to_the_documented_depth() {
    assert!(nested(15).unwrap().check_disjoint().is_ok());
    assert_eq!(nested(16), Err(PatternError::TooDeep));
}

#[test]
fn patterns_have_at_most_the_documented_number_of_nodes() {
    // The sequence counts as a node.
    let of = |members: i64| {
        let members = (0..members).map(|n| (n * 10, Pattern::bytes(1)));
        Request::new(ViewOffset(0), &Pattern::Sequence(members.collect()))
    };
    assert!(of(4095).is_ok());
    assert_eq!(of(4096), Err(PatternError::TooManyNodes));
    let list = (0..100_000).map(|n| (n * 10, 1)).collect();
    assert!(Request::new(ViewOffset(0), &Pattern::List(list)).is_ok());
}

#[test]
fn a_pattern_too_irregular_to_compare_is_refused_with_the_reason() {
    // Distances of 7 among distances of 10: only a comparison of all runs finds an overlap.
    let of = |times: u64| {
        let pattern = Pattern::bytes(1)
            .every(10)
            .times(times)
            .every(7)
            .times(times);
        Request::new(ViewOffset(0), &pattern)
            .unwrap()
            .check_disjoint()
    };
    assert!(matches!(of(8), Ok(())), "{:?}", of(8));
    assert!(
        matches!(of(11), Err(PatternError::Overlap { at: 70 })),
        "{:?}",
        of(11)
    );
    let refused = of(3000);
    assert!(
        matches!(
            refused,
            Err(PatternError::TooIrregular {
                most: 4_194_304,
                ..
            })
        ),
        "{refused:?}"
    );
}
