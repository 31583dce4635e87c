//! The part of a transfer that one process does, and its progress record.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, bail};

use super::args::TransferArgs;
use super::data::Moved;
use super::report::{Clock, TransferSummary};
use super::resume::{
    Begin, FoundRecords, Identity, LostProgress, ProgressRecord, ProgressRecords, ResumeInput,
    TargetState, TransferTarget, decide,
};
use crate::copy::TransferPart;
use crate::terminal::output;

/// One part of a transfer.
pub(super) struct Task<'a> {
    pub(super) args: &'a TransferArgs,
    pub(super) doing: &'static str,
    /// The source, for messages.
    pub(super) from: String,
    /// The target, for messages.
    pub(super) to: String,
    pub(super) identity: Identity,
    pub(super) records: Arc<ProgressRecords>,
    pub(super) target: Arc<TransferTarget>,
    /// The part's bytes.
    pub(super) share: Range<u64>,
    /// Pieces end at multiples of it.
    pub(super) step: u64,
    pub(super) clock: Clock,
}

impl Task<'_> {
    /// Determines where to begin, and records that. `empty`: the target holds no bytes; `same`: it
    /// looks like a complete copy.
    pub(super) async fn begin(&self, empty: bool, same: bool) -> Result<Begin> {
        let (part, found) = (self.args.part, self.records.find().await?);
        let lost = self.lost(&found).await?;
        let situation = ResumeInput {
            transfer: &self.identity,
            part,
            found: &found,
            lost: &lost,
            empty,
            same,
            resume: self.args.resume,
            force: self.args.force,
            source: &self.from,
            target: &self.to,
        };
        let begin = decide(&situation, self.share.start)?;
        if let Begin::From(at) = begin {
            self.forget(&lost).await?;
            // The target may not be open yet; the bytes before `at` were just found to exist.
            let own = found.of(part).filter(|_| at > self.share.start);
            let record = self.record(at, false, own.and_then(|own| own.target));
            self.records.store(part, &record).await?;
        }
        Ok(begin)
    }

    /// Records that the part is complete. Returns whether all parts are; then the records are
    /// removed.
    ///
    /// # Errors
    /// The target was removed, truncated or replaced while it was copied to.
    pub(super) async fn end(&self) -> Result<bool> {
        self.note(self.share.end, true).await?;
        let found = self.records.find().await?;
        if let Some(lost) = self.lost(&found).await?.first() {
            bail!(
                "{} {}, but part {} had copied up to byte {}: another process changed it meanwhile; copy all parts again with --force",
                self.to,
                lost.how,
                lost.part,
                lost.done
            );
        }
        self.records.end(&self.identity).await
    }

    /// Records the progress of the part.
    pub(super) fn note(
        &self,
        done: u64,
        complete: bool,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let record = self.record(done, complete, None);
        let (records, target, part) = (self.records.clone(), self.target.clone(), self.args.part);
        async move {
            let target = target.claim().await?;
            records
                .store(part, &ProgressRecord { target, ..record })
                .await
        }
    }

    fn record(&self, done: u64, complete: bool, target: Option<TargetState>) -> ProgressRecord {
        ProgressRecord {
            transfer: self.identity.clone(),
            done,
            complete,
            target,
        }
    }

    /// Parts whose records count bytes that the target no longer holds.
    async fn lost(&self, found: &FoundRecords) -> Result<Vec<LostProgress>> {
        let counts = |part: u32, record: &ProgressRecord| {
            record.transfer == self.identity
                && (1..=self.identity.parts).contains(&part)
                && record.done > self.start_of(part)
        };
        let records = found.records.iter();
        let records: Vec<_> = records.filter(|(part, r)| counts(*part, r)).collect();
        if records.is_empty() {
            return Ok(Vec::new());
        }
        // Read after the records, which were written after the bytes that they count.
        let now = self.target.now().await?;
        let lost = records.into_iter().filter_map(|(part, record)| {
            Some(LostProgress {
                part: *part,
                done: record.done,
                how: TargetState::lost(record.target, now)?,
            })
        });
        Ok(lost.collect())
    }

    fn start_of(&self, number: u32) -> u64 {
        let of = self.identity.parts;
        let share = TransferPart { number, of }.share(self.identity.length, self.step);
        share.start
    }

    /// Removes the records of other parts whose bytes are lost: once this part has restored the
    /// target's length, the loss would go unnoticed.
    async fn forget(&self, lost: &[LostProgress]) -> Result<()> {
        for lost in lost.iter().filter(|l| l.part != self.args.part.number) {
            self.records.remove(lost.part).await?;
            output::say(format_args!(
                "weft: {} {}, so part {} of this transfer must be copied again",
                self.to, lost.how, lost.part
            ));
        }
        Ok(())
    }

    /// The summary of a part that began at `at`.
    pub(super) fn summary(&self, at: u64, moved: &Moved) -> TransferSummary {
        TransferSummary {
            from: self.from.clone(),
            to: self.to.clone(),
            part: self.args.part.to_string(),
            start: self.share.start,
            end: self.share.end,
            length: self.identity.length,
            resumed_at: (at > self.share.start).then_some(at),
            copied: self.share.end - at,
            written: moved.written,
            ghosts: moved.ghosts,
            verified: self.args.verify || self.args.compare,
            seconds: self.clock.seconds(),
            mib_per_second: self.clock.rate(self.share.end - at),
        }
    }

    /// The summary of a part that had nothing to copy.
    pub(super) fn nothing(&self) -> TransferSummary {
        self.summary(self.share.end, &Moved::default())
    }
}
