//! One part of a transfer: copied, made durable, and compared.

use std::sync::atomic::AtomicU64;

use anyhow::Result;
use futures_util::FutureExt;
use indicatif::ProgressBar;

use super::data::{Comparison, Digest, Moved, OnGhost, Pump, Side};
use super::task::Task;
use crate::terminal::interrupt::{self, Orderly};
use crate::terminal::{output, progress};

/// One part of a transfer, both of whose sides are open.
pub(super) struct Transfer<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) from: Side,
    pub(super) to: Side,
    /// The target may hold other bytes.
    pub(super) old: bool,
    /// The target ends after the transfer's last byte only if that is written.
    pub(super) write_last: bool,
}

impl Transfer<'_> {
    /// Copies the share from `at` on, and makes it durable.
    pub(super) async fn copy(&self, at: u64) -> Result<Moved> {
        let task = self.task;
        // From here on the pump handles signals.
        let _orderly = Orderly::begin()?;
        let kept = AtomicU64::new(at);
        let bar = self.bar(task.doing);
        bar.set_position(at - task.share.start);
        bar.reset_eta();
        let pump = Pump {
            from: self.from.clone(),
            to: self.to.clone(),
            share: at..task.share.end,
            step: task.step,
            streams: self.streams(),
            old: self.old,
            last: self.last(),
            checkpoint: task.args.checkpoint,
            limit: task.args.limit,
            digests: task.args.verify,
            bar: &bar,
            kept: &kept,
        };
        let moved = pump.run(|done| task.note(done, false).boxed()).await;
        bar.finish_and_clear();
        let moved = moved.map_err(|e| self.stopped(e, kept.into_inner()))?;
        self.to.sync().await?;
        if moved.ghosts > 0 {
            output::say(format_args!(
                "weft: discarded {} of {} that fell on ghosts, cells that the view implies and {} lacks",
                output::count(moved.ghosts, "byte"),
                self.from.name(),
                self.to.name()
            ));
        }
        Ok(moved)
    }

    /// Reads the share on both sides and compares. `digests`: of pieces that were just copied.
    pub(super) async fn compare(&self, digests: Vec<(u64, Digest)>) -> Result<()> {
        let bar = self.bar("verifying");
        let comparison = Comparison {
            from: self.from.clone(),
            to: self.to.clone(),
            share: self.task.share.clone(),
            step: self.task.step,
            streams: self.streams(),
            digests: digests.into_iter().collect(),
            bar: &bar,
        };
        let equal = interrupt::guard(comparison.run(), || self.not_compared()).await;
        bar.finish_and_clear();
        equal
    }

    /// Compares if requested. The progress of a part that differs is reset.
    pub(super) async fn verify(&self, digests: Vec<(u64, Digest)>) -> Result<()> {
        if !self.task.args.verify {
            return Ok(());
        }
        if let Err(error) = self.compare(digests).await {
            if interrupt::of(&error).is_some() {
                return Err(error);
            }
            if error.is::<OnGhost>() {
                return Err(
                    error.context("the copy is incomplete: some bytes have no place in the view")
                );
            }
            self.task.note(self.task.share.start, false).await?;
            return Err(
                error.context("the copy differs from its source: --resume copies this part again")
            );
        }
        Ok(())
    }

    fn bar(&self, what: &str) -> ProgressBar {
        if self.task.args.among_others {
            return ProgressBar::hidden();
        }
        progress::of_bytes(what, self.task.share.end - self.task.share.start)
    }

    fn streams(&self) -> usize {
        if self.task.args.view.one_access() {
            1
        } else {
            self.task.args.streams.into()
        }
    }

    fn last(&self) -> Option<u64> {
        let length = self.task.identity.length;
        (self.write_last && length > 0).then(|| length - 1)
    }

    /// The message when the user ends a comparison.
    fn not_compared(&self) -> String {
        let (from, to) = (self.from.name(), self.to.name());
        if self.task.args.compare {
            format!("{from} and {to} are only partially compared; nothing was changed")
        } else {
            format!(
                "{from} is completely copied to {to}, but only partially verified: continue with --resume --verify"
            )
        }
    }

    /// The error of an incomplete transfer: how far it came, and how to continue.
    fn stopped(&self, error: anyhow::Error, kept: u64) -> anyhow::Error {
        let share = &self.task.share;
        let (doing, from, to) = (self.task.doing, self.from.name(), self.to.name());
        let kept = format!(
            "{} of {} of {from} are kept in {to}",
            output::bytes(kept - share.start),
            output::bytes(share.end - share.start)
        );
        // A tree through a view is not resumed.
        let go_on = if self.task.args.among_others {
            "--force copies it again"
        } else {
            "--resume continues from there"
        };
        if let Some(signal) = interrupt::of(&error) {
            return signal.ended(format!("{doing} stopped; {kept}: {go_on}"));
        }
        let stopped = if output::is_full(&error) {
            format!(
                "{doing} stopped: no space left for {to}; {kept}; free some space, then {go_on}"
            )
        } else {
            format!("{doing} stopped; {kept}: {go_on}")
        };
        error.context(stopped)
    }
}
