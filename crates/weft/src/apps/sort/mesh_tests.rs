//! The mesh on a model of the file: cells in memory, reached only through the maps of the views.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_layout::{CellIndex, Grid, Map, Request, ServerSlot, View, ViewOffset};

use super::mesh::{Mesh, MeshError, Phase, descending};
use super::window;
use crate::apps::record::RecordOrder;

/// Cells in memory.
struct Model {
    grid: Grid,
    cells: Vec<Vec<u8>>,
}

impl Model {
    fn new(mesh: &Mesh) -> Model {
        Model {
            grid: Grid::new(mesh.cells, mesh.record, 1).unwrap(),
            cells: vec![vec![0xAA; mesh.cell_bytes() as usize]; mesh.cells as usize],
        }
    }

    fn each_piece(
        &mut self,
        view: View,
        offset: u64,
        length: u64,
        mut f: impl FnMut(&mut [u8], usize),
    ) {
        let request = Request::Contiguous {
            offset: ViewOffset(offset),
            length,
        };
        let map = Map::new(self.grid, view).unwrap();
        let mut moved = 0;
        for piece in map.pieces(&request, ServerSlot(0)).unwrap() {
            let cell = &mut self.cells[piece.cell.0 as usize];
            let at = piece.offset.0 as usize;
            let end = at + piece.length as usize;
            assert!(
                end <= cell.len(),
                "a request reaches past the end of a cell"
            );
            f(&mut cell[at..end], piece.memory as usize);
            moved += piece.length;
        }
        assert_eq!(moved, length, "a request touches ghosts");
    }

    fn read(&mut self, view: View, offset: u64, length: u64) -> Vec<u8> {
        let mut buffer = vec![0; length as usize];
        self.each_piece(view, offset, length, |cell, at| {
            buffer[at..at + cell.len()].copy_from_slice(cell);
        });
        buffer
    }

    fn write(&mut self, view: View, offset: u64, data: &[u8]) {
        self.each_piece(view, offset, data.len() as u64, |cell, at| {
            cell.copy_from_slice(&data[at..at + cell.len()]);
        });
    }
}

fn collect(run: impl FnOnce(&mut dyn FnMut(Vec<u8>) -> bool)) -> Vec<u8> {
    let mut all = Vec::new();
    run(&mut |piece| {
        all.extend(piece);
        true
    });
    all
}

/// The whole algorithm, one worker after the other.
fn sort_on_model(mesh: &Mesh, order: RecordOrder, input: &[u8]) -> Vec<u8> {
    let mut file = Model::new(mesh);
    let piece = mesh.request as usize;
    for phase in mesh.phases() {
        for worker in 0..mesh.workers {
            match phase {
                Phase::Load => {
                    for cell in mesh.cells_of(worker) {
                        let own = mesh.records_of(cell);
                        let (from, to) = (own.start * mesh.record, own.end * mesh.record);
                        let mut records = input[from as usize..to as usize].to_vec();
                        records.resize(mesh.cell_bytes() as usize, 0xFF);
                        let down = descending(0, cell);
                        let sorted = collect(|e| window::sort(order, &records, down, piece, e));
                        file.write(View::Cell(CellIndex(cell)), 0, &sorted);
                    }
                }
                Phase::Rows(round) => {
                    for (group, offset, length) in mesh.row_requests(round, worker) {
                        let view = mesh.rows_view(round, group, worker);
                        let mut rows = file.read(view, offset, length);
                        let down = descending(0, group);
                        for block in rows.chunks_exact_mut(mesh.block_bytes(round) as usize) {
                            window::sort_rows(order, block, 1 << round, down);
                        }
                        file.write(view, offset, &rows);
                    }
                }
                Phase::Cells(round) => {
                    for cell in mesh.cells_of(worker) {
                        let records = file.read(View::Cell(CellIndex(cell)), 0, mesh.cell_bytes());
                        let down = descending(round, cell);
                        let sorted = collect(|e| window::merge(order, &records, down, piece, e));
                        file.write(View::Cell(CellIndex(cell)), 0, &sorted);
                    }
                }
                Phase::Verify => {}
            }
        }
    }
    let mut output = file.cells.concat();
    let padding = output.split_off((mesh.records * mesh.record) as usize);
    assert!(padding.iter().all(|b| *b == 0xFF), "padding sorts last");
    output
}

