//! A part moved by POSIX calls: one `pread` or `pwrite` for each run of bytes that meets in the
//! file and in memory.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use weft_layout::{FileOffset, Grid, Piece};

use super::laps::Laps;
use crate::content::Calls;
use crate::error::SuiteError;
use crate::row::Op;
use crate::task::{Syncing, Task};
use crate::workload::FileShape;

/// An open file and the runs that the task moves, worked out before the clock runs.
pub(crate) struct PosixFile {
    file: File,
    runs: Vec<Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    call: usize,
    at: u64,
    memory: usize,
    length: usize,
}

impl PosixFile {
    /// Opens the file. What the kernel keeps of it is dropped before a read, so that the file
    /// system is asked.
    pub(crate) fn open(
        path: &Path,
        task: &Task,
        calls: &Calls<'_>,
    ) -> Result<PosixFile, SuiteError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(SuiteError::local("cannot open", path))?;
        if task.op == Op::Read {
            fadvise(&file, 0, None, Advice::DontNeed)
                .map_err(|e| SuiteError::local("cannot drop the cache of", path)(e.into()))?;
        }
        let runs = all(calls, task.shape)?;
        Ok(PosixFile { file, runs })
    }

    /// Writes the memory, and syncs when the task says so; bytes moved.
    pub(crate) fn write(
        &self,
        task: &Task,
        memory: &[u8],
        laps: &mut Laps,
    ) -> Result<u64, SuiteError> {
        let sync = || {
            let done = self.file.sync_data();
            done.map_err(SuiteError::local("cannot sync", "the benchmark's file"))
        };
        for run in &self.runs {
            let data = &memory[run.memory..run.memory + run.length];
            let done = self.file.write_all_at(data, run.at);
            done.map_err(SuiteError::local("cannot write", "the benchmark's file"))?;
            if task.syncing == Syncing::Each {
                sync()?;
            }
            laps.lap();
        }
        if task.syncing == Syncing::AtEnd {
            sync()?;
        }
        Ok(self.runs.iter().map(|r| r.length as u64).sum())
    }

    /// Reads into the memory; bytes moved.
    pub(crate) fn read(&self, memory: &mut [u8], laps: &mut Laps) -> Result<u64, SuiteError> {
        for run in &self.runs {
            let buffer = &mut memory[run.memory..run.memory + run.length];
            let done = self.file.read_exact_at(buffer, run.at);
            done.map_err(SuiteError::local("cannot read", "the benchmark's file"))?;
            laps.lap();
        }
        Ok(self.runs.iter().map(|r| r.length as u64).sum())
    }
}

/// The runs of all calls.
fn all(calls: &Calls<'_>, shape: FileShape) -> Result<Vec<Run>, SuiteError> {
    let grid = shape.grid().map_err(SuiteError::part)?;
    let mut runs = Vec::new();
    calls.for_each(|call, piece| add(&grid, &mut runs, call, piece))?;
    Ok(runs)
}

/// Place in canonical order, place in memory and length of every run of a part.
pub(crate) fn runs_of(
    calls: &Calls<'_>,
    shape: FileShape,
) -> Result<impl Iterator<Item = (u64, usize, u64)>, SuiteError> {
    let runs = all(calls, shape)?;
    Ok(runs.into_iter().map(|r| (r.at, r.memory, r.length as u64)))
}

/// Adds a piece, BSU by BSU, each at its place in canonical order; what meets the run before is
/// joined to it.
fn add(grid: &Grid, runs: &mut Vec<Run>, call: usize, piece: Piece) -> Result<(), SuiteError> {
    let mut done = 0;
    while done < piece.length {
        let offset = piece.offset.0 + done;
        let length = (grid.bsu() - offset % grid.bsu()).min(piece.length - done);
        let place = grid.canonical(piece.cell, weft_layout::CellOffset(offset));
        let FileOffset(at) = place.map_err(SuiteError::part)?;
        let memory = (piece.memory + done) as usize;
        match runs.last_mut() {
            Some(last)
                if last.call == call
                    && last.at + last.length as u64 == at
                    && last.memory + last.length == memory =>
            {
                last.length += length as usize;
            }
            _ => runs.push(Run {
                call,
                at,
                memory,
                length: length as usize,
            }),
        }
        done += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{ViewSpec, Workload};

    fn runs(part: &Workload) -> Vec<(u64, usize, usize)> {
        let shape = FileShape {
            cells: 3,
            bsu: 4,
            ..FileShape::default()
        };
        let calls = Calls::new(part, shape).unwrap();
        let runs = all(&calls, shape).unwrap();
        runs.iter().map(|r| (r.at, r.memory, r.length)).collect()
    }

    #[test]
    fn a_contiguous_call_is_one_run() {
        let whole = Workload::records(ViewSpec::Canonical, 2, 30, 30, 1);
        assert_eq!(runs(&whole), [(2, 0, 30)]);
    }

    #[test]
    fn adjacent_calls_are_not_merged() {
        let two = Workload::records(ViewSpec::Canonical, 0, 8, 8, 2);
        assert_eq!(runs(&two), [(0, 0, 8), (8, 8, 8)]);
    }

    #[test]
    fn a_cell_is_accessed_as_its_bsus_in_canonical_order() {
        let cell = Workload::records(ViewSpec::Cell(1), 0, 8, 8, 1);
        assert_eq!(runs(&cell), [(4, 0, 4), (16, 4, 4)]);
    }
}
