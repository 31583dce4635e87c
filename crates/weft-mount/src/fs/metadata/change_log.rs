//! What has changed lately, so that an answer that was in flight meanwhile is recognized as
//! overtaken.
//!
//! A caller takes [`ChangeLog::now`] before it asks the service; when the answer is here,
//! [`ChangeLog::overtaken`] says whether its subject may have changed in between. While the watch
//! is live, an answer that was not overtaken is true until a change is logged; else nothing is
//! certain.
//!
//! Time is a counter of changes. Changes are kept in two generations of bounded size; an answer
//! that was asked for before the older one counts as overtaken.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::limits::CHANGES_PER_GENERATION;
use parking_lot::Mutex;

/// The moment at which something was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskedAt(u64);

/// A subject of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::fs) enum Subject {
    /// A file's attributes or data.
    File(u64),
    /// The target of a name in a directory; by the name's hash.
    Name(u64, u64),
}

/// Changes that the watch reports, and this mount's.
#[derive(Debug, Default)]
pub(in crate::fs) struct ChangeLog {
    time: AtomicU64,
    live: AtomicBool,
    hasher: RandomState,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    recent: HashMap<Subject, u64>,
    old: HashMap<Subject, u64>,
    /// When the recent generation began.
    began: u64,
    /// Nothing is known about answers from before this.
    floor: u64,
}

impl ChangeLog {
    pub(in crate::fs) fn now(&self) -> AskedAt {
        AskedAt(self.time.load(Ordering::Acquire))
    }

    /// Whether every change is reported.
    pub(in crate::fs) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    pub(in crate::fs) fn name(&self, directory: u64, name: &[u8]) -> Subject {
        Subject::Name(directory, self.hash(name))
    }

    pub(in crate::fs) fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    pub(in crate::fs) fn record(&self, subject: Subject) {
        let mut generations = self.generations.lock();
        let time = self.time.fetch_add(1, Ordering::AcqRel) + 1;
        generations.recent.insert(subject, time);
        if generations.recent.len() >= CHANGES_PER_GENERATION {
            generations.floor = generations.began;
            generations.began = time;
            generations.old = std::mem::take(&mut generations.recent);
        }
    }

    /// Anything may have changed; from now on the watch is live or not.
    pub(in crate::fs) fn record_all(&self, live: bool) {
        self.live.store(false, Ordering::Release);
        let mut generations = self.generations.lock();
        let time = self.time.fetch_add(1, Ordering::AcqRel) + 1;
        *generations = Generations {
            began: time,
            floor: time,
            ..Generations::default()
        };
        drop(generations);
        self.live.store(live, Ordering::Release);
    }

    /// Whether a subject may have changed since.
    pub(in crate::fs) fn overtaken(&self, asked: AskedAt, subject: Subject) -> bool {
        !self.is_live() || self.changed_since(asked, subject)
    }

    /// Whether a change of a subject was logged since.
    pub(in crate::fs) fn changed_since(&self, asked: AskedAt, subject: Subject) -> bool {
        let AskedAt(asked) = asked;
        if self.time.load(Ordering::Acquire) == asked {
            return false;
        }
        let generations = self.generations.lock();
        let later = |time: &u64| *time > asked;
        asked < generations.floor
            || generations.recent.get(&subject).is_some_and(later)
            || generations.old.get(&subject).is_some_and(later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> ChangeLog {
        let log = ChangeLog::default();
        log.record_all(true);
        log
    }

    #[test]
    fn an_answer_is_overtaken_only_by_changes_of_its_subject() {
        let log = live();
        let asked = log.now();
        log.record(Subject::File(7));
        assert!(log.overtaken(asked, Subject::File(7)));
        assert!(!log.overtaken(asked, Subject::File(8)));
        assert!(!log.overtaken(log.now(), Subject::File(7)));
        let (a, b) = (log.name(1, b"a"), log.name(1, b"b"));
        log.record(a);
        assert!(log.overtaken(asked, a) && !log.overtaken(asked, b));
    }

    #[test]
    fn nothing_is_certain_before_the_watch_is_live_or_after_its_loss() {
        let log = ChangeLog::default();
        assert!(log.overtaken(log.now(), Subject::File(1)));
        let asked = log.now();
        log.record_all(true);
        assert!(
            log.overtaken(asked, Subject::File(1)),
            "the request was sent before the watch was live"
        );
        assert!(!log.overtaken(log.now(), Subject::File(1)));
        log.record_all(false);
        assert!(log.overtaken(log.now(), Subject::File(1)));
    }

    #[test]
    fn answers_older_than_the_log_are_overtaken_and_memory_is_bounded() {
        let log = live();
        let early = log.now();
        for id in 0..3 * CHANGES_PER_GENERATION as u64 {
            log.record(Subject::File(id));
        }
        assert!(log.overtaken(early, Subject::File(u64::MAX)));
        let generations = log.generations.lock();
        assert!(generations.recent.len() + generations.old.len() <= 2 * CHANGES_PER_GENERATION);
        drop(generations);
        let late = log.now();
        log.record(Subject::File(0));
        assert!(!log.overtaken(late, Subject::File(u64::MAX)));
    }
}
