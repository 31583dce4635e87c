//! What has changed lately, so that an answer that was under way meanwhile is not taken for true
//! for long.
//!
//! Whoever asks the service notes the time first ([`News::now`]); when the answer is here,
//! [`News::since`] says whether what it tells may have changed in between. While the watch is live,
//! an answer that nothing overtook is true until news of it comes; else nothing is known for
//! certain.
//!
//! Time is a counter of changes. Changes are kept in two generations of bounded size; what asked
//! before the older one is taken for overtaken.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::limits::CHANGES_PER_GENERATION;
use parking_lot::Mutex;

/// When something was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked(u64);

/// What can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A file's attributes or data.
    File(u64),
    /// What a name in a directory names; by its hash.
    Name(u64, u64),
}

/// Changes by others as the watch tells them, and own ones.
#[derive(Debug, Default)]
pub(super) struct News {
    time: AtomicU64,
    live: AtomicBool,
    hasher: RandomState,
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    young: HashMap<Subject, u64>,
    old: HashMap<Subject, u64>,
    /// When the young generation began.
    began: u64,
    /// Of what was asked before this nothing is known.
    floor: u64,
}

impl News {
    pub(super) fn now(&self) -> Asked {
        Asked(self.time.load(Ordering::Acquire))
    }

    /// What is not told has not changed.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    pub(super) fn name(&self, directory: u64, name: &[u8]) -> Subject {
        Subject::Name(directory, self.hash(name))
    }

    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    pub(super) fn changed(&self, subject: Subject) {
        let mut recent = self.recent.lock();
        let time = self.time.fetch_add(1, Ordering::AcqRel) + 1;
        recent.young.insert(subject, time);
        if recent.young.len() >= CHANGES_PER_GENERATION {
            recent.floor = recent.began;
            recent.began = time;
            recent.old = std::mem::take(&mut recent.young);
        }
    }

    /// Anything may have changed; from now on the watch is live or not.
    pub(super) fn everything_changed(&self, live: bool) {
        self.live.store(false, Ordering::Release);
        let mut recent = self.recent.lock();
        let time = self.time.fetch_add(1, Ordering::AcqRel) + 1;
        *recent = Recent {
            began: time,
            floor: time,
            ..Recent::default()
        };
        drop(recent);
        self.live.store(live, Ordering::Release);
    }

    /// Whether it may have changed since.
    pub(super) fn since(&self, asked: Asked, subject: Subject) -> bool {
        !self.is_live() || self.heard_since(asked, subject)
    }

    /// Whether there was news of it since.
    pub(super) fn heard_since(&self, asked: Asked, subject: Subject) -> bool {
        let Asked(asked) = asked;
        if self.time.load(Ordering::Acquire) == asked {
            return false;
        }
        let recent = self.recent.lock();
        let later = |time: &u64| *time > asked;
        asked < recent.floor
            || recent.young.get(&subject).is_some_and(later)
            || recent.old.get(&subject).is_some_and(later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> News {
        let news = News::default();
        news.everything_changed(true);
        news
    }

    #[test]
    fn an_answer_is_overtaken_by_news_of_its_subject_only() {
        let news = live();
        let asked = news.now();
        news.changed(Subject::File(7));
        assert!(news.since(asked, Subject::File(7)));
        assert!(!news.since(asked, Subject::File(8)));
        assert!(!news.since(news.now(), Subject::File(7)));
        let (a, b) = (news.name(1, b"a"), news.name(1, b"b"));
        news.changed(a);
        assert!(news.since(asked, a) && !news.since(asked, b));
    }

    #[test]
    fn nothing_is_certain_before_the_watch_and_after_its_loss() {
        let news = News::default();
        assert!(news.since(news.now(), Subject::File(1)));
        let asked = news.now();
        news.everything_changed(true);
        assert!(news.since(asked, Subject::File(1)), "it was asked before");
        assert!(!news.since(news.now(), Subject::File(1)));
        news.everything_changed(false);
        assert!(news.since(news.now(), Subject::File(1)));
    }

    #[test]
    fn who_asked_before_what_is_kept_is_overtaken_and_memory_is_bounded() {
        let news = live();
        let early = news.now();
        for id in 0..3 * CHANGES_PER_GENERATION as u64 {
            news.changed(Subject::File(id));
        }
        assert!(news.since(early, Subject::File(u64::MAX)));
        let recent = news.recent.lock();
        assert!(recent.young.len() + recent.old.len() <= 2 * CHANGES_PER_GENERATION);
        drop(recent);
        let late = news.now();
        news.changed(Subject::File(0));
        assert!(!news.since(late, Subject::File(u64::MAX)));
    }
}
