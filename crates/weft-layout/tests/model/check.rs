//! Compares a map with the model.

use weft_layout::{
    CellIndex, CellOffset, Grid, Location, Map, Order, Request, ServerSlot, Subfile, View,
    ViewOffset,
};

use crate::model::{Model, slots};

/// Compares the functions of a map that take no request.
pub fn check_places(grid: Grid, view: View) {
    let map = Map::new(grid, view).unwrap();
    // Column-major order applies only within an access: places are those of the default order.
    let view = match view {
        View::Subfile(Subfile {
            order: Order::Column,
            vbs,
            vn,
            hbs,
            hn,
            index,
        }) => View::Subfile(Subfile {
            order: Order::Default,
            vbs,
            vn,
            hbs,
            hn,
            index,
        }),
        view => view,
    };
    let model = Model::new(&grid, &view, 24);
    for (at, &byte) in model.bytes.iter().enumerate() {
        let place = map.locate(ViewOffset(at as u64)).unwrap();
        if model.is_ghost(byte) {
            assert_eq!(place, Location::Ghost, "{map:?} byte {at}");
        } else {
            let cell = CellIndex(u32::try_from(byte.cell).unwrap());
            let offset = CellOffset(byte.offset);
            assert_eq!(place, Location::Data(cell, offset), "{map:?} byte {at}");
            assert_eq!(
                map.invert(cell, offset),
                Some(ViewOffset(at as u64)),
                "{map:?}"
            );
        }
    }
    for cell in 0..model.cells + 2 {
        let index = CellIndex(u32::try_from(cell).unwrap());
        for length in 0..=model.depth {
            let expected = if cell < model.cells {
                model.extent(cell, length)
            } else {
                0
            };
            assert_eq!(
                map.extent(index, length),
                expected,
                "{map:?} cell {cell} {length}"
            );
        }
        for offset in 0..model.depth {
            let seen = model
                .bytes
                .iter()
                .any(|b| (b.cell, b.offset) == (cell, offset));
            let inverse = map.invert(index, CellOffset(offset));
            assert_eq!(
                inverse.is_some(),
                seen && cell < model.cells,
                "{map:?} {cell} {offset}"
            );
        }
    }
}

/// Compares the pieces and the slots of every request between two of these places.
pub fn check_requests(grid: Grid, view: View, places: &[usize]) {
    let map = Map::new(grid, view).unwrap();
    let model = Model::new(&grid, &view, places.iter().copied().max().unwrap_or(0));
    for &start in places {
        for &end in places.iter().filter(|&&end| end >= start) {
            let expected = model.pieces(start, end);
            let request = Request::Contiguous {
                offset: ViewOffset(start as u64),
                length: (end - start) as u64,
            };
            for slot in slots(&grid) {
                let pieces = map.pieces(&request, slot).unwrap();
                let expected = &expected[slot.0 as usize];
                assert!(
                    pieces.clone().eq(expected.iter().copied()),
                    "{map:?} {request:?} {slot:?}: {:?} instead of {expected:?}",
                    pieces.collect::<Vec<_>>()
                );
            }
            let touched: Vec<ServerSlot> = slots(&grid)
                .filter(|slot| !expected[slot.0 as usize].is_empty())
                .collect();
            assert_eq!(map.slots(&request).unwrap(), touched, "{map:?} {request:?}");
        }
    }
}
