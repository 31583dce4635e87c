//! Judges each read by the promise of its open.
//!
//! A read may return of a segment what a change wrote that began before the read ended, unless a
//! later change is *promised* to it: then what that overwrote is a violation. What it returns of a
//! change that was not promised to it, it got by luck.

use std::collections::HashMap;

use super::op::{FileOps, Op, Part, Value, ZEROS};
use super::sessions::Sessions;
use super::words::Names;
use crate::finding::Finding;

/// Where the bytes of a part of a read come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// They were there before all changes.
    Initial,
    /// From this change.
    Change(usize),
}

/// What was found of one file.
#[derive(Default)]
pub(super) struct Judged {
    pub(super) findings: Vec<Finding>,
    pub(super) reads: u64,
    pub(super) changes: u64,
    /// Reads of bytes that were there before the history.
    pub(super) unknown: u64,
    /// For each read, by its place, the segments whose bytes can come from one change only.
    pub(super) sources: HashMap<usize, Vec<(u32, Source)>>,
}

/// A change of a segment.
struct Change {
    op: usize,
    value: Value,
}

pub(super) fn judge(file: &FileOps, sessions: &Sessions, names: &Names<'_>) -> Judged {
    let mut judged = Judged::default();
    let mut changes: Vec<Vec<Change>> = file.segments.iter().map(|_| Vec::new()).collect();
    for (op, of) in file.ops.iter().enumerate() {
        if of.changes {
            judged.changes += 1;
            for part in &of.parts {
                let value = part.value;
                changes[part.segment as usize].push(Change { op, value });
            }
        }
    }
    // What a segment had before the history, where the history does not say: what the first read of
    // it returned that nobody wrote.
    let mut initial: HashMap<u32, Value> = HashMap::new();
    for (number, read) in file.ops.iter().enumerate() {
        let Some(ended) = read.end.filter(|_| !read.changes) else {
            continue;
        };
        judged.reads += 1;
        let mut unknown = false;
        for part in &read.parts {
            let of_segment = &changes[part.segment as usize];
            let known = initial.get(&part.segment).copied();
            let overwritten = || {
                let mut ops = of_segment.iter().map(|change| &file.ops[change.op]);
                ops.any(|op| sessions.promised(op, read))
            };
            let before = if file.created {
                Some(ZEROS)
            } else if known.is_none() && !overwritten() {
                // It can have been there at first; it was, if nobody had begun to write it.
                let written = of_segment
                    .iter()
                    .any(|change| change.value == part.value && file.ops[change.op].begin <= ended);
                if !written {
                    initial.insert(part.segment, part.value);
                }
                Some(part.value)
            } else {
                known
            };
            let seen = Seen {
                file,
                sessions,
                read,
                ended,
                part: *part,
                before,
            };
            let verdict = seen.judge(of_segment);
            unknown |= !file.created && matches!(verdict, Verdict::From(Source::Initial));
            match verdict {
                Verdict::From(source) => {
                    let sources = judged.sources.entry(number).or_default();
                    sources.push((part.segment, source));
                }
                Verdict::Ambiguous => {}
                Verdict::Relied(change, source) => {
                    if let Some(source) = source {
                        let sources = judged.sources.entry(number).or_default();
                        sources.push((part.segment, source));
                    }
                    judged
                        .findings
                        .push(names.relied(read, &file.ops[change], part.segment));
                }
                Verdict::Raced(one, other) => {
                    let (one, other) = (&file.ops[one], &file.ops[other]);
                    judged
                        .findings
                        .push(names.raced(read, one, other, part.segment));
                }
                Verdict::Overwritten(old, by) => {
                    let old = old.map(|old| &file.ops[old]);
                    let by = &file.ops[by];
                    judged
                        .findings
                        .push(names.overwritten(read, old, by, part.segment));
                }
                Verdict::Nobodys => {
                    judged.findings.push(names.nobodys(read, part.segment));
                }
            }
        }
        judged.unknown += u64::from(unknown);
    }
    judged
}

/// One part of a read.
struct Seen<'a> {
    file: &'a FileOps,
    sessions: &'a Sessions,
    read: &'a Op,
    ended: i64,
    part: Part,
    /// What was there before all changes, as far as that is known.
    before: Option<Value>,
}

