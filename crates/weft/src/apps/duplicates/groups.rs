//! Groups of equal blocks, counted from records in sorted order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::record::BlockRecord;

use crate::limits::OCCURRENCES_SHOWN;

/// The totals of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Blocks.
    pub(crate) blocks: u64,
    /// Different blocks.
    pub(crate) distinct: u64,
    /// Bytes of all blocks.
    pub(crate) bytes: u64,
    /// Bytes of the blocks beyond the first of each group.
    pub(crate) duplicate_bytes: u64,
}

/// Blocks that are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) count: u64,
    pub(crate) length: u64,
    pub(crate) hash: [u8; 32],
    /// The first occurrences, by file and offset.
    pub(crate) first: Vec<BlockRecord>,
}

/// Counts records in sorted order, and keeps the groups that would save the most.
pub(crate) struct Counter {
    totals: Totals,
    current: Option<Group>,
    top: BinaryHeap<Reverse<Ranked>>,
    kept: usize,
}

/// A group ordered by what it would save, then by its hash, so that the choice is deterministic.
struct Ranked(Group);

impl Ranked {
    fn rank(&self) -> (u64, Reverse<[u8; 32]>) {
        ((self.0.count - 1) * self.0.length, Reverse(self.0.hash))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Counter {
    /// Keeps this many groups.
    pub(crate) fn new(kept: usize) -> Counter {
        Counter {
            totals: Totals::default(),
            current: None,
            top: BinaryHeap::new(),
            kept,
        }
    }

    /// Counts the next record.
    pub(crate) fn add(&mut self, record: BlockRecord) {
        self.totals.blocks += 1;
        self.totals.bytes += record.length;
        match &mut self.current {
            Some(group) if group.hash == record.hash => {
                group.count += 1;
                self.totals.duplicate_bytes += record.length;
                if group.first.len() < OCCURRENCES_SHOWN {
                    group.first.push(record);
                }
            }
            _ => {
                self.totals.distinct += 1;
                let next = Group {
                    count: 1,
                    length: record.length,
                    hash: record.hash,
                    first: vec![record],
                };
                let done = self.current.replace(next);
                self.rank(done);
            }
        }
    }

    /// The counts, and the groups that would save the most, those first.
    pub(crate) fn finish(mut self) -> (Totals, Vec<Group>) {
        let last = self.current.take();
        self.rank(last);
        let mut top: Vec<Ranked> = self.top.into_iter().map(|Reverse(r)| r).collect();
        top.sort_by(|a, b| b.cmp(a));
        (self.totals, top.into_iter().map(|r| r.0).collect())
    }

    fn rank(&mut self, done: Option<Group>) {
        if let Some(group) = done.filter(|g| g.count > 1) {
            self.top.push(Reverse(Ranked(group)));
            if self.top.len() > self.kept {
                self.top.pop();
            }
        }
    }
}

impl Totals {
    /// Blocks that equal an earlier one.
    pub(crate) fn duplicates(&self) -> u64 {
        self.blocks - self.distinct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_and_ranked() {
        let mut counter = Counter::new(2);
        let blocks: [(&[u8], u64); 4] = [(b"aaaa", 3), (b"b", 1), (b"cc", 9), (b"ddddd", 2)];
        let mut records: Vec<BlockRecord> = Vec::new();
        for (block, times) in blocks {
            records.extend((0..times).map(|i| BlockRecord::of(block, i, 4096 * i)));
        }
        records.sort_by_key(BlockRecord::encode);
        for record in records {
            counter.add(record);
        }
        let (totals, top) = counter.finish();
        let expected = Totals {
            blocks: 15,
            distinct: 4,
            bytes: 12 + 1 + 18 + 10,
            duplicate_bytes: 8 + 16 + 5,
        };
        assert_eq!(totals, expected);
        assert_eq!(totals.duplicates(), 11);
        let ranked: Vec<_> = top.iter().map(|g| (g.length, g.count)).collect();
        assert_eq!(ranked, [(2, 9), (4, 3)]);
        assert_eq!(top[0].first.len(), OCCURRENCES_SHOWN);
        assert_eq!(top[0].first[1].file, 1);
    }

    #[test]
    fn an_empty_search_has_no_groups() {
        assert_eq!(Counter::new(3).finish(), (Totals::default(), vec![]));
    }
}
