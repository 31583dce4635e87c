//! Reads both sides again and compares them.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use thiserror::Error;
use tokio::task::JoinSet;

use super::pump::{Digest, Plan, Step};
use super::side::Side;
use crate::streams::{Buffers, panicked};

/// Bytes differ because the target has no place for them, so copying them again would not help.
#[derive(Debug, Error)]
#[error("{0}")]
pub(in crate::transfer) struct OnGhost(String);

/// A comparison of both sides.
pub(in crate::transfer) struct Comparison<'a> {
    pub(in crate::transfer) from: Side,
    pub(in crate::transfer) to: Side,
    pub(in crate::transfer) share: Range<u64>,
    pub(in crate::transfer) step: u64,
    pub(in crate::transfer) streams: usize,
    /// The digests of pieces that this process has copied, by their first byte.
    pub(in crate::transfer) digests: HashMap<u64, Digest>,
    pub(in crate::transfer) bar: &'a ProgressBar,
}

impl Comparison<'_> {
    /// Compares every byte of the share.
    ///
    /// # Errors
    /// The first differing byte of the first piece that was found to differ.
    pub(in crate::transfer) async fn run(mut self) -> Result<()> {
        self.to.forget(self.share.clone()).await?;
        let buffers = Buffers::new(2 * self.streams, self.step as usize);
        let mut plan = Plan::new(&self.from, &self.share, self.step);
        let mut working: JoinSet<Result<u64>> = JoinSet::new();
        // The rest of a hole, which is compared a piece at a time as well.
        let mut hole = 0..0;
        loop {
            while working.len() < self.streams {
                let step = if hole.is_empty() {
                    plan.next().await?
                } else {
                    Some(Step::Hole(hole.clone()))
                };
                let step = match step {
                    Some(Step::Hole(all)) => {
                        let end = all.end.min((all.start / self.step + 1) * self.step);
                        hole = end..all.end;
                        Step::Hole(all.start..end)
                    }
                    Some(data) => data,
                    None => break,
                };
                let digest = self.digests.remove(&step.range().start);
                let (from, to) = (self.from.clone(), self.to.clone());
                working.spawn(compare(from, to, step, digest, buffers.clone()));
            }
            let Some(done) = working.join_next().await else {
                return Ok(());
            };
            self.bar.inc(done.map_err(|e| panicked(&e))??);
        }
    }
}

async fn compare(
    from: Side,
    to: Side,
    step: Step,
    digest: Option<Digest>,
    buffers: Buffers,
) -> Result<u64> {
    let range = step.range();
    let length = (range.end - range.start) as usize;
    let there = to.read(range.start, buffers.take(length).await).await?;
    if let Step::Hole(_) = step {
        if let Some(at) = there.iter().position(|b| *b != 0) {
            let at = range.start + at as u64;
            bail!(
                "{} and {} differ at byte {at}: a hole and {:#04x}",
                from.name(),
                to.name(),
                there[(at - range.start) as usize]
            );
        }
        return Ok(length as u64);
    }
    let here = from.read(range.start, buffers.take(length).await).await?;
    if *here != *there {
        let pairs = here.iter().zip(there.iter());
        let at = pairs.take_while(|(a, b)| a == b).count();
        let place = range.start + at as u64;
        if to.is_ghost(place) {
            return Err(OnGhost(format!(
                "byte {place} of {} falls on a ghost, a cell that the view implies and {} lacks, and is discarded: choose another \
                 view, or a file with more cells",
                from.name(),
                to.name()
            ))
            .into());
        }
        let changed_side = match digest {
            Some(d) if d == *blake3::hash(&here).as_bytes() => {
                format!("; {} is not what was written to it", to.name())
            }
            Some(_) => format!("; {} changed since it was copied", from.name()),
            None => String::new(),
        };
        bail!(
            "{} and {} differ at byte {place}: {:#04x} and {:#04x}{changed_side}",
            from.name(),
            to.name(),
            here[at],
            there[at]
        );
    }
    if digest.is_some_and(|d| d != *blake3::hash(&here).as_bytes()) {
        bail!(
            "{} and {} are equal but differ from what was copied: another process changed both",
            from.name(),
            to.name()
        );
    }
    Ok(length as u64)
}
