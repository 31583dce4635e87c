//! The forks that a slot has of a file, as one sequence of parts.

use std::ops::Range;

/// Bytes of a part: 1 MiB.
pub const PART_BYTES: u64 = 1 << 20;

/// Where a part lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartAt<'a, K> {
    /// The fork.
    pub fork: &'a K,
    /// Its bytes there; the last part of a fork may be short.
    pub bytes: Range<u64>,
}

/// The parts of a slot's forks, numbered in the order of the forks and of their offsets.
#[derive(Clone, Debug)]
pub struct SlotParts<K> {
    /// Each fork with its length and the number of its first part, ascending.
    forks: Vec<(K, u64, u64)>,
    count: u64,
}

impl<K: Ord> SlotParts<K> {
    /// The parts of forks with these lengths, in any order.
    pub fn new(forks: impl IntoIterator<Item = (K, u64)>) -> Self {
        let mut forks: Vec<(K, u64, u64)> = forks.into_iter().map(|(k, l)| (k, l, 0)).collect();
        forks.sort_by(|one, other| one.0.cmp(&other.0));
        let mut count = 0;
        for (_, length, first) in &mut forks {
            *first = count;
            count += length.div_ceil(PART_BYTES);
        }
        Self { forks, count }
    }

    /// How many parts there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Where a part lies; `None` beyond the last one.
    pub fn at(&self, part: u64) -> Option<PartAt<'_, K>> {
        let next = self.forks.partition_point(|(_, _, first)| *first <= part);
        // An empty fork begins where the next one does.
        let (fork, length, first) = self.forks.get(next.checked_sub(1)?)?;
        let start = (part - first) * PART_BYTES;
        (start < *length).then(|| PartAt {
            fork,
            bytes: start..(start + PART_BYTES).min(*length),
        })
    }

    /// The number of the part that has a byte of a fork; `None` if the fork has no such byte.
    pub fn find(&self, fork: &K, offset: u64) -> Option<u64> {
        let at = self.forks.binary_search_by(|(key, _, _)| key.cmp(fork));
        let (_, length, first) = &self.forks[at.ok()?];
        (offset < *length).then(|| first + offset / PART_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_follow_one_another_part_by_part() {
        let mib = PART_BYTES;
        let parts = SlotParts::new([("c", 5), ("a", 2 * mib + 1), ("b", 0), ("d", mib)]);
        assert_eq!(parts.count(), 5);
        let at = |n| parts.at(n).map(|at| (*at.fork, at.bytes));
        assert_eq!(at(0), Some(("a", 0..mib)));
        assert_eq!(at(2), Some(("a", 2 * mib..2 * mib + 1)));
        assert_eq!(at(3), Some(("c", 0..5)));
        assert_eq!(at(4), Some(("d", 0..mib)));
        assert_eq!(at(5), None);
        assert_eq!(parts.find(&"a", 2 * mib), Some(2));
        assert_eq!(parts.find(&"a", 2 * mib + 1), None);
        assert_eq!(parts.find(&"b", 0), None);
        assert_eq!(parts.find(&"d", 7), Some(4));
        assert_eq!(parts.find(&"e", 0), None);
        assert_eq!(SlotParts::<u32>::new([]).at(0), None);
    }
}
