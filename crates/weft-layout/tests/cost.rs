//! The cost of a request on a server depends on its local pieces only, and these are as few as
//! possible.

use weft_layout::{
    CELLS_MAX, CellIndex, CellOffset, Grid, Map, Order, Partition, Piece, Request, ServerSlot,
    Subfile, View, ViewOffset,
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

// The requests below have from 2⁴⁰ to 2⁶⁰ pieces in all: a walk over them would never end.

#[test]
fn a_server_without_pieces_is_recognized_at_once() {
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

    // The number of cells is no multiple of the servers: local BSUs are not evenly spaced.
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

    // Every second cell from the first, on an even number of servers: half of the servers have
    // none.
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
    // A stride one byte short of a row: each group starts one byte earlier in its row.
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
    // The last cell of that slot is the last but one of the file, so one cell of 2²⁰ bytes
    // precedes.
    assert_eq!(piece.cell, CellIndex(CELLS_MAX - 2));
    assert_eq!(piece.memory, (1 << 20) + 1);

    // Two cells in 4097 on 4096 servers: the local one drifts by a cell from block to block.
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
fn bytes_adjacent_in_a_cell_and_in_memory_are_one_piece() {
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
    // The three BSUs of a block in one cell are one piece.
    let map = Map::new(cells, subfile(3, 1, 1, 1, 0)).unwrap();
    let pieces = map.pieces(&everything(4 * 21), ServerSlot(0)).unwrap();
    assert_eq!(
        pieces.map(|piece| piece.length).collect::<Vec<_>>(),
        [21, 21]
    );
}
