//! What each open was promised, and when it began, synced and ended.

use std::collections::HashMap;

use super::op::Op;
use crate::history::{History, Kept, OpenId, Promise, What};

/// One open.
pub(crate) struct Session {
    pub(crate) file: u64,
    pub(crate) path: String,
    pub(crate) created: bool,
    /// When it began.
    begin: i64,
    /// When its close was answered.
    closed: Option<i64>,
    /// Begins and ends of syncs.
    syncs: Vec<(i64, i64)>,
    /// From when on which promise holds, ascending.
    promises: Vec<(i64, Promise)>,
}

/// All opens of a history.
pub(crate) struct Sessions {
    all: HashMap<OpenId, Session>,
    /// By how much the clock of a client may be wrong: operations are that much longer.
    half_skew: i64,
}

impl Sessions {
    pub(super) fn of(history: &History) -> Sessions {
        let mut all = HashMap::new();
        let mut later = Vec::new();
        for event in &history.events {
            match &event.what {
                What::Open {
                    file,
                    path,
                    created,
                    promise,
                } => {
                    let session = Session {
                        file: *file,
                        path: path.clone(),
                        created: *created,
                        begin: event.begin,
                        closed: None,
                        syncs: Vec::new(),
                        promises: vec![(event.begin, promise.clone())],
                    };
                    all.insert(event.open, session);
                }
                What::Policy { .. } | What::Sync | What::Close => later.push(event),
                What::Read { .. } | What::Write { .. } | What::Clear { .. } => {}
            }
        }
        later.sort_by_key(|event| event.begin);
        for event in later {
            let Some(session) = all.get_mut(&event.open) else {
                continue;
            };
            match (&event.what, event.end) {
                (What::Policy { promise }, _) => {
                    session.promises.push((event.begin, promise.clone()));
                }
                (What::Sync, Some(end)) => session.syncs.push((event.begin, end)),
                (What::Close, Some(end)) => session.closed = Some(end),
                _ => {}
            }
        }
        let half = i64::try_from(history.skew.as_nanos()).unwrap_or(i64::MAX) / 2;
        Sessions {
            all,
            half_skew: half,
        }
    }

    pub(super) fn half_skew(&self) -> i64 {
        self.half_skew
    }

    /// When an operation began, by the clock of its client.
    fn began(&self, op: &Op) -> i64 {
        op.begin.saturating_add(self.half_skew)
    }

    /// When a change that was answered then has left its client for certain, by its clock.
    pub(super) fn left(&self, open: OpenId, begin: i64, answered: i64) -> Option<i64> {
        self.get(open)?.left(begin, answered)
    }

    /// What an operation was promised.
    pub(crate) fn promise_of(&self, op: &Op) -> Option<&Promise> {
        self.get(op.open)?.promise_at(self.began(op))
    }

    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(crate) fn get(&self, open: OpenId) -> Option<&Session> {
        self.all.get(&open)
    }

    /// Whether a file was made by an open of the history.
    pub(super) fn creates(&self, file: u64) -> bool {
        self.all
            .values()
            .any(|session| session.file == file && session.created)
    }

    /// Whether the promise of a read says that it sees a change, or a newer one.
    pub(super) fn promised(&self, change: &Op, read: &Op) -> bool {
        let promise = self.promise_of(read);
        promise.is_some_and(|promise| self.promised_by(promise, change, read))
    }

    /// As [`Sessions::promised`], if the read had asked for this.
    pub(crate) fn promised_by(&self, promise: &Promise, change: &Op, read: &Op) -> bool {
        let began = self.began(read);
        if change.open == read.open {
            // One clock, and its own writes, wherever they are.
            return change.answered.is_some_and(|answered| answered < began);
        }
        let (Some(writer), Some(reader)) = (self.get(change.open), self.get(read.open)) else {
            return false;
        };
        let before = |moment: Option<i64>, other| moment.is_some_and(|moment| moment < other);
        let left = change.end;
        match promise.names {
            Kept::None | Kept::Coherent => before(left, read.begin),
            Kept::Own {
                believed_ms,
                until_sync,
            } => {
                // By the clock of the reader, which may be ahead; and the writer's behind.
                let since = reader.began_to_believe(began, until_sync);
                let since = since.saturating_sub(self.half_skew);
                let closed = writer.closed.map(|at| at.saturating_add(self.half_skew));
                let happened = left.is_some();
                let seen_first = if promise.from_closes {
                    closed.filter(|_| happened)
                } else {
                    left
                };
                let believed = believed_ms.cast_signed().saturating_mul(1_000_000);
                let expired = read.begin.saturating_sub(believed);
                before(seen_first, since) || believed_ms > 0 && before(left, expired)
            }
        }
    }
}

impl Session {
    /// What holds at a moment.
    pub(crate) fn promise_at(&self, moment: i64) -> Option<&Promise> {
        let last = self.promises.iter().rev();
        let at = last.clone().find(|(from, _)| *from <= moment);
        at.or(self.promises.first()).map(|(_, promise)| promise)
    }

    /// When a change that was answered then had left the client for certain.
    fn left(&self, begin: i64, answered: i64) -> Option<i64> {
        let delayed = self
            .promise_at(begin)
            .is_some_and(|promise| promise.delay_ms > 0);
        if !delayed {
            return Some(answered);
        }
        let synced = self.syncs.iter().filter(|(begin, _)| *begin >= answered);
        synced.map(|(_, end)| *end).chain(self.closed).min()
    }

    /// Since when a read may use what the open has seen before.
    fn began_to_believe(&self, read: i64, until_sync: bool) -> i64 {
        let synced = self
            .syncs
            .iter()
            .filter(|(_, end)| until_sync && *end < read);
        let changed = self.promises.iter().map(|(from, _)| *from);
        let began = synced.map(|(begin, _)| *begin).chain(changed);
        began
            .filter(|moment| *moment <= read)
            .fold(self.begin, i64::max)
    }
}