fn sorted(order: RecordOrder, input: &[u8]) -> Vec<u8> {
    let mut list: Vec<&[u8]> = input.chunks(order.size()).collect();
    list.sort_by(|a, b| order.compare(a, b));
    list.concat()
}

#[test]
fn small_meshes_sort_any_input() {
    let mut rng = SmallRng::seed_from_u64(7);
    for round in 0..300 {
        let record = rng.random_range(1..12);
        let records = rng.random_range(0..200);
        let workers = rng.random_range(1..7);
        let memory = rng.random_range(1..8) * (record + 16) * 40;
        let Ok(mesh) = Mesh::new(records, record, workers, memory) else {
            continue;
        };
        let from = rng.random_range(0..record);
        let order = RecordOrder::parse(record, Some(&format!("{from}.."))).unwrap();
        let letters: u8 = if round % 3 == 0 { 2 } else { 255 };
        let mut input: Vec<u8> = (0..records * record)
            .map(|_| rng.random_range(0..letters).wrapping_sub(1))
            .collect();
        if round % 5 == 0 {
            let half = input.len() / 2;
            input[half..].fill(0xFF);
        }
        let output = sort_on_model(&mesh, order, &input);
        assert_eq!(output, sorted(order, &input), "{mesh:?}");
    }
}

#[test]
fn meshes_of_up_to_16_cells_sort_every_sequence_of_twelve_zeros_and_ones() {
    let order = RecordOrder::parse(1, None).unwrap();
    for cells in [1, 2, 4, 8, 16_u32] {
        let mut mesh = Mesh::new(12, 1, 1, 1 << 20).unwrap();
        mesh.cells = cells;
        mesh.depth = 12_u64.div_ceil(u64::from(cells));
        mesh.block = 1;
        for bits in 0..1_u64 << 12 {
            let input: Vec<u8> = (0..12).map(|i| (bits >> i & 1) as u8).collect();
            assert_eq!(sort_on_model(&mesh, order, &input), sorted(order, &input));
        }
    }
}

#[test]
fn a_mesh_stays_within_its_memory() {
    for (records, record, workers) in [
        (0, 1, 1),
        (1, 8, 4),
        (1000, 100, 3),
        (1 << 24, 64, 4),
        (12_345_678, 17, 2),
    ] {
        for memory in [1 << 20, 16 << 20, 1 << 30_u64] {
            let Ok(mesh) = Mesh::new(records, record, workers, memory) else {
                continue;
            };
            assert!(mesh.cells.is_power_of_two() && mesh.cells >= workers);
            assert!(mesh.depth * u64::from(mesh.cells) >= records);
            assert_eq!(mesh.depth % mesh.block, 0);
            assert!(mesh.depth * (record + 16) <= memory);
            let largest = (0..workers)
                .flat_map(|w| mesh.row_requests(mesh.rounds(), w))
                .map(|(_, _, bytes)| bytes)
                .max();
            assert!(largest.unwrap_or(0) * 3 <= memory.max(record * u64::from(mesh.cells)));
        }
    }
}

#[test]
fn too_little_memory_is_refused_with_a_sufficient_amount() {
    let Err(MeshError::Memory { needed, .. }) = Mesh::new(1 << 30, 1024, 4, 64 << 10) else {
        panic!("a mesh for a tebibyte in 64 KiB");
    };
    assert!(Mesh::new(1 << 30, 1024, 4, needed).is_ok());
    assert_eq!(
        Mesh::new(1, 1, 0, 1 << 20),
        Err(MeshError::Workers { workers: 0 })
    );
}
