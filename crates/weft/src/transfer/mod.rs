//! Moves a file between the local file system and a view of a file of the volume: in parts that different processes and
//! machines take, in pieces that are under way at the same time, resumable, verified.
//!
//! The view decides which bytes move and in which order: byte `i` of the local file is byte `--offset + i` of the view.
//! Which bytes are a part's follows from the length, the part's number and the number of parts; the parts never talk to
//! each other, and what one does at the target (creating it, setting its size, the marks of [`mark`]) is right whether
//! another did it before, does it at the same time or will do it again.
//!
//! Invariants:
//! 1. A part writes its own share only; the target's size is set to the transfer's before anything is written.
//! 2. What is noted as done is durable.
//! 3. A transfer whose source has changed never ends well.
//! 4. Nothing that holds data is written over unasked.
//! 5. Progress is not taken for bytes that are not at the target any more ([`target`]).
//!
//! Trees go through [`crate::copy`], which has several files under way at a time; file by file ([`each`]) where there is a view,
//! or nothing is copied.
//!
//! # Source
//! Vesta §4.6.

mod args;
mod begin;
mod each;
mod export;
mod hole;
mod import;
mod mark;
mod part;
mod pump;
mod report;
mod side;
mod target;
mod task;
mod tree;
mod verify;

use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, bail};
use futures_util::FutureExt;
use indicatif::ProgressBar;
use weft_client::Volume;
use weft_proto::limits::TRANSFER_MAX;

pub(crate) use args::TransferArgs;
pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use part::Part;
use pump::{Digest, Moved, Pump};
pub(crate) use report::Summary;
use side::Side;
use task::Task;
pub(crate) use tree::{export_tree, import_tree};
use verify::{Comparison, OnGhost};

use crate::args::Global;
use crate::args::ViewArgs;
use crate::remote::connect;
use crate::terminal::interrupt::Orderly;
use crate::terminal::{interrupt, output, progress};

/// Connects to the volume that the command line names, and carries out `copy` until it ends or the user asks for an end.
pub(crate) fn run(
    global: &Global,
    copy: impl AsyncFnOnce(&Volume) -> Result<ExitCode>,
) -> Result<ExitCode> {
    connect::block_on(async {
        let volume = connect::volume(global).await?;
        // What is under way hears of a signal by itself.
        interrupt::guard(copy(&volume), || {
            "nothing was copied yet, or all of it was: --resume finds out and goes on".to_owned()
        })
        .await
    })
}

/// Bytes of a piece.
const PIECE: u64 = 4 << 20;

/// One part of a transfer, both of whose sides are open.
struct Transfer<'a> {
    task: &'a Task<'a>,
    from: Side,
    to: Side,
    /// Other bytes may lie at the target.
    old: bool,
    /// The target ends after the transfer's last byte only if that is written.
    write_last: bool,
}

impl Transfer<'_> {
    /// Copies the share from `at` on, and makes it durable.
    async fn copy(&self, at: u64) -> Result<Moved> {
        let task = self.task;
        // From here on a signal is heard by the pump.
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
                "weft: {} of {} fell on ghosts, cells that the view implies and {} lacks, and went nowhere",
                output::count(moved.ghosts, "byte"),
                self.from.name(),
                self.to.name()
            ));
        }
        Ok(moved)
    }

    /// Reads the share on both sides and compares. `digests`: of pieces that were just copied.
    async fn compare(&self, digests: Vec<(u64, Digest)>) -> Result<()> {
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

    /// Compares if that is wanted; a part that is not what it should be is to be copied again.
    async fn verify(&self, digests: Vec<(u64, Digest)>) -> Result<()> {
        if !self.task.args.verify {
            return Ok(());
        }
        if let Err(error) = self.compare(digests).await {
            if interrupt::of(&error).is_some() {
                return Err(error);
            }
            if error.is::<OnGhost>() {
                return Err(error.context("the copy is not all of its source, and cannot be"));
            }
            self.task.note(self.task.share.start, false).await?;
            return Err(error.context(
                "the copy is not what it should be; with --resume this part is copied again",
            ));
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

    /// What is to be said when the user ends a comparison.
    fn not_compared(&self) -> String {
        let (from, to) = (self.from.name(), self.to.name());
        if self.task.args.compare {
            format!("{from} and {to} are compared in part only; nothing was changed")
        } else {
            format!(
                "all of {from} is copied to {to}, and verified in part only: give --resume and --verify"
            )
        }
    }

    /// Says how far a transfer came that ends half way, and what can be done about it.
    fn stopped(&self, error: anyhow::Error, kept: u64) -> anyhow::Error {
        let share = &self.task.share;
        let (doing, from, to) = (self.task.doing, self.from.name(), self.to.name());
        let kept = format!(
            "{} of {} of {from} are in {to} and stay there",
            output::bytes(kept - share.start),
            output::bytes(share.end - share.start)
        );
        // A tree through a view is not resumed.
        let go_on = if self.task.args.among_others {
            "--force copies it again"
        } else {
            "--resume goes on from there"
        };
        if let Some(signal) = interrupt::of(&error) {
            return signal.ended(format!("{doing} stopped; {kept}: {go_on}"));
        }
        let stopped = if output::is_full(&error) {
            format!("{doing} stopped: no room is left for {to}; {kept}; make room, then {go_on}")
        } else {
            format!("{doing} stopped; {kept}: {go_on}")
        };
        error.context(stopped)
    }
}

/// The source was changed while it was copied.
fn changed(source: &str, how: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{source} changed while it was copied ({how}), so the copy is a mixture: copy it again with --force"
    )
}

/// Bytes of a piece: of a view whose order depends on how it is cut, everything.
fn step(view: &ViewArgs, part: Part, length: u64) -> Result<u64> {
    if !view.one_access() {
        return Ok(PIECE);
    }
    if part != Part::WHOLE {
        bail!("--order column rearranges the bytes of one access, so it cannot be done in parts");
    }
    if length > TRANSFER_MAX {
        bail!(
            "--order column rearranges the bytes of one access, and {length} bytes are too many for one: give --offset \
             and --length of at most {TRANSFER_MAX} bytes"
        );
    }
    Ok(length.max(1))
}

/// The view in words that are equal for equal views.
fn view_text(view: &ViewArgs) -> String {
    format!("{:?} {} {}", view.view(), view.fork(), view.start())
}

/// Refuses what is no regular file.
fn regular(name: &str, is_file: bool, is_directory: bool, instead: &str) -> Result<()> {
    if is_directory {
        bail!("{name} is a directory: -r takes it with everything in it");
    }
    if !is_file {
        bail!("{name} is no regular file, so its bytes have no places: {instead}");
    }
    Ok(())
}

/// An end that cannot be: more than the largest offset.
fn end_of(start: u64, length: u64) -> Result<u64> {
    start
        .checked_add(length)
        .context("--offset and the length together are past the largest offset")
}
