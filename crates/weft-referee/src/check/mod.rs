//! Checks a history: what each open was promised, and, of operations in order, whether one order of
//! all of them explains what was read.
//!
//! `op.rs` has the types; `files.rs` turns events into operations on *segments*, which are the
//! longest runs of bytes that no operation touches in part; `sessions.rs` knows what each open was
//! promised; `visible.rs` judges each read by its own promise; `order.rs` looks for circles among
//! operations in order; `words.rs` says what is found.

mod files;
mod op;
mod order;
mod sessions;
mod visible;
mod words;

use self::words::Names;
use crate::finding::{FINDINGS_MAX, Finding, FindingKind, Report};
use crate::history::History;

/// One finding for each operation and kind: of the first place, and how many others there are.
fn joined(found: Vec<Finding>) -> Vec<Finding> {
    let mut all: Vec<(Finding, usize)> = Vec::new();
    for finding in found {
        let same = all.iter_mut().rev().find(|(other, _)| {
            (other.at, other.open, other.kind) == (finding.at, finding.open, finding.kind)
        });
        match same {
            Some((_, more)) => *more += 1,
            None => all.push((finding, 0)),
        }
    }
    let joined = all.into_iter().map(|(mut finding, more)| {
        if more > 0 {
            finding.text = format!("{}; the same at {more} other places of it", finding.text);
        }
        finding
    });
    joined.collect()
}

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
        let names = Names::new(history, &sessions, file);
        let judged = visible::judge(file, &sessions, &names);
        report.reads += judged.reads;
        report.unknown += judged.unknown;
        report.changes += judged.changes;
        let ordered = order::judge(file, &judged.sources, &names);
        report.in_order += ordered.operations;
        let mut found = judged.findings;
        found.extend(ordered.findings);
        found.sort_by_key(|finding| finding.at);
        let found = joined(found);
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
