//! The mesh: how many cells, how long, which worker handles which rows, and the phases.
//!
//! Arithmetic only. docs/applications.md proves that these phases sort.
//!
//! Invariants:
//! 1. There are `2^n` cells of equal length, and at least as many as workers.
//! 2. A cell's length is a multiple of a block's, so no request of a row phase reaches past the end
//!    of a cell, where a write would lengthen it.
//! 3. A worker uses at most its memory: one cell with its index and the pieces in flight, or the
//!    blocks in flight.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weft_layout::{CELLS_MAX, Order, Subfile, View};

use super::window::INDEX_BYTES;

use crate::limits::{SORT_REQUEST_BYTES, SORT_REQUESTS_MAX, SORT_WORKERS_MAX};

/// Ranges of one cell that are multiples of this never split a chunk of the default size.
const ALIGNED_BYTES: u64 = weft_layout::CHUNK_DEFAULT as u64;

/// The two-dimensional file that is sorted, and how its work is divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mesh {
    /// Records to sort; the rest of the mesh is padding.
    pub(crate) records: u64,
    /// Bytes of a record.
    pub(crate) record: u64,
    /// Cells: `2^n`.
    pub(crate) cells: u32,
    /// Records of one cell.
    pub(crate) depth: u64,
    /// Records of one cell in a block of rows; `depth` is a multiple.
    pub(crate) block: u64,
    /// Bytes of one request.
    pub(crate) request: u64,
    /// Worker processes.
    pub(crate) workers: u32,
}

/// One step of all workers; a barrier follows each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Records of the file are distributed over the cells; each cell is sorted.
    Load,
    /// Rows across groups of `2^k` cells.
    Rows(u32),
    /// Each cell alone, in the direction of its group of `2^k`.
    Cells(u32),
    /// The result is read back.
    Verify,
}

/// Why there is no suitable mesh.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum MeshError {
    /// The memory is too small.
    #[error(
        "sorting {records} records of {record} bytes takes more than {memory} bytes of memory in each process: give --memory at \
         least {needed}"
    )]
    Memory {
        records: u64,
        record: u64,
        memory: u64,
        needed: u64,
    },
    /// No workers, or too many.
    #[error("{workers} processes cannot sort: give --procs 1 to {SORT_WORKERS_MAX}")]
    Workers { workers: u32 },
}

/// The largest mesh: more rounds than this gain nothing over more memory.
const MESH_CELLS_MAX: u32 = CELLS_MAX / 16;

impl Mesh {
    /// Computes the mesh with the fewest cells that fit the memory of each worker, in bytes.
    pub(crate) fn new(
        records: u64,
        record: u64,
        workers: u32,
        memory: u64,
    ) -> Result<Mesh, MeshError> {
        if !(1..=SORT_WORKERS_MAX).contains(&workers) {
            return Err(MeshError::Workers { workers });
        }
        let fits = |memory: u64| {
            let mut cells = workers.next_power_of_two();
            while cells <= MESH_CELLS_MAX {
                let mesh = Mesh::with_cells(records, record, workers, memory, cells);
                if mesh.memory() <= memory && u32::try_from(mesh.depth).is_ok() {
                    return Some(mesh);
                }
                cells *= 2;
            }
            None
        };
        fits(memory).ok_or_else(|| {
            // Roughly the least memory that suffices.
            let mut needed = memory.max(1 << 10);
            while fits(needed).is_none() {
                needed += needed / 8 + 1;
            }
            MeshError::Memory {
                records,
                record,
                memory,
                needed,
            }
        })
    }

    fn with_cells(records: u64, record: u64, workers: u32, memory: u64, cells: u32) -> Mesh {
        let share = memory / (SORT_REQUESTS_MAX as u64 + 1);
        let least = records.div_ceil(u64::from(cells)).max(1);
        let mut block = (share.min(SORT_REQUEST_BYTES) / (u64::from(cells) * record)).max(1);
        let aligned = ALIGNED_BYTES / gcd(ALIGNED_BYTES, record);
        if block >= aligned {
            block -= block % aligned;
        }
        let block = block.min(least.div_ceil(u64::from(workers)));
        // A piece of a cell is a quarter of the share: three in flight and one being filled fit in
        // the memory that the cell leaves.
        let request = (share / 4).min(SORT_REQUEST_BYTES / 2).max(record);
        Mesh {
            records,
            record,
            cells,
            depth: least.next_multiple_of(block),
            block,
            request: request - request % record,
            workers,
        }
    }

