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
pub(crate) struct Sessions(HashMap<OpenId, Session>);

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
        Sessions(all)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn get(&self, open: OpenId) -> Option<&Session> {
        self.0.get(&open)
    }

    /// Whether a file was made by an open of the history.
    pub(super) fn creates(&self, file: u64) -> bool {
        self.0
            .values()
            .any(|session| session.file == file && session.created)
    }

    /// Whether the promise of a read says that it sees a change, or a newer one.
    pub(super) fn promised(&self, change: &Op, read: &Op) -> bool {
        let promise = self
            .get(read.open)
            .and_then(|session| session.promise_at(read.begin));
        promise.is_some_and(|promise| self.promised_by(promise, change, read))
    }

    /// As [`Sessions::promised`], if the read had asked for this.
    pub(crate) fn promised_by(&self, promise: &Promise, change: &Op, read: &Op) -> bool {
        let Some(done) = change.end else {
            return false;
        };
        if change.open == read.open {
            return done < read.begin;
        }
        let (Some(writer), Some(reader)) = (self.get(change.open), self.get(read.open)) else {
            return false;
        };
        let before = |moment: Option<i64>, since| moment.is_some_and(|moment| moment < since);
        let left = writer.left(change.begin, done);
        match promise.names {
            Kept::None | Kept::Coherent => before(left, read.begin),
            Kept::Own {
                believed_ms,
                until_sync,
            } => {
                let began = reader.began_to_believe(read.begin, until_sync);
                let seen_first = if promise.from_closes {
                    writer.closed
                } else {
                    left
                };
                let believed = believed_ms.cast_signed().saturating_mul(1_000_000);
                let expired = read.begin.saturating_sub(believed);
                before(seen_first, began) || believed_ms > 0 && before(left, expired)
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
