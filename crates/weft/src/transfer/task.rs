//! The part of a transfer that one process does, and its records of progress.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, bail};

use super::args::TransferArgs;
use super::data::Moved;
use super::report::{Clock, Summary};
use super::resume::{Begin, Found, Held, Identity, Lost, Marks, Record, Situation, Target, decide};
use crate::copy::Part;
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
    pub(super) marks: Arc<Marks>,
    pub(super) target: Arc<Target>,
    /// The part's bytes.
    pub(super) share: Range<u64>,
    /// Pieces end at multiples of it.
    pub(super) step: u64,
    pub(super) clock: Clock,
}

impl Task<'_> {
    /// Finds out where to begin, and notes that it begins. `empty`: the target holds no bytes;
    /// `same`: it looks like a complete copy.
    pub(super) async fn begin(&self, empty: bool, same: bool) -> Result<Begin> {
        let (part, found) = (self.args.part, self.marks.find().await?);
        let lost = self.lost(&found).await?;
        let situation = Situation {
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
            // The target may not be open yet; the bytes to resume after were just found to be
            // there.
            let own = found.of(part).filter(|_| at > self.share.start);
            let record = self.record(at, false, own.and_then(|own| own.target));
            self.marks.store(part, &record).await?;
        }
        Ok(begin)
    }

    /// Notes that the part is complete. Returns whether all parts are; the notes are gone then.
    ///
    /// # Errors
    /// The target was removed, cut or replaced while it was copied to.
    pub(super) async fn end(&self) -> Result<bool> {
        self.note(self.share.end, true).await?;
        let found = self.marks.find().await?;
        if let Some(lost) = self.lost(&found).await?.first() {
            bail!(
                "{} {}, and part {} had copied to byte {} of it: somebody changed it meanwhile; copy all parts again with \
                 --force",
                self.to,
                lost.how,
                lost.part,
                lost.done
            );
        }
        self.marks.end(&self.identity).await
    }

    /// Notes how far the part has come.
    pub(super) fn note(
        &self,
        done: u64,
        complete: bool,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let record = self.record(done, complete, None);
        let (marks, target, part) = (self.marks.clone(), self.target.clone(), self.args.part);
        async move {
            let target = target.claim().await?;
            marks.store(part, &Record { target, ..record }).await
        }
    }

    fn record(&self, done: u64, complete: bool, target: Option<Held>) -> Record {
        Record {
            transfer: self.identity.clone(),
            done,
            complete,
            target,
        }
    }

    /// Parts whose records name bytes that the target no longer holds.
    async fn lost(&self, found: &Found) -> Result<Vec<Lost>> {
        let speaks = |part: u32, record: &Record| {
            record.transfer == self.identity
                && (1..=self.identity.parts).contains(&part)
                && record.done > self.start_of(part)
        };
        let records = found.records.iter();
        let records: Vec<_> = records.filter(|(part, r)| speaks(*part, r)).collect();
        if records.is_empty() {
            return Ok(Vec::new());
        }
        // Read after the records: the bytes that they name were there before them.
        let now = self.target.now().await?;
        let lost = records.into_iter().filter_map(|(part, record)| {
            Some(Lost {
                part: *part,
                done: record.done,
                how: Held::lost(record.target, now)?,
            })
        });
        Ok(lost.collect())
    }

    fn start_of(&self, number: u32) -> u64 {
        let of = self.identity.parts;
        let share = Part { number, of }.share(self.identity.length, self.step);
        share.start
    }

    /// Takes away the records of other parts whose bytes are lost: once this part has restored the
    /// target's length, the loss would go unnoticed.
    async fn forget(&self, lost: &[Lost]) -> Result<()> {
        for lost in lost.iter().filter(|l| l.part != self.args.part.number) {
            self.marks.remove(lost.part).await?;
            output::say(format_args!(
                "weft: {} {}, so part {} of this transfer is to be copied again",
                self.to, lost.how, lost.part
            ));
        }
        Ok(())
    }

    /// What was done, beginning from `at`.
    pub(super) fn summary(&self, at: u64, moved: &Moved) -> Summary {
        Summary {
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

    /// There was nothing to do.
    pub(super) fn nothing(&self) -> Summary {
        self.summary(self.share.end, &Moved::default())
    }
}
