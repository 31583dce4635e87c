//! The lengths of the cells that a job touches.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::{CellIndex, OFFSET_MAX, Pieces, Splitter};
use weft_proto::Failure;
use weft_proto::io::CellRun;

use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};

impl IoService {
    /// The lengths of the server's cells that the job touches; empty cells are left out.
    pub(super) async fn lengths(
        &self,
        job: &Job,
        callers: &Callers,
    ) -> Result<BTreeMap<CellIndex, u64>, Failure> {
        let mut seen = BTreeSet::new();
        walk::touched(job, &mut seen, callers).await?;
        self.lengths_of(job, seen).await
    }

    /// The lengths of these cells in the job's fork; empty cells are left out.
    pub(in crate::io) async fn lengths_of(
        &self,
        job: &Job,
        seen: BTreeSet<CellIndex>,
    ) -> Result<BTreeMap<CellIndex, u64>, Failure> {
        let mut lengths = BTreeMap::new();
        if let Some(checkpoint) = job.checkpoint {
            let forks = self.store.checkpoint_forks(job.file, checkpoint);
            let forks = forks.map_err(|e| failure::of_store(&e))?;
            let wanted = forks.into_iter().filter(|(key, status)| {
                key.fork == job.fork && seen.contains(&key.cell) && status.length > 0
            });
            return Ok(wanted.map(|(key, s)| (key.cell, s.length)).collect());
        }
        for cell in seen {
            let status = self.store.status(&job.key(cell)).await;
            if let Some(status) = status.map_err(|e| failure::of_store(&e))?
                && status.length > 0
            {
                lengths.insert(cell, status.length);
            }
        }
        Ok(lengths)
    }

    /// Refuses bytes beyond the ends of cells whose ends are in doubt: they would read as zeros
    /// without proof that they are. Returns whether there are such cells.
    pub(in crate::io) async fn check_ends(
        &self,
        job: &Job,
        lengths: &BTreeMap<CellIndex, u64>,
        callers: &Callers,
    ) -> Result<bool, Failure> {
        if !self.store.has_doubt() {
            return Ok(false);
        }
        let check = |cell: CellIndex, bytes| {
            let key = job.key(cell);
            self.store.check_proven(&key, job.checkpoint, bytes)
        };
        let end_is_doubted = |cell| check(cell, OFFSET_MAX - 1..OFFSET_MAX).is_err();
        // Without this, a walk over an endless request would find nothing.
        if !job.map.grid().cells_on(job.slot).any(end_is_doubted) {
            return Ok(false);
        }
        let mut splitter = Splitter::whole(job.pieces()?);
        let look = |steps: &mut u32| {
            while splitter.look(steps)? {
                let Some(strided) = splitter.next(u64::MAX) else {
                    break;
                };
                let length = lengths.get(&strided.cell).copied().unwrap_or(0);
                let beyond = length.max(strided.offset.0)..strided.end();
                if let Err(error) = check(strided.cell, beyond) {
                    return Some(Err(error));
                }
            }
            Some(Ok(true))
        };
        let looked = walk::until(callers, look).await;
        let checked = looked.map_err(walk::abandoned)?;
        checked.map_err(|e| failure::of_store(&e))
    }
}

impl Job {
    /// The server's pieces without those beyond the ends of all cells, where these can be
    /// skipped without a walk.
    pub(in crate::io) fn valid_pieces(
        &self,
        lengths: &BTreeMap<CellIndex, u64>,
    ) -> Result<Pieces, Failure> {
        let ends = lengths.iter().map(|(cell, l)| self.map.extent(*cell, *l));
        Ok(self.pieces()?.below(ends.max().unwrap_or(0)))
    }
}

/// Looks lengths up, and remembers the last: successive pieces mostly lie in one cell.
pub(super) fn lookup(lengths: &BTreeMap<CellIndex, u64>) -> impl FnMut(CellIndex) -> u64 + '_ {
    let mut last = None;
    move |cell| match last {
        Some((known, length)) if known == cell => length,
        _ => {
            let length = lengths.get(&cell).copied().unwrap_or(0);
            last = Some((cell, length));
            length
        }
    }
}

/// The run-length form of lengths: cells of equal length at equal distances are one run.
pub(in crate::io) fn runs(lengths: &BTreeMap<CellIndex, u64>) -> Vec<CellRun> {
    let mut runs: Vec<CellRun> = Vec::new();
    for (cell, length) in lengths {
        let fits = runs
            .last_mut()
            .filter(|run| run.length == *length)
            .and_then(|run| {
                let last = run.first + run.step * (run.count - 1);
                let step = cell.0 - last;
                (run.count == 1 || run.step == step).then_some((run, step))
            });
        match fits {
            Some((run, step)) => {
                run.step = step;
                run.count += 1;
            }
            None => runs.push(CellRun {
                first: cell.0,
                step: 1,
                count: 1,
                length: *length,
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_equal_length_at_equal_distances_are_one_run() {
        let lengths = [(0, 8), (4, 8), (8, 8), (12, 5), (13, 8)]
            .map(|(c, l)| (CellIndex(c), l))
            .into();
        let run = |first, step, count, length| CellRun {
            first,
            step,
            count,
            length,
        };
        assert_eq!(
            runs(&lengths),
            [run(0, 4, 3, 8), run(12, 1, 1, 5), run(13, 1, 1, 8)]
        );
    }
}
