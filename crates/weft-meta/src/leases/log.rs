//! The change log: the last changes of the namespace for watchers, in memory, each with the client
//! that caused it.
//!
//! A change is published after its commit, so a watcher that is notified of it reads the new state.
//! Changes are numbered; a watcher says the number up to which it knows them. Watchers read under a
//! shared lock and copy at most `CHANGES_SCAN_MAX` changes at a time, whose names are reference
//! counted.
//!
//! Invariant: the numbers of the changes kept are consecutive and end at the number of changes
//! published.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};
use weft_proto::coord::ChangedEntry;
use weft_proto::limits::WATCH_BATCH_MAX;

use super::change::Change;
use super::table::Leases;
use crate::limits::{CHANGES_KEPT_MAX, CHANGES_SCAN_MAX, COMMITS_TIMEOUT, INVALIDATION_BYTES};

/// What a watcher must drop from its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalidations {
    /// What other clients changed, each file and name once; it may be nothing.
    Listed {
        /// Where to continue.
        cursor: u64,
        /// Files, ascending.
        files: Vec<u64>,
        /// Names, ascending.
        entries: Vec<ChangedEntry>,
        /// Files that others are opening, and whose bytes the watcher must send, ascending.
        opened: Vec<u64>,
        /// There were no later changes.
        end: bool,
    },
    /// The log no longer has all changes since: anything may have changed.
    All {
        /// Where to continue.
        cursor: u64,
    },
}

/// The last changes.
#[derive(Debug, Default)]
pub struct ChangeLog {
    ring: RwLock<Ring>,
    commits: Mutex<Commits>,
    /// A commit has ended.
    ended: Condvar,
}

/// Commits whose changes are not published yet.
#[derive(Debug, Default)]
struct Commits {
    begun: u64,
    running: BTreeSet<u64>,
}

/// A commit, until its changes are published.
pub(crate) struct Committing<'a> {
    log: &'a ChangeLog,
    number: u64,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.log.commits.lock().running.remove(&self.number);
        self.log.ended.notify_all();
    }
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<(u64, Change)>,
    /// Changes published so far.
    published: u64,
}

