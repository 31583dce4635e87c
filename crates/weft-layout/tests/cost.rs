//! A server pays for its own pieces only, and errors name what was asked for.

use weft_layout::{
    BSU_MAX, CELLS_MAX, CHUNK_MAX, CHUNK_MIN, CellIndex, CellOffset, Grid, Layout, LayoutError,
    LayoutSpec, Map, MapError, OFFSET_MAX, Order, Partition, Piece, Request, SERVERS_MAX, ServerId,
    ServerSlot, Storage, Subfile, View, ViewError, ViewOffset,
};

fn everything(length: u64) -> Request {
    Request::Contiguous {
        offset: ViewOffset(0),
        length,
    }
}

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

// The requests below have from 2⁴⁰ to 2⁶⁰ pieces in all: a walk would not come back.

#[test]
fn a_server_without_pieces_says_so_at_once() {
    let grid = Grid::new(CELLS_MAX, 1, 4096).unwrap();
    let every_4096th = Partition {
        offset: 5,
        group: 1,
        stride: 4096,
    };
    let map = Map::new(grid, View::Partition(every_4096th)).unwrap();
    assert_eq!(
        map.pieces(&everything(1 << 50), ServerSlot(6))
            .unwrap()
            .next(),
        None
    );
    assert_eq!(map.slots(&everything(1 << 50)).unwrap(), [ServerSlot(5)]);

    // An odd number of cells: own BSUs are not evenly spaced.
    let grid = Grid::new(1000, 1, 300).unwrap();
    let every_row = Partition {
        offset: 7,
        group: 2,
        stride: 1000,
    };
    let map = Map::new(grid, View::Partition(every_row)).unwrap();
    assert_eq!(
        map.slots(&everything(1 << 50)).unwrap(),
        [ServerSlot(7), ServerSlot(8)]
    );

    // Every second cell from the first, on an even number of servers.
    let map = Map::new(
        Grid::new(CELLS_MAX, 1, 4096).unwrap(),
        subfile(1, 1, 1, 2, 0),
    )
    .unwrap();
    assert_eq!(
        map.pieces(&everything(1 << 60), ServerSlot(7))
            .unwrap()
            .next(),
        None
    );
}

#[test]
fn a_far_piece_is_found_without_walking_to_it() {
    let grid = Grid::new(CELLS_MAX, 1 << 20, 4096).unwrap();
    // A step one byte short of a row: group after group falls one byte earlier in the row.
    let stride = (u64::from(CELLS_MAX) << 20) - 1;
    let map = Map::new(
        grid,
        View::Partition(Partition {
            offset: 0,
            group: 1,
            stride,
        }),
    )
    .unwrap();
    let piece = map
        .pieces(&everything(1 << 26), ServerSlot(4094))
        .unwrap()
        .next()
        .unwrap();
    // The last cell of that slot is the last but one: a cell of 2²⁰ bytes lies between.
    assert_eq!(piece.cell, CellIndex(CELLS_MAX - 2));
    assert_eq!(piece.memory, (1 << 20) + 1);

    // Two cells in 4097 on 4096 servers: the own one drifts by a cell from block to block.
    let map = Map::new(
        Grid::new(CELLS_MAX, 1, 4096).unwrap(),
        subfile(1, 1, 2, 2048, 0),
    )
    .unwrap();
    let first = map
        .pieces(&everything(1 << 60), ServerSlot(1))
        .unwrap()
        .next()
        .unwrap();
    assert_eq!((first.cell, first.memory), (CellIndex(1), 1));
}

#[test]
fn column_major_order_counts_earlier_cells_without_visiting_them() {
    let grid = Grid::new(CELLS_MAX, 3, 4096).unwrap();
    let by_column = Subfile {
        vbs: 2,
        vn: 1,
        hbs: u64::from(CELLS_MAX),
        hn: 1,
        index: 0,
        order: Order::Column,
    };
    let map = Map::new(grid, View::Subfile(by_column)).unwrap();
    let rows = 1 << 40;
    let length = rows * 6 * u64::from(CELLS_MAX);
    let pieces: Vec<Piece> = map
        .pieces(&everything(length), ServerSlot(4095))
        .unwrap()
        .collect();
    assert_eq!(pieces.len(), 16);
    assert_eq!(
        pieces[15],
        Piece {
            cell: CellIndex(CELLS_MAX - 1),
            offset: CellOffset(0),
            length: rows * 6,
            memory: length - rows * 6
        }
    );
}

#[test]
fn what_meets_in_a_cell_and_in_memory_is_one_piece() {
    let one_cell = Grid::new(1, 7, 1).unwrap();
    let cells = Grid::new(4, 7, 2).unwrap();
    let third_cell = Partition {
        offset: 2 * 7,
        group: 7,
        stride: 4 * 7,
    };
    for (grid, view) in [
        (one_cell, View::canonical()),
        (
            one_cell,
            View::Partition(Partition {
                offset: 14,
                group: 3,
                stride: 3,
            }),
        ),
        (one_cell, subfile(2, 1, 1, 1, 0)),
        (cells, View::Cell(CellIndex(2))),
        (cells, subfile(1, 1, 1, 4, 2)),
        (cells, View::Partition(third_cell)),
    ] {
        let map = Map::new(grid, view).unwrap();
        let pieces = map.pieces(&everything(1 << 50), ServerSlot(0)).unwrap();
        assert_eq!(
            pieces.map(|piece| piece.length).collect::<Vec<_>>(),
            [1 << 50],
            "{view:?}"
        );
    }
    // A block's BSUs in one cell are one piece, here of three.
    let map = Map::new(cells, subfile(3, 1, 1, 1, 0)).unwrap();
    let pieces = map.pieces(&everything(4 * 21), ServerSlot(0)).unwrap();
    assert_eq!(
        pieces.map(|piece| piece.length).collect::<Vec<_>>(),
        [21, 21]
    );
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
fn a_cell_lives_on_its_number_modulo_the_servers() {
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
    let no_slot = map.pieces(&everything(1), ServerSlot(2)).unwrap_err();
    assert_eq!(
        no_slot,
        MapError::NoSuchSlot {
            slot: ServerSlot(2),
            servers: 2
        }
    );
}

#[test]
fn a_request_of_nothing_touches_no_server() {
    let map = Map::new(Grid::new(4, 10, 2).unwrap(), View::canonical()).unwrap();
    let nothing = Request::Contiguous {
        offset: ViewOffset(OFFSET_MAX),
        length: 0,
    };
    assert_eq!(map.slots(&nothing), Ok(vec![]));
}
