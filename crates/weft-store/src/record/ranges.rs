//! Ranges of a fork's bytes, as the doubt records store them.

use std::ops::Range;

use crate::limits::DOUBT_RANGES_MAX;

/// Bytes of a fork: ascending, disjoint, not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// All bytes, whatever the fork's length.
    pub(crate) fn all() -> Self {
        Self(std::iter::once(0..u64::MAX).collect())
    }

    /// Ranges as they were stored; `None` if they are not in order.
    pub(crate) fn new(ranges: Vec<Range<u64>>) -> Option<Self> {
        let legal = ranges.iter().all(|range| range.start < range.end);
        let ordered = ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
        (legal && ordered && ranges.len() <= DOUBT_RANGES_MAX).then_some(Self(ranges))
    }

    /// Whether the ranges reach beyond any length.
    pub(crate) fn is_endless(&self) -> bool {
        self.0.last().is_some_and(|last| last.end == u64::MAX)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the bytes before `end`.
    pub(crate) fn add_below(&mut self, end: u64) {
        if end == 0 {
            return;
        }
        let mut merged = 0..end;
        self.0.retain(|range| {
            let apart = range.start > merged.end;
            if !apart {
                merged.end = merged.end.max(range.end);
            }
            apart
        });
        self.0.insert(0, merged);
    }

    /// Removes bytes; returns whether there were any.
    pub(crate) fn subtract(&mut self, gone: &Range<u64>) -> bool {
        let from = self.0.partition_point(|range| range.end <= gone.start);
        let to = self.0.partition_point(|range| range.start < gone.end);
        if from >= to || gone.is_empty() {
            return false;
        }
        let before = self.0[from].start..gone.start;
        let behind = gone.end..self.0[to - 1].end;
        let left: Vec<_> = [before, behind]
            .into_iter()
            .filter(|range| range.start < range.end)
            .collect();
        if self.0.len() - (to - from) + left.len() > DOUBT_RANGES_MAX {
            return false;
        }
        self.0.splice(from..to, left);
        true
    }

    /// The first range that has any of these bytes.
    pub(crate) fn overlap(&self, wanted: &Range<u64>) -> Option<&Range<u64>> {
        let at = self.0.partition_point(|range| range.end <= wanted.start);
        self.0.get(at).filter(|range| range.start < wanted.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rewritten_bytes_are_no_longer_in_doubt() {
        let mut model = [true; 40];
        let mut ranges = Ranges::default();
        ranges.add_below(40);
        let mut state = 7_u64;
        for _ in 0..30 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (from, length) = ((state >> 40) % 40, (state >> 50) % 6);
            ranges.subtract(&(from..from + length));
            let end = (from + length).min(40) as usize;
            model[from as usize..end].fill(false);
            for (at, doubted) in (0_u64..).zip(model) {
                assert_eq!(
                    ranges.overlap(&(at..at + 1)).is_some(),
                    doubted,
                    "byte {at}"
                );
            }
            assert_eq!(Ranges::new(ranges.0.clone()), Some(ranges.clone()));
        }
        ranges.add_below(20);
        assert!((0..20).all(|at| ranges.overlap(&(at..at + 1)).is_some()));
    }

    #[test]
    fn bytes_stay_in_doubt_once_there_are_too_many_ranges() {
        let mut ranges = Ranges::all();
        for n in 0..2 * DOUBT_RANGES_MAX as u64 {
            ranges.subtract(&(n * 2..n * 2 + 1));
        }
        assert_eq!(ranges.0.len(), DOUBT_RANGES_MAX);
        assert!(ranges.subtract(&(0..u64::MAX)));
        assert!(ranges.is_empty());
    }
}
