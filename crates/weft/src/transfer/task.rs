//! What one process has to do of a transfer, and its notes about it.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;

use super::begin::{Begin, Situation, decide};
use super::mark::{Identity, Marks, Record};
use super::report::Clock;
use super::{Summary, TransferArgs};

/// One part of a transfer.
pub(super) struct Task<'a> {
    pub(super) args: &'a TransferArgs,
    pub(super) doing: &'static str,
    /// The source, for messages.
    pub(super) from: String,
    /// The target, for messages.
    pub(super) to: String,
    pub(super) identity: Identity,
    pub(super) marks: Arc<Marks>,
    /// The part's bytes.
    pub(super) share: Range<u64>,
    /// Pieces end at multiples of it.
    pub(super) step: u64,
    pub(super) clock: Clock,
}

impl Task<'_> {
    /// Finds out where to begin, and notes that it begins. `empty`: the target holds no bytes; `same`: it looks like a
    /// complete copy.
    pub(super) async fn begin(&self, empty: bool, same: bool) -> Result<Begin> {
        let situation = Situation {
            transfer: &self.identity,
            part: self.args.part,
            found: &self.marks.find().await?,
            empty,
            same,
            resume: self.args.resume,
            force: self.args.force,
            source: &self.from,
            target: &self.to,
        };
        let begin = decide(&situation, self.share.start)?;
        if let Begin::From(at) = begin {
            self.note(at, false).await?;
        }
        Ok(begin)
    }

    /// Notes that the part is complete. Returns whether all parts are; the notes are gone then.
    pub(super) async fn end(&self) -> Result<bool> {
        self.note(self.share.end, true).await?;
        self.marks.end(&self.identity).await
    }

    /// Notes how far the part has come.
    pub(super) fn note(
        &self,
        done: u64,
        complete: bool,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let record = Record {
            transfer: self.identity.clone(),
            done,
            complete,
        };
        let (marks, part) = (self.marks.clone(), self.args.part);
        async move { marks.store(part, &record).await }
    }

    /// What was done, beginning from `at`.
    pub(super) fn summary(&self, at: u64, written: u64) -> Summary {
        Summary {
            from: self.from.clone(),
            to: self.to.clone(),
            part: self.args.part.to_string(),
            start: self.share.start,
            end: self.share.end,
            length: self.identity.length,
            resumed_at: (at > self.share.start).then_some(at),
            copied: self.share.end - at,
            written,
            verified: self.args.verify || self.args.compare,
            seconds: self.clock.seconds(),
            mib_per_second: self.clock.rate(self.share.end - at),
        }
    }

    /// There was nothing to do.
    pub(super) fn nothing(&self) -> Summary {
        self.summary(self.share.end, 0)
    }
}
