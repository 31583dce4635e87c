//! A brute-force model of views: it walks BSUs one at a time and records each byte.
//!
//! The model shares no arithmetic with the crate: it counts to find the block of a BSU, sorts by
//! the definition's tuple for the order inside a subfile, and deals cells out one by one for their
//! slots.

#![allow(dead_code)] // each test binary uses a part of the model

pub mod check;
pub mod patterns;

use weft_layout::{
    CellIndex, CellOffset, Grid, LayoutError, Order, Partition, Piece, ServerSlot, Subfile, View,
};

/// A byte of a cell; the cell may be a ghost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Byte {
    pub cell: u64,
    pub offset: u64,
}

/// The first bytes of a view, in view order.
pub struct Model {
    pub cells: u64,
    servers: u64,
    column_major: bool,
    pub bytes: Vec<Byte>,
    /// `bytes` has all bytes of the view below this offset of any cell.
    pub depth: u64,
}

pub fn grid(cells: u64, bsu: u64, servers: u64) -> Result<Grid, LayoutError> {
    Grid::new(
        u32::try_from(cells).unwrap(),
        bsu,
        u32::try_from(servers).unwrap(),
    )
}

/// The place of `n` in repeated templates of `parts` parts of `size` each, found by counting:
/// (template, part of the template, place in the part).
fn count_to(n: u64, size: u64, parts: u64) -> (u64, u64, u64) {
    let (mut template, mut part, mut place) = (0, 0, 0);
    for _ in 0..n {
        place += 1;
        if place == size {
            place = 0;
            part += 1;
        }
        if part == parts {
            part = 0;
            template += 1;
        }
    }
    (template, part, place)
}

impl Model {
    /// At least `least` bytes of the view.
    pub fn new(grid: &Grid, view: &View, least: usize) -> Self {
        let (cells, bsu) = (u64::from(grid.cells()), grid.bsu());
        let (bytes, depth) = match view {
            View::Subfile(subfile) => subfile_bytes(cells, bsu, subfile, least),
            View::Partition(partition) => partition_bytes(cells, bsu, partition, least),
            View::Cell(cell) => {
                let cell = u64::from(cell.0);
                let bytes = (0..least as u64)
                    .map(|offset| Byte { cell, offset })
                    .collect();
                (bytes, least as u64)
            }
        };
        let column_major = matches!(
            view,
            View::Subfile(Subfile {
                order: Order::Column,
                ..
            })
        );
        Self {
            cells,
            servers: grid.servers().into(),
            column_major,
            bytes,
            depth,
        }
    }

    pub fn is_ghost(&self, byte: Byte) -> bool {
        byte.cell >= self.cells
    }

    /// Bytes of an access in memory order.
    pub fn access(&self, start: usize, end: usize) -> Vec<Byte> {
        let mut bytes = self.bytes[start..end].to_vec();
        if self.column_major {
            bytes.sort_unstable();
        }
        bytes
    }

    /// The pieces of an access for each slot, coalesced.
    pub fn pieces(&self, start: usize, end: usize) -> Vec<Vec<Piece>> {
        let mut slots: Vec<Vec<Piece>> = (0..self.servers).map(|_| Vec::new()).collect();
        for (memory, byte) in self.access(start, end).into_iter().enumerate() {
            if self.is_ghost(byte) {
                continue;
            }
            let (memory, slot) = (memory as u64, self.slot_of(byte.cell));
            let cell = CellIndex(u32::try_from(byte.cell).unwrap());
            match slots[slot].last_mut() {
                Some(last)
                    if last.cell == cell
                        && last.offset.0 + last.length == byte.offset
                        && last.memory + last.length == memory =>
                {
                    last.length += 1;
                }
                _ => slots[slot].push(Piece {
                    cell,
                    offset: CellOffset(byte.offset),
                    length: 1,
                    memory,
                }),
            }
        }
        slots
    }

    /// One past the last view byte of a cell's first `length` bytes.
    pub fn extent(&self, cell: u64, length: u64) -> u64 {
        assert!(length <= self.depth);
        let held = |byte: &Byte| byte.cell == cell && byte.offset < length;
        self.bytes
            .iter()
            .rposition(held)
            .map_or(0, |last| last as u64 + 1)
    }

    fn slot_of(&self, cell: u64) -> usize {
        let mut slot = 0;
        for _ in 0..cell {
            slot = if slot + 1 == self.servers {
                0
            } else {
                slot + 1
            };
        }
        usize::try_from(slot).unwrap()
    }
}

fn subfile_bytes(cells: u64, bsu: u64, subfile: &Subfile, least: usize) -> (Vec<Byte>, u64) {
    let &Subfile {
        vbs,
        vn,
        hbs,
        hn,
        index,
        order,
    } = subfile;
    // Cells, with ghosts up to whole templates: (block column, place in block, cell).
    let mut across = Vec::new();
    let mut cell = 0;
    loop {
        let (block, s, place) = count_to(cell, hbs, hn);
        if s == 0 && place == 0 && cell >= cells {
            break;
        }
        across.push((block, s, place, cell));
        cell += 1;
    }
    // Whole bands until there are `least` bytes: (band, t, place in block, BSU of the cell).
    let mut sorted = Vec::new();
    let mut j = 0;
    loop {
        let (band, t, down) = count_to(j, vbs, vn);
        if t == 0 && down == 0 && sorted.len() as u64 * bsu >= least as u64 {
            break;
        }
        for &(block, s, right, cell) in &across {
            if s + t * hn == index {
                let key = match order {
                    Order::Row => (band, down, block, right),
                    Order::Default | Order::Column => (band, block, right, down),
                };
                sorted.push((key, cell, j));
            }
        }
        j += 1;
    }
    sorted.sort_unstable();
    let bytes = sorted
        .into_iter()
        .flat_map(|(_, cell, j)| {
            (0..bsu).map(move |b| Byte {
                cell,
                offset: j * bsu + b,
            })
        })
        .collect();
    (bytes, j * bsu)
}

fn partition_bytes(cells: u64, bsu: u64, partition: &Partition, least: usize) -> (Vec<Byte>, u64) {
    let &Partition {
        offset,
        group,
        stride,
    } = partition;
    let mut bytes = Vec::new();
    let (mut cell, mut row, mut within) = (0, 0, 0);
    let mut file = 0;
    // The place in the stride, from the offset on.
    let mut phase = 0;
    loop {
        if cell == 0 && within == 0 && bytes.len() >= least {
            return (bytes, row * bsu);
        }
        if file >= offset {
            if phase < group {
                bytes.push(Byte {
                    cell,
                    offset: row * bsu + within,
                });
            }
            phase = if phase + 1 == stride { 0 } else { phase + 1 };
        }
        file += 1;
        within += 1;
        if within == bsu {
            within = 0;
            cell += 1;
        }
        if cell == cells {
            cell = 0;
            row += 1;
        }
    }
}

/// All slots of a grid.
pub fn slots(grid: &Grid) -> impl Iterator<Item = ServerSlot> + use<> {
    (0..grid.servers()).map(ServerSlot)
}
