//! What the referee says.

use serde::Serialize;

use crate::history::OpenId;

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
    /// Findings, the first one in time first; at most ten of each file and kind.
    pub findings: Vec<Finding>,
    /// Files of the history.
    pub files: u64,
    /// Opens.
    pub opens: u64,
    /// Reads that were judged.
    pub reads: u64,
    /// Reads of bytes that were there before: what those relied on is not known.
    pub unknown: u64,
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
pub(crate) const FINDINGS_MAX: usize = 10;