    /// Bytes of memory that a worker needs.
    fn memory(&self) -> u64 {
        let cell = self.depth * (self.record + INDEX_BYTES);
        let pieces = (SORT_REQUESTS_MAX as u64 + 1) * self.request;
        let rows = SORT_REQUESTS_MAX as u64 * self.block * self.record * u64::from(self.cells);
        (cell + pieces).max(rows)
    }

    /// The rounds: `n` of `2^n` cells.
    pub(crate) fn rounds(&self) -> u32 {
        self.cells.ilog2()
    }

    /// All phases in order.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let rounds = (1..=self.rounds()).flat_map(|k| [Phase::Rows(k), Phase::Cells(k)]);
        std::iter::once(Phase::Load)
            .chain(rounds)
            .chain([Phase::Verify])
            .collect()
    }

    /// Whether this phase is the last to sort, so that its records are the result.
    pub(crate) fn is_final(&self, phase: Phase) -> bool {
        match phase {
            Phase::Load => self.cells == 1,
            Phase::Cells(round) => round == self.rounds(),
            Phase::Rows(_) | Phase::Verify => false,
        }
    }

    /// The cells of a worker.
    pub(crate) fn cells_of(&self, worker: u32) -> impl Iterator<Item = u32> + use<> {
        (worker..self.cells).step_by(self.workers as usize)
    }

    /// The records of a cell without padding, as a range of all records.
    pub(crate) fn records_of(&self, cell: u32) -> std::ops::Range<u64> {
        let first = (u64::from(cell) * self.depth).min(self.records);
        first..(first + self.depth).min(self.records)
    }

    /// Bytes of a cell.
    pub(crate) fn cell_bytes(&self) -> u64 {
        self.depth * self.record
    }

    /// The groups of a round.
    pub(crate) fn groups(&self, round: u32) -> u32 {
        self.cells >> round
    }

    /// The view of a worker on its rows of a group: blocks of rows go to the workers in turn.
    ///
    /// The default order keeps the records of one cell in a block adjacent, so each block is
    /// `2^round` long runs.
    pub(crate) fn rows_view(&self, round: u32, group: u32, worker: u32) -> View {
        let groups = u64::from(self.groups(round));
        View::Subfile(Subfile {
            vbs: self.block,
            vn: u64::from(self.workers),
            hbs: 1 << round,
            hn: groups,
            index: u64::from(group) + u64::from(worker) * groups,
            order: Order::Default,
        })
    }

    /// Bytes of one block in the views of a round.
    pub(crate) fn block_bytes(&self, round: u32) -> u64 {
        (self.block * self.record) << round
    }

    /// A worker's requests in a row phase: group, offset in the worker's view of it, bytes.
    pub(crate) fn row_requests(&self, round: u32, worker: u32) -> Vec<(u32, u64, u64)> {
        let all = self.depth / self.block;
        let own = all
            .saturating_sub(u64::from(worker))
            .div_ceil(u64::from(self.workers));
        let block = self.block_bytes(round);
        // As much as a block of the last round, which is the largest.
        let together = 1 << (self.rounds() - round);
        let mut requests = Vec::new();
        for group in 0..self.groups(round) {
            for first in (0..own).step_by(together) {
                let blocks = (own - first).min(together as u64);
                requests.push((group, first * block, blocks * block));
            }
        }
        requests
    }
}

impl Phase {
    /// The name of the phase.
    pub(crate) fn name(self) -> String {
        match self {
            Phase::Load => "load and sort cells".to_owned(),
            Phase::Rows(k) => format!("rows across {} cells", 1_u64 << k),
            Phase::Cells(k) => format!("cells, in groups of {}", 1_u64 << k),
            Phase::Verify => "verify and sync".to_owned(),
        }
    }
}

/// Whether a cell is sorted in descending order: the groups of `2^round` cells alternate.
pub(crate) fn descending(round: u32, cell: u32) -> bool {
    (cell >> round) & 1 == 1
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
