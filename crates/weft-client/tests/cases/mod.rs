//! Random views, requests and memory, and a byte-by-byte model of a file.

use std::collections::{BTreeMap, HashSet};

use rand::Rng;
use rand::rngs::SmallRng;
use weft_client::{Access, File, NewLayout, OpenView, Transfer, Volume};
use weft_layout::{CellIndex, Order, Partition, Pattern, Subfile, View};

use crate::model::Byte;
use crate::model::patterns::{placed, places};

pub async fn create(volume: &Volume, path: &str, cells: u32, bsu: u64) -> File {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(bsu),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

pub fn any_view(rng: &mut SmallRng, cells: u32) -> View {
    match rng.random_range(0..5) {
        0 => View::canonical(),
        1 => View::Cell(CellIndex(rng.random_range(0..cells))),
        2 => {
            let (group, gap) = (rng.random_range(1..40), rng.random_range(0..60));
            View::Partition(Partition {
                offset: rng.random_range(0..80),
                group,
                stride: group + gap,
            })
        }
        _ => {
            let (vn, hn) = (rng.random_range(1..3), rng.random_range(1..4));
            View::Subfile(Subfile {
                vbs: rng.random_range(1..4),
                vn,
                hbs: rng.random_range(1..4),
                hn,
                index: rng.random_range(0..vn * hn),
                order: [Order::Default, Order::Row, Order::Column][rng.random_range(0..3)],
            })
        }
    }
}

pub fn any_pattern(rng: &mut SmallRng, depth: u32) -> Pattern {
    match rng.random_range(0..if depth == 0 { 3 } else { 6 }) {
        0 => Pattern::bytes(rng.random_range(0..40)),
        1 => Pattern::list(
            (0..rng.random_range(0..10))
                .map(|_| (rng.random_range(-200..400), rng.random_range(0..20))),
        ),
        2 => Pattern::bytes(rng.random_range(1..12))
            .every(rng.random_range(-50..70))
            .times(rng.random_range(1..40)),
        3 | 4 => any_pattern(rng, depth - 1)
            .every(rng.random_range(-300..300))
            .times(rng.random_range(0..5)),
        _ => Pattern::Sequence(
            (0..rng.random_range(1..4))
                .map(|_| (rng.random_range(-200..200), any_pattern(rng, depth - 1)))
                .collect(),
        ),
    }
}

/// A pattern of `length` bytes in memory without overlap.
pub fn any_memory(rng: &mut SmallRng, length: u64) -> Pattern {
    if length == 0 {
        return Pattern::bytes(0);
    }
    let mut piece = rng.random_range(1..=length.min(9));
    while !length.is_multiple_of(piece) {
        piece -= 1;
    }
    let times = length / piece;
    match rng.random_range(0..4) {
        0 => Pattern::bytes(length),
        1 => Pattern::bytes(piece)
            .every(piece.cast_signed() + rng.random_range(0..9))
            .times(times),
        2 => Pattern::bytes(piece)
            .every(-piece.cast_signed() - rng.random_range(0..9))
            .times(times),
        _ => {
            let gap = rng.random_range(0..5);
            Pattern::list(
                (0..times.cast_signed())
                    .rev()
                    .map(|i| (i * (piece.cast_signed() + gap), piece)),
            )
        }
    }
}

/// The expected content of a file, cell by cell.
#[derive(Default)]
pub struct Content {
    pub cells: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    pub fn put(&mut self, byte: Byte, value: u8) {
        let cell = self.cells.entry(byte.cell).or_default();
        if cell.len() <= byte.offset as usize {
            cell.resize(byte.offset as usize + 1, 0);
        }
        cell[byte.offset as usize] = value;
    }

    pub fn get(&self, byte: Byte) -> Option<u8> {
        self.cells
            .get(&byte.cell)?
            .get(byte.offset as usize)
            .copied()
    }
}

pub struct Case {
    pub transfer: Transfer,
    pub places: Vec<Option<Byte>>,
    /// The place in memory of each byte of the transfer.
    pub memory: Vec<usize>,
    pub room: usize,
    pub overlaps: bool,
}

pub fn any_case(rng: &mut SmallRng, view: &OpenView) -> Case {
    let pattern = any_pattern(rng, 2);
    case_of(rng, view, pattern)
}

pub fn case_of(rng: &mut SmallRng, view: &OpenView, pattern: Pattern) -> Case {
    let (at, touched) = placed(&pattern, rng.random_range(0..100));
    let places = places(view.map(), &touched);
    let in_memory = any_memory(rng, places.len() as u64);
    let (start, memory) = placed(&in_memory, rng.random_range(0..9));
    let memory: Vec<usize> = memory.into_iter().flatten().collect();
    let mut seen = HashSet::new();
    Case {
        transfer: Transfer::of(pattern)
            .at(at)
            .in_memory_from(start.0, in_memory),
        places,
        room: memory
            .iter()
            .max()
            .map_or(start.0 as usize, |last| last + 1)
            + rng.random_range(0..5),
        memory,
        overlaps: touched.iter().flatten().any(|at| !seen.insert(*at)),
    }
}
