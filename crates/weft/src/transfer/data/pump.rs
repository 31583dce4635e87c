//! Copies the share of one part from one side to the other: pieces of 4 MiB, several in flight,
//! without holes. From time to time the bytes so far are synced and the progress is recorded.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::{BoxFuture, FutureExt};
use indicatif::ProgressBar;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::side::{Ranges, Side, Written};
use crate::streams::{Buffers, panicked};
use crate::terminal::interrupt;

/// A digest of a piece as it was copied.
pub(in crate::transfer) type Digest = [u8; 32];

/// A share to copy.
pub(in crate::transfer) struct Pump<'a> {
    pub(in crate::transfer) from: Side,
    pub(in crate::transfer) to: Side,
    /// The range to copy, in bytes of the transfer.
    pub(in crate::transfer) share: Range<u64>,
    /// Pieces end at multiples of it.
    pub(in crate::transfer) step: u64,
    pub(in crate::transfer) streams: usize,
    /// The target may hold other bytes, which must be overwritten.
    pub(in crate::transfer) old: bool,
    /// This byte is written even if it is zero, so that the target ends after it.
    pub(in crate::transfer) last: Option<u64>,
    /// The progress is synced and recorded after every so many bytes.
    pub(in crate::transfer) checkpoint: u64,
    /// Bytes per second.
    pub(in crate::transfer) limit: Option<u64>,
    /// Keep digests of what is copied.
    pub(in crate::transfer) digests: bool,
    pub(in crate::transfer) bar: &'a ProgressBar,
    /// Everything before this byte is durable and recorded.
    pub(in crate::transfer) kept: &'a AtomicU64,
}

/// The result of a copy.
#[derive(Default)]
pub(in crate::transfer) struct Moved {
    /// Bytes written; holes are not.
    pub(in crate::transfer) written: u64,
    /// Bytes that fell on ghosts instead.
    pub(in crate::transfer) ghosts: u64,
    /// Digests of pieces by their first byte.
    pub(in crate::transfer) digests: Vec<(u64, Digest)>,
}

/// One step of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::transfer) enum Step {
    /// A piece that may hold data.
    Data(Range<u64>),
    /// A hole.
    Hole(Range<u64>),
}

/// A source's share, split into steps in order.
pub(in crate::transfer) struct Plan {
    ranges: Ranges,
    at: u64,
    end: u64,
    step: u64,
    data: Range<u64>,
}

/// A finished piece.
struct Done {
    start: u64,
    length: u64,
    written: Written,
    digest: Option<Digest>,
}

impl Plan {
    pub(in crate::transfer) fn new(source: &Side, share: &Range<u64>, step: u64) -> Plan {
        Plan {
            ranges: source.ranges(share.start),
            at: share.start,
            end: share.end,
            step,
            data: share.start..share.start,
        }
    }

    /// The next step; `None` at the end.
    pub(in crate::transfer) async fn next(&mut self) -> Result<Option<Step>> {
        if self.at >= self.end {
            return Ok(None);
        }
        if self.data.end <= self.at {
            let found = self.ranges.next(self.at, self.end).await?;
            self.data = found.unwrap_or(self.end..self.end);
        }
        let start = self.at;
        if start < self.data.start {
            self.at = self.data.start;
            return Ok(Some(Step::Hole(start..self.at)));
        }
        self.at = self
            .data
            .end
            .min((start / self.step + 1).saturating_mul(self.step));
        Ok(Some(Step::Data(start..self.at)))
    }
}

