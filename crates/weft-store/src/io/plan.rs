//! Which way the pieces of a write take: whole blocks of large pieces directly to the disk, the
//! rest through the log and dirty pages.

use super::direct::{PreparedBlocks, direct_blocks};
use crate::forks::{by_chunk, whole_blocks};
use crate::key::{Run, Scattered};
use crate::limits::DIRECT_MIN;
use crate::pool::BLOCK;
use crate::record::BODY_MAX;

/// Bytes of one item of the log, unless a single piece is longer.
pub(super) const ITEM_SOFT: u64 = BODY_MAX as u64 / 16;

/// A write, divided by the ways that its pieces take.
pub(crate) struct WritePlan {
    /// Runs for the log and dirty pages, of at most [`ITEM_SOFT`] bytes unless a piece is longer.
    pub(crate) small: Vec<Run>,
    pub(super) direct: Vec<DirectWrite>,
    /// One past the last byte; 0 if there is none.
    pub(super) end: u64,
    pub(super) bytes: u64,
}

/// A piece whose whole blocks are written directly.
pub(super) struct DirectWrite {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The offset of its bytes in the data.
    pub(super) at: usize,
    /// How many small runs precede it.
    pub(super) after: usize,
    pub(super) prepared: Vec<PreparedBlocks>,
}

impl WritePlan {
    /// Divides a write; nothing is prepared yet.
    pub(super) fn of(w: &Scattered, direct: bool) -> Self {
        let mut plan = WritePlan {
            small: Vec::with_capacity(w.runs.len()),
            direct: Vec::new(),
            end: 0,
            bytes: 0,
        };
        for run in &w.runs {
            plan.end = plan.end.max(run.end());
            plan.bytes += run.bytes();
            if run.length < DIRECT_MIN || !direct {
                plan.add_small(*run);
                continue;
            }
            for n in 0..run.count {
                let piece = run.after(n);
                plan.add_large(w.chunk, Run::one(piece.offset.0, piece.at, piece.length));
            }
        }
        plan
    }

    fn add_small(&mut self, run: Run) {
        if run.stride == run.length || run.count == 1 {
            self.small.push(Run::one(run.offset.0, run.at, run.bytes()));
            return;
        }
        let most = (ITEM_SOFT / run.length).max(1);
        let mut from = 0;
        while from < run.count {
            let rest = run.after(from);
            let count = rest.count.min(most);
            self.small.push(Run { count, ..rest });
            from += count;
        }
    }

    /// Adds a large piece. Its incomplete blocks at either end of a chunk, or all of it if it has
    /// too few whole blocks, are small runs.
    fn add_large(&mut self, size: u32, run: Run) {
        let (offset, length) = (run.offset.0, run.length);
        if direct_blocks(size, offset, length) == 0 {
            return self.small.push(run);
        }
        self.direct.push(DirectWrite {
            offset,
            length,
            at: run.at,
            after: self.small.len(),
            prepared: Vec::new(),
        });
        for range in by_chunk(size, offset, length) {
            let whole = whole_blocks(&range, size);
            let origin = range.chunk * u64::from(size);
            let block = BLOCK as u32;
            let (head, tail) = if whole.is_empty() {
                (range.bytes.end, range.bytes.end)
            } else {
                let tail = (whole.end * block).min(range.bytes.end);
                (whole.start * block, tail)
            };
            for (from, to) in [(range.bytes.start, head), (tail, range.bytes.end)] {
                if from < to {
                    let at = origin + u64::from(from);
                    let within = run.at + (at - offset) as usize;
                    self.small.push(Run::one(at, within, u64::from(to - from)));
                }
            }
        }
    }
}
