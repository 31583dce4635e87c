//! How the pieces of a write go: large whole blocks directly to the disk, the rest through log and
//! pages.

use super::direct::{Prepared, direct_blocks};
use crate::forks::{by_chunk, whole_blocks};
use crate::key::{Run, Scattered};
use crate::limits::DIRECT_MIN;
use crate::pool::BLOCK;
use crate::record::BODY_MAX;

/// Bytes of one item, where pieces do not have more.
pub(super) const ITEM_SOFT: u64 = BODY_MAX as u64 / 16;

/// A write, divided by the ways that its pieces go.
pub(crate) struct Plan {
    /// Those for log and dirty pages, none of them with more than [`ITEM_SOFT`] bytes.
    pub(crate) small: Vec<Run>,
    pub(super) direct: Vec<Direct>,
    /// One past the last byte; 0: there is none.
    pub(super) end: u64,
    pub(super) bytes: u64,
}

/// A piece whose whole blocks go the direct way.
pub(super) struct Direct {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Where its bytes begin in the data.
    pub(super) at: usize,
    /// Small runs that come before it.
    pub(super) after: usize,
    pub(super) prepared: Vec<Prepared>,
}

impl Plan {
    /// Divides a write; nothing is prepared yet.
    pub(super) fn of(w: &Scattered, direct: bool) -> Self {
        let mut plan = Plan {
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

    /// A single piece: at most a head and a tail of it in each chunk, or all of it, do not go the
    /// direct way.
    fn add_large(&mut self, size: u32, run: Run) {
        let (offset, length) = (run.offset.0, run.length);
        if direct_blocks(size, offset, length) == 0 {
            return self.small.push(run);
        }
        self.direct.push(Direct {
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