impl Pump<'_> {
    /// Copies everything. `note` is called with an offset before which everything is durable.
    ///
    /// After a failure or a signal, the bytes so far are still synced and recorded, if possible.
    pub(in crate::transfer) async fn run(
        &self,
        note: impl Fn(u64) -> BoxFuture<'static, Result<()>>,
    ) -> Result<Moved> {
        let buffers = Buffers::new(self.streams, self.step as usize);
        let mut plan = Plan::new(&self.from, &self.share, self.step);
        let mut under_way = BTreeSet::new();
        let mut working: JoinSet<Result<Done>> = JoinSet::new();
        let mut saving: Option<BoxFuture<'static, Result<()>>> = None;
        let (mut moved, mut failed, mut more) = (Moved::default(), None, true);
        let mut noted = self.share.start;
        let mut pace = Pace::new(self.limit);
        loop {
            while more && failed.is_none() && working.len() < self.streams {
                match plan.next().await {
                    Ok(Some(step)) => {
                        let (start, when) = (step.range().start, pace.next(&step));
                        under_way.insert(start);
                        working.spawn(self.work(step, when, buffers.clone()));
                    }
                    Ok(None) => more = false,
                    Err(e) => failed = Some(e),
                }
            }
            let reached = under_way.first().copied().unwrap_or(plan.at);
            if saving.is_none() && failed.is_none() && reached - noted >= self.checkpoint {
                noted = reached;
                saving = Some(self.save(note(reached)));
            }
            tokio::select! {
                done = working.join_next(), if !working.is_empty() => {
                    match done.map(|done| done.map_err(|e| panicked(&e)).and_then(|done| done)) {
                        Some(Ok(done)) => {
                            under_way.remove(&done.start);
                            self.bar.inc(done.length);
                            moved.written += done.written.bytes;
                            moved.ghosts += done.written.ghosts;
                            moved.digests.extend(done.digest.map(|d| (done.start, d)));
                        }
                        Some(Err(e)) => failed = failed.or(Some(e)),
                        None => {}
                    }
                }
                saved = wait(&mut saving), if saving.is_some() => {
                    saving = None;
                    match saved {
                        Ok(()) => self.kept.store(noted, Ordering::Relaxed),
                        Err(e) => failed = failed.or(Some(e)),
                    }
                }
                signal = interrupt::asked(), if failed.is_none() && (more || !working.is_empty()) => {
                    failed = Some(signal.ended(""));
                }
                else => break,
            }
        }
        let Some(error) = failed else {
            return Ok(moved);
        };
        // The failed piece still counts as in flight.
        let reached = under_way.first().copied().unwrap_or(plan.at);
        // The first failure is the one to report.
        if reached > noted && self.save(note(reached)).await.is_ok() {
            self.kept.store(reached, Ordering::Relaxed);
        }
        Err(error)
    }

    fn save(&self, note: BoxFuture<'static, Result<()>>) -> BoxFuture<'static, Result<()>> {
        let to = self.to.clone();
        async move {
            to.sync().await?;
            note.await
        }
        .boxed()
    }

    /// One step.
    fn work(
        &self,
        step: Step,
        when: Option<Instant>,
        buffers: Buffers,
    ) -> impl Future<Output = Result<Done>> + Send + 'static {
        let (from, to, old, digests) = (self.from.clone(), self.to.clone(), self.old, self.digests);
        let range = step.range();
        let last = self.last.is_some_and(|last| range.contains(&last));
        async move {
            if let Some(when) = when {
                tokio::select! {
                    () = tokio::time::sleep_until(when) => {}
                    signal = interrupt::asked() => return Err(signal.ended("")),
                }
            }
            let mut done = Done {
                start: range.start,
                length: range.end - range.start,
                written: Written::default(),
                digest: None,
            };
            if let Step::Hole(hole) = step {
                if old {
                    to.clear(hole).await?;
                }
                if last {
                    let mut zero = buffers.take(1).await;
                    zero.fill(0);
                    done.written = to.write(range.end - 1, zero, old, true).await?;
                }
                return Ok(done);
            }
            let buffer = buffers.take(done.length as usize).await;
            let buffer = from.read(range.start, buffer).await?;
            done.digest = digests.then(|| *blake3::hash(&buffer).as_bytes());
            done.written = to.write(range.start, buffer, old, last).await?;
            Ok(done)
        }
    }
}

impl Step {
    pub(in crate::transfer) fn range(&self) -> Range<u64> {
        match self {
            Step::Data(range) | Step::Hole(range) => range.clone(),
        }
    }
}

async fn wait(saving: &mut Option<BoxFuture<'static, Result<()>>>) -> Result<()> {
    match saving {
        Some(saving) => saving.await,
        None => Ok(()),
    }
}

/// Limits the rate: decides when pieces may begin.
struct Pace {
    limit: Option<u64>,
    next: Instant,
}

impl Pace {
    fn new(limit: Option<u64>) -> Pace {
        Pace {
            limit,
            next: Instant::now(),
        }
    }

    fn next(&mut self, step: &Step) -> Option<Instant> {
        let (limit, Step::Data(range)) = (self.limit?, step) else {
            return None;
        };
        let when = self.next.max(Instant::now());
        let seconds = (range.end - range.start) as f64 / limit as f64;
        self.next = when + Duration::from_secs_f64(seconds.min(1e6));
        Some(when)
    }
}
