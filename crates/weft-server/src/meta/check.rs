//! The check of the namespace that is running, or was the last.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_meta::CheckObserver;
use weft_proto::fsck::{CheckNamespaceReply, CheckNamespaceRequest, Finding};
use weft_proto::limits::SCRUB_FINDINGS_MAX;

use crate::limits::CHECK_FINDINGS_MAX;

/// Holds one check; a new one ends the previous.
#[derive(Clone, Default)]
pub(super) struct CheckSlot(Arc<Mutex<CheckPass>>);

#[derive(Default)]
struct CheckPass {
    number: u64,
    report: CheckNamespaceReply,
    ended: bool,
    /// The findings include the intents that servers refuse.
    has_refused: bool,
}

impl CheckPass {
    fn add(&mut self, finding: Finding) {
        if self.report.findings.len() < CHECK_FINDINGS_MAX {
            self.report.findings.push(finding);
        } else {
            self.report.more += 1;
        }
    }
}

impl CheckSlot {
    /// Whether the check of this number is here.
    pub(super) fn is(&self, number: u64) -> bool {
        self.0.lock().number == number
    }

    /// Replaces the check by a new one of about `total` files.
    pub(super) fn begin(&self, number: u64, total: u64) -> CheckRecorder {
        *self.0.lock() = CheckPass {
            number,
            report: CheckNamespaceReply {
                total,
                ..CheckNamespaceReply::default()
            },
            ..CheckPass::default()
        };
        CheckRecorder {
            slot: self.clone(),
            number,
        }
    }

    /// Whether the check of this number still lacks the intents that servers refuse.
    pub(super) fn lacks_refused(&self, number: u64) -> bool {
        let pass = self.0.lock();
        pass.number == number && !pass.has_refused
    }

    /// Adds the intents that servers refuse, once.
    pub(super) fn add_refused(&self, number: u64, refused: Vec<Finding>) {
        let mut pass = self.0.lock();
        if pass.number == number && !std::mem::replace(&mut pass.has_refused, true) {
            for finding in refused {
                pass.add(finding);
            }
        }
    }

    /// The progress of a check, with findings from `request.seen` on.
    pub(super) fn report(&self, request: &CheckNamespaceRequest) -> CheckNamespaceReply {
        let pass = self.0.lock();
        if pass.number != request.pass {
            // Another check has replaced it: at the next request it starts over.
            return CheckNamespaceReply::default();
        }
        let report = &pass.report;
        let seen = report.findings.len().min(request.seen as usize);
        let end = report.findings.len().min(seen + SCRUB_FINDINGS_MAX);
        CheckNamespaceReply {
            done: pass.ended && pass.has_refused && end == report.findings.len(),
            findings: report.findings[seen..end].to_vec(),
            records: report.records,
            files: report.files,
            total: report.total,
            more: report.more,
            failed: report.failed.clone(),
        }
    }
}

/// Records the findings of a check, as long as it is in its slot.
#[derive(Clone)]
pub(super) struct CheckRecorder {
    slot: CheckSlot,
    number: u64,
}

impl CheckRecorder {
    /// Ends the check; `failed` is empty if it went well.
    pub(super) fn end(&self, failed: String) {
        let mut pass = self.slot.0.lock();
        if pass.number == self.number {
            pass.ended = true;
            pass.report.failed = failed;
        }
    }
}

impl CheckObserver for CheckRecorder {
    fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()> {
        let mut pass = self.slot.0.lock();
        if pass.number != self.number {
            return ControlFlow::Break(());
        }
        pass.report.records += records;
        pass.report.files += files;
        ControlFlow::Continue(())
    }

    fn found(&mut self, finding: Finding) {
        let mut pass = self.slot.0.lock();
        if pass.number == self.number {
            pass.add(finding);
        }
    }
}
