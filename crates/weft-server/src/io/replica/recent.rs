//! What was changed lately: what a replica may lack that was away for a short time
//! (`docs/design/0048-short-absences-and-damage.md`).
//!
//! Invariant: every change that began, or was applied, since `complete_since` is noted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::{CellIndex, FileId};
use weft_store::ForkName;

use super::turns::Span;
use crate::limits::{RECENT_FILES_MAX, RECENT_PARTS_MAX, REPLICA_PART_BYTES};

/// What has changed of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Anything: its forks, checkpoints, lengths.
    All,
    /// These parts of forks.
    Parts(BTreeMap<(CellIndex, ForkName), BTreeSet<u64>>),
}

struct Entry {
    last: Instant,
    changed: Changed,
}

struct Table {
    files: HashMap<FileId, Entry>,
    /// Parts of all files.
    parts: usize,
    complete_since: Instant,
}

/// The changes of the last time.
pub(super) struct Recent(Mutex<Table>);

impl Recent {
    pub(super) fn new() -> Recent {
        Recent(Mutex::new(Table {
            files: HashMap::new(),
            parts: 0,
            complete_since: Instant::now(),
        }))
    }

    /// A change begins, or is applied.
    pub(super) fn note(&self, spans: &[Span]) {
        if spans.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut table = self.0.lock();
        for span in spans {
            table.note(span, now);
        }
        if table.files.len() > RECENT_FILES_MAX || table.parts > RECENT_PARTS_MAX {
            table.files = HashMap::new();
            (table.parts, table.complete_since) = (0, now);
        }
    }

    /// What was changed since then, by file; `None`: not all of it is known.
    pub(super) fn since(&self, then: Instant) -> Option<BTreeMap<FileId, Changed>> {
        let table = self.0.lock();
        let entries = table.files.iter().filter(|(_, e)| e.last >= then);
        let changed = entries.map(|(file, entry)| (*file, entry.changed.clone()));
        (table.complete_since <= then).then(|| changed.collect())
    }
}

impl Table {
    fn note(&mut self, span: &Span, now: Instant) {
        let parts = match span {
            Span::Bytes(key, range) => {
                let first = range.start / REPLICA_PART_BYTES;
                let end = range.end.div_ceil(REPLICA_PART_BYTES).max(first + 1);
                let few = (end - first) as usize <= RECENT_PARTS_MAX / 1024;
                few.then(|| ((key.cell, key.fork.clone()), first..end))
            }
            Span::File(_) => None,
        };
        let entry = self.files.entry(span.file()).or_insert_with(|| Entry {
            last: now,
            changed: Changed::Parts(BTreeMap::new()),
        });
        entry.last = now;
        match (&mut entry.changed, parts) {
            (Changed::All, _) => {}
            (Changed::Parts(known), Some((place, range))) => {
                let known = known.entry(place).or_default();
                let before = known.len();
                known.extend(range);
                self.parts += known.len() - before;
            }
            (Changed::Parts(known), None) => {
                self.parts -= known.values().map(BTreeSet::len).sum::<usize>();
                entry.changed = Changed::All;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_store::ForkKey;

    use super::*;

    fn bytes(file: u64, range: std::ops::Range<u64>) -> Span {
        let key = ForkKey {
            file: FileId(file),
            cell: CellIndex(0),
            fork: ForkName::data(),
        };
        Span::Bytes(key, range)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_changed_since_then_is_known_by_parts() {
        let (recent, began) = (Recent::new(), Instant::now());
        recent.note(&[bytes(1, 0..10), bytes(2, 0..10)]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let then = Instant::now();
        recent.note(&[bytes(1, REPLICA_PART_BYTES - 1..REPLICA_PART_BYTES + 1)]);
        recent.note(&[Span::File(FileId(3)), bytes(3, 0..10)]);
        let since = recent.since(then).unwrap();
        let place = (CellIndex(0), ForkName::data());
        let parts = BTreeMap::from([(place, BTreeSet::from([0, 1]))]);
        let expected = [
            (FileId(1), Changed::Parts(parts)),
            (FileId(3), Changed::All),
        ];
        assert_eq!(since, BTreeMap::from(expected));
        assert_eq!(recent.since(began).unwrap().len(), 3);
        assert_eq!(recent.since(began - Duration::from_secs(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_changes_are_forgotten_and_that_is_known() {
        let (recent, began) = (Recent::new(), Instant::now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        for file in 0..=RECENT_FILES_MAX as u64 {
            recent.note(&[bytes(file, 0..1)]);
        }
        assert_eq!(recent.since(began), None);
        let then = Instant::now();
        recent.note(&[bytes(7, 0..u64::MAX)]);
        let since = recent.since(then).unwrap();
        assert_eq!(since, BTreeMap::from([(FileId(7), Changed::All)]));
    }
}
