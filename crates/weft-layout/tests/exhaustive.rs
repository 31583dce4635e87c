//! Exhaustive tests of a small scope: every layout of up to 4 cells, BSU up to 3 and 4 servers,
//! with every small view, compared with the brute-force model.

mod model;

use model::check::{check_places, check_requests};
use model::grid;
use weft_layout::{CellIndex, Grid, Order, Partition, Subfile, View};

fn grids() -> impl Iterator<Item = Grid> {
    (1..=4).flat_map(|cells| {
        (1..=3).flat_map(move |bsu| (1..=4).map(move |servers| grid(cells, bsu, servers).unwrap()))
    })
}

fn subfiles(order: Order) -> impl Iterator<Item = Subfile> {
    (0..81u64).flat_map(move |n| {
        let [vbs, vn, hbs, hn] = [n % 3 + 1, n / 3 % 3 + 1, n / 9 % 3 + 1, n / 27 + 1];
        (0..hn * vn).map(move |index| Subfile {
            vbs,
            vn,
            hbs,
            hn,
            index,
            order,
        })
    })
}

fn check_subfiles(order: Order) {
    for grid in grids() {
        for subfile in subfiles(order) {
            let view = View::Subfile(subfile);
            // Places around the ends of BSUs, of blocks and of rows of blocks, up to the third row.
            let (bsu, run) = (grid.bsu(), grid.bsu() * subfile.vbs);
            let template = subfile.hbs * subfile.hn;
            let band = run * u64::from(grid.cells()).div_ceil(template) * subfile.hbs;
            let ends = [
                0,
                bsu,
                run,
                band - run,
                band,
                band + run,
                2 * band,
                2 * band + bsu,
            ];
            let mut places: Vec<usize> = ends
                .iter()
                .flat_map(|&end| [end, end + 1])
                .map(|place| usize::try_from(place).unwrap())
                .collect();
            places.sort_unstable();
            places.dedup();
            check_places(grid, view);
            check_requests(grid, view, &places);
        }
    }
}

#[test]
fn subfiles_in_default_order_match_the_model() {
    check_subfiles(Order::Default);
}

#[test]
fn subfiles_in_row_major_order_match_the_model() {
    check_subfiles(Order::Row);
}

#[test]
fn subfiles_in_column_major_order_match_the_model() {
    check_subfiles(Order::Column);
}

#[test]
fn the_canonical_order_and_cells_match_the_model() {
    let places: Vec<usize> = (0..=26).collect();
    for grid in grids() {
        let cells = (0..grid.cells()).map(|cell| View::Cell(CellIndex(cell)));
        for view in cells.chain([View::canonical()]) {
            check_places(grid, view);
            check_requests(grid, view, &places);
        }
    }
}

#[test]
fn partitions_match_the_model() {
    let places = [0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 17, 24, 25];
    for grid in grids() {
        for offset in [0, 1, 2, 3, 4, 7] {
            for group in 1..=4 {
                for stride in group..=13 {
                    let view = View::Partition(Partition {
                        offset,
                        group,
                        stride,
                    });
                    check_places(grid, view);
                    check_requests(grid, view, &places);
                }
            }
        }
    }
}

#[test]
fn the_subfiles_of_a_partitioning_cover_the_file_exactly_once() {
    for grid in grids() {
        for subfile in subfiles(Order::Default).filter(|subfile| subfile.index == 0) {
            let maps: Vec<weft_layout::Map> = (0..subfile.hn * subfile.vn)
                .map(|index| Subfile { index, ..subfile })
                .map(|subfile| weft_layout::Map::new(grid, View::Subfile(subfile)).unwrap())
                .collect();
            for cell in (0..grid.cells()).map(CellIndex) {
                for offset in
                    (0..2 * subfile.vbs * subfile.vn * grid.bsu()).map(weft_layout::CellOffset)
                {
                    let holders = maps.iter().filter(|map| map.invert(cell, offset).is_some());
                    assert_eq!(holders.count(), 1, "{grid:?} {subfile:?} {cell} {offset}");
                }
            }
        }
    }
}
