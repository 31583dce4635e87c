//! Checks a history: what each open was promised, and, of operations in order, whether one order of
//! all of them explains what was read.
//!
//! `files.rs` turns events into operations on *segments*, which are the longest runs of bytes that
//! no operation touches in part; `sessions.rs` knows what each open was promised; `visible.rs`
//! judges each read by its own promise; `order.rs` looks for circles among operations in order.

mod files;
mod order;
mod sessions;
mod visible;

use serde::Serialize;

use crate::history::{History, OpenId};
use crate::render;

/// What a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The file system has broken a promise.
    Violation,
    /// A program got more than it had asked for, and may not get it next time.
    Relied,
    /// Something could not be checked.
    Unchecked,
}

/// Something that the referee has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// Nanoseconds since the epoch when the operation began that shows it.
    pub at: i64,
    /// The open of that operation.
    pub open: Option<OpenId>,
    /// The file.
    pub path: String,
    /// In words.
    pub text: String,
}

/// What the referee says of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Findings, the first one in time first; at most [`FINDINGS_MAX`] of each file and kind.
    pub findings: Vec<Finding>,
    /// Files of the history.
    pub files: u64,
    /// Opens.
    pub opens: u64,
    /// Reads that were judged.
    pub reads: u64,
    /// Changes.
    pub changes: u64,
    /// Operations in order, which were judged together.
    pub in_order: u64,
}

impl Report {
    /// The first finding of a kind.
    pub fn first(&self, kind: FindingKind) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.kind == kind)
    }
}

/// The most findings of a file and kind: the first says most.
const FINDINGS_MAX: usize = 10;

/// Checks a history. Cost: for each segment, its reads times its changes; for operations in order,
/// the square of those that overlap in time.
pub fn check(history: &History) -> Report {
    let sessions = sessions::Sessions::of(history);
    let mut report = Report {
        opens: sessions.count(),
        ..Report::default()
    };
    let (files, unchecked) = files::files_of(history, &sessions);
    report.findings.extend(unchecked);
    for file in &files {
        report.files += 1;
        let names = render::Names::new(history, &sessions, file);
        let judged = visible::judge(file, &sessions, &names);
        report.reads += judged.reads;
        report.changes += judged.changes;
        let ordered = order::judge(file, &judged.sources, &names);
        report.in_order += ordered.operations;
        let mut found = judged.findings;
        found.extend(ordered.findings);
        found.sort_by_key(|finding| finding.at);
        for kind in [
            FindingKind::Violation,
            FindingKind::Relied,
            FindingKind::Unchecked,
        ] {
            let of_kind = found.iter().filter(|finding| finding.kind == kind);
            report.findings.extend(of_kind.take(FINDINGS_MAX).cloned());
        }
    }
    report.findings.sort_by_key(|finding| finding.at);
    report
}

pub(crate) use files::{FileOps, Op};
pub(crate) use sessions::Sessions;