impl ChangeLog {
    /// Held around a commit and [`ChangeLog::publish`].
    pub(crate) fn committing(&self) -> Committing<'_> {
        let mut commits = self.commits.lock();
        commits.begun += 1;
        let number = commits.begun;
        commits.running.insert(number);
        Committing { log: self, number }
    }

    /// Returns when the changes of everything that was committed before are published; false if
    /// that takes [`COMMITS_TIMEOUT`].
    pub(crate) fn wait_for_commits(&self) -> bool {
        let deadline = Instant::now() + COMMITS_TIMEOUT;
        let mut commits = self.commits.lock();
        let last = commits.begun;
        while commits.running.first().is_some_and(|first| *first <= last) {
            if self.ended.wait_until(&mut commits, deadline).timed_out() {
                return false;
            }
        }
        true
    }

    /// Publishes what `origin` (0: no client) changed. Leases of the changed directories end.
    pub(crate) fn publish(&self, origin: u64, changes: Vec<Change>, leases: &Leases) {
        if changes.is_empty() {
            return;
        }
        let mut ring = self.ring.write();
        ring.published += changes.len() as u64;
        leases.changed(origin, &changes, ring.published);
        ring.kept.extend(changes.into_iter().map(|c| (origin, c)));
        let surplus = ring.kept.len().saturating_sub(CHANGES_KEPT_MAX);
        ring.kept.drain(..surplus);
    }

    /// Changes published so far.
    pub fn published(&self) -> u64 {
        self.ring.read().published
    }

    /// What other clients than `client` changed after the first `cursor` changes. Cost:
    /// O(`CHANGES_SCAN_MAX`).
    pub fn since(&self, client: u64, cursor: u64) -> Invalidations {
        let ring = self.ring.read();
        let published = ring.published;
        let oldest = published - ring.kept.len() as u64;
        if cursor < oldest || cursor > published {
            return Invalidations::All { cursor: published };
        }
        let (mut files, mut entries) = (BTreeSet::new(), BTreeSet::new());
        let mut opened = BTreeSet::new();
        let (mut taken, mut bytes) = (0, 0);
        let from = (cursor - oldest) as usize;
        for (origin, change) in ring.kept.range(from..).take(CHANGES_SCAN_MAX) {
            if *origin != client {
                if bytes >= WATCH_BATCH_MAX - weft_proto::limits::NAME_MAX - INVALIDATION_BYTES {
                    break;
                }
                let (new, cost) = match change {
                    Change::File(id) => (files.insert(*id), INVALIDATION_BYTES),
                    Change::Entry(entry) => (
                        entries.insert(entry.clone()),
                        INVALIDATION_BYTES + entry.name.len(),
                    ),
                    Change::Opened(open) => {
                        let concerned = open.gatherers.contains(&client);
                        (concerned && opened.insert(open.file), INVALIDATION_BYTES)
                    }
                };
                bytes += if new { cost } else { 0 };
            }
            taken += 1;
        }
        let cursor = cursor + taken;
        Invalidations::Listed {
            cursor,
            files: files.into_iter().collect(),
            entries: entries.into_iter().collect(),
            opened: opened.into_iter().collect(),
            end: cursor == published,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn entry(parent: u64, name: &str) -> ChangedEntry {
        ChangedEntry {
            parent,
            name: Bytes::copy_from_slice(name.as_bytes()),
        }
    }

    #[test]
    fn a_watcher_sees_changes_of_others_once() {
        let log = ChangeLog::default();
        log.publish(
            1,
            vec![Change::File(7), Change::Entry(entry(1, "a"))],
            &Leases::default(),
        );
        log.publish(2, vec![Change::File(8)], &Leases::default());
        log.publish(1, vec![Change::File(7)], &Leases::default());
        let all = |client, cursor| match log.since(client, cursor) {
            Invalidations::Listed {
                cursor,
                files,
                entries,
                end,
                ..
            } => (cursor, files, entries.len(), end),
            Invalidations::All { .. } => panic!("nothing is lost"),
        };
        assert_eq!(all(1, 0), (4, vec![8], 0, true));
        assert_eq!(all(2, 0), (4, vec![7], 1, true));
        assert_eq!(all(3, 2), (4, vec![7, 8], 0, true));
        assert_eq!(all(3, 4), (4, vec![], 0, true));
        assert_eq!(log.since(3, 5), Invalidations::All { cursor: 4 });
    }

    #[test]
    fn a_watcher_that_is_too_far_behind_must_invalidate_everything() {
        let log = ChangeLog::default();
        let count = CHANGES_KEPT_MAX as u64 + 10;
        for id in 0..count {
            log.publish(1, vec![Change::File(id)], &Leases::default());
        }
        assert_eq!(log.since(2, 9), Invalidations::All { cursor: count });
        assert!(matches!(log.since(2, 10), Invalidations::Listed { .. }));
    }

    #[test]
    fn watch_replies_are_bounded_and_together_complete() {
        let log = ChangeLog::default();
        let name = "n".repeat(250);
        let count = 3000;
        for id in 0..count {
            log.publish(1, vec![Change::Entry(entry(id, &name))], &Leases::default());
        }
        let (mut cursor, mut seen, mut rounds) = (0, 0, 0);
        while let Invalidations::Listed {
            cursor: next,
            entries,
            end,
            ..
        } = log.since(2, cursor)
        {
            let bytes: usize = entries.iter().map(|e| e.name.len() + 12).sum();
            assert!(bytes <= WATCH_BATCH_MAX);
            (cursor, seen, rounds) = (next, seen + entries.len() as u64, rounds + 1);
            if end {
                break;
            }
        }
        assert_eq!(seen, count);
        assert!(rounds > 5);
    }
}