enum Verdict {
    From(Source),
    /// Several changes wrote the same bytes.
    Ambiguous,
    /// It saw this change, which was not promised.
    Relied(usize, Option<Source>),
    /// It saw the first of two changes at once, of which either could have stayed.
    Raced(usize, usize),
    /// What it saw had been overwritten by the second.
    Overwritten(Option<usize>, usize),
    Nobodys,
}

impl Seen<'_> {
    fn op(&self, change: &Change) -> &Op {
        &self.file.ops[change.op]
    }

    fn judge(&self, changes: &[Change]) -> Verdict {
        let promised: Vec<&Change> = changes
            .iter()
            .filter(|change| self.sessions.promised(self.op(change), self.read))
            .collect();
        // The last promised one overwrites what had ended before it began.
        let last = promised.iter().max_by_key(|change| self.op(change).begin);
        let since = last.map_or(i64::MIN, |change| self.op(change).begin);
        let may_be_seen = |change: &&Change| {
            let op = self.op(change);
            op.begin <= self.ended && op.end.is_none_or(|end| end >= since)
        };
        let equal: Vec<&Change> = changes
            .iter()
            .filter(|change| change.value == self.part.value)
            .collect();
        let matching: Vec<&Change> = equal.iter().copied().filter(may_be_seen).collect();
        let initially = self.before == Some(self.part.value) && last.is_none();
        match (&matching[..], initially) {
            ([], true) => Verdict::From(Source::Initial),
            ([], false) => match last {
                Some(by) if !equal.is_empty() || self.before == Some(self.part.value) => {
                    let old = equal.iter().max_by_key(|change| self.op(change).begin);
                    match old {
                        // It begins after the read has ended.
                        Some(old) if self.op(old).begin > self.ended && equal.len() == 1 => {
                            self.unexplained(changes, since)
                        }
                        old => Verdict::Overwritten(old.map(|old| old.op), by.op),
                    }
                }
                _ => self.unexplained(changes, since),
            },
            ([change], false) => self.judge_source(change, &promised, since),
            _ => Verdict::Ambiguous,
        }
    }

    /// Bytes that no one change wrote: they may be a mixture of several that may be seen, unless
    /// all are atomic.
    fn unexplained(&self, changes: &[Change], since: i64) -> Verdict {
        let may_be_seen =
            |op: &&Op| op.begin <= self.ended && op.end.is_none_or(|end| end >= since);
        let ops = changes.iter().map(|change| self.op(change));
        let seen: Vec<&Op> = ops.filter(may_be_seen).collect();
        let atomic = self.read.in_order && seen.iter().all(|op| op.in_order);
        let initially = usize::from(since == i64::MIN);
        if !atomic && seen.len() + initially > 1 {
            Verdict::Ambiguous
        } else {
            Verdict::Nobodys
        }
    }

    /// The read has seen this change; was that promised?
    fn judge_source(&self, change: &Change, promised: &[&Change], since: i64) -> Verdict {
        let source = Source::Change(change.op);
        let op = self.op(change);
        if op.open != self.read.open && !self.sessions.promised(op, self.read) {
            let both_in_order = op.in_order && self.read.in_order;
            // What is in order may be on either side of what happens at the same time.
            if both_in_order && op.end.is_none_or(|end| end >= self.read.begin) {
                return Verdict::From(source);
            }
            return Verdict::Relied(change.op, Some(source));
        }
        // Another promised one that neither overwrote it nor was overwritten by it.
        let rival = promised.iter().find(|rival| {
            let other = self.op(rival);
            let at_once = other.end.is_none_or(|end| end >= op.begin)
                && op.end.is_none_or(|end| end >= other.begin);
            rival.op != change.op
                && rival.value != change.value
                && at_once
                && other.end.is_none_or(|end| end >= since)
                && !(other.in_order && op.in_order)
                && other.open != op.open
        });
        match rival {
            Some(rival) => Verdict::Raced(change.op, rival.op),
            None => Verdict::From(source),
        }
    }
}
