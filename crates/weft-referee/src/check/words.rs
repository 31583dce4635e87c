//! Findings in words.

use weft_policy::{Kept as KeptNames, Values};

use super::op::{FileOps, Op};
use super::sessions::Sessions;
use crate::finding::{Finding, FindingKind};
use crate::history::{History, Promise};

/// Names what findings of one file speak of.
pub(super) struct Names<'a> {
    history: &'a History,
    sessions: &'a Sessions,
    file: &'a FileOps,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        history: &'a History,
        sessions: &'a Sessions,
        file: &'a FileOps,
    ) -> Names<'a> {
        Names {
            history,
            sessions,
            file,
        }
    }

    fn finding(&self, kind: FindingKind, op: &Op, text: String) -> Finding {
        Finding {
            kind,
            at: op.begin,
            open: Some(op.open),
            path: self.file.path.clone(),
            text,
        }
    }

    fn promise(&self, op: &Op) -> Option<&Promise> {
        self.sessions.promise_of(op)
    }

    /// `read by process 7 on alpha (open 3, policy session) from 10:00:00.000001 to …`.
    fn op(&self, op: &Op) -> String {
        let policy = match self.promise(op).map(|promise| promise.policy.as_str()) {
            None | Some("") => "no policy".to_owned(),
            Some(name) => format!("policy {name}"),
        };
        let what = if op.changes { "write" } else { "read" };
        let end = op.end.map_or_else(
            || "not known to have ended".to_owned(),
            |end| format!("to {}", time(end)),
        );
        format!(
            "the {what} by {} (open {}, {policy}) from {} {end}",
            self.history.client_of(op.open),
            op.open.0 & 0xffff_ffff,
            time(op.begin)
        )
    }

    fn place(&self, segment: u32) -> String {
        let segment = self.file.segments[segment as usize];
        let path = &self.file.path;
        if segment.end == u64::MAX {
            return format!(
                "{path}, cell {} from byte {} on",
                segment.cell, segment.start
            );
        }
        format!(
            "{path}, cell {}, bytes {}..{}",
            segment.cell, segment.start, segment.end
        )
    }

    /// A read saw a change that was not promised to it.
    pub(super) fn relied(&self, read: &Op, change: &Op, segment: u32) -> Finding {
        let enough = self.enough(change, read);
        let advice = if enough.is_empty() {
            "no policy promises it: order the two by other means, a barrier for example".to_owned()
        } else {
            format!("it is promised by {}", enough.join(", "))
        };
        let text = format!(
            "{}: {} saw {}, which its policy does not promise; {advice}",
            self.place(segment),
            self.op(read),
            self.op(change)
        );
        self.finding(FindingKind::Relied, read, text)
    }

    /// The policies under which a read would have been promised what it saw.
    fn enough(&self, change: &Op, read: &Op) -> Vec<&'static str> {
        let own = |until_sync| Values {
            names: KeptNames::Own {
                believed: None,
                until_sync,
            },
            ..Values::RECKLESS
        };
        let in_order = Values {
            in_order: true,
            ..Values::RECKLESS
        };
        // From the least strict one on.
        let known = [
            ("session", own(false)),
            ("rel-1", own(true)),
            ("for-1 and for-2", Values::RECKLESS),
            ("posix, seq-1 and seq-2", in_order),
        ];
        let promises = |(name, values): &(&'static str, Values)| {
            let promise = Promise::of(name, *values);
            let at_once = change.end.is_none_or(|end| end >= read.begin);
            let in_order = at_once && values.in_order && change.in_order;
            (in_order || self.sessions.promised_by(&promise, change, read)).then_some(*name)
        };
        known.iter().filter_map(promises).collect()
    }

    /// A read saw one of two changes of which either could have stayed.
    pub(super) fn raced(&self, read: &Op, one: &Op, other: &Op, segment: u32) -> Finding {
        let text = format!(
            "{}: {} saw {}, and {} at the same time could have stayed as well: their policies do not order them",
            self.place(segment),
            self.op(read),
            self.op(one),
            self.op(other)
        );
        self.finding(FindingKind::Relied, read, text)
    }

    /// A read returned bytes that were overwritten.
    pub(super) fn overwritten(
        &self,
        read: &Op,
        old: Option<&Op>,
        by: &Op,
        segment: u32,
    ) -> Finding {
        let of = old.map_or_else(
            || "bytes that were there at first".to_owned(),
            |old| format!("bytes of {}", self.op(old)),
        );
        let text = format!(
            "{}: {} returned {of}, which {} had overwritten before; the read was promised to see it",
            self.place(segment),
            self.op(read),
            self.op(by)
        );
        self.finding(FindingKind::Violation, read, text)
    }

    /// A read returned bytes that nobody wrote.
    pub(super) fn nobodys(&self, read: &Op, segment: u32) -> Finding {
        let text = format!(
            "{}: {} returned bytes that no recorded client had written by then: did all clients of the run record?",
            self.place(segment),
            self.op(read)
        );
        self.finding(FindingKind::Violation, read, text)
    }

    /// No order of these operations explains what was read.
    pub(super) fn circle(&self, ops: &[&Op]) -> Finding {
        let named: Vec<String> = ops.iter().take(6).map(|op| self.op(op)).collect();
        let more = if ops.len() > named.len() {
            format!(", and {} more", ops.len() - named.len())
        } else {
            String::new()
        };
        let text = format!(
            "{}: no one order of these operations, all of which are promised to be atomic and in one order, explains what was read: {}{more}",
            self.file.path,
            named.join("; ")
        );
        self.finding(FindingKind::Violation, ops[0], text)
    }

    /// Too many operations at once.
    pub(super) fn unordered(&self, operations: usize, most: usize, at: i64) -> Finding {
        Finding {
            kind: FindingKind::Unchecked,
            at,
            open: None,
            path: self.file.path.clone(),
            text: format!(
                "{}: the order of {operations} operations is not checked: at no moment between them was none under way, and {most} are the most",
                self.file.path
            ),
        }
    }
}

/// The time of day, in UTC.
fn time(nanoseconds: i64) -> String {
    let in_day = nanoseconds.rem_euclid(86_400 * 1_000_000_000);
    let (seconds, micros) = (in_day / 1_000_000_000, in_day % 1_000_000_000 / 1_000);
    format!(
        "{:02}:{:02}:{:02}.{micros:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}
