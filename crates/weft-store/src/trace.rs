//! Which slots of a fork were read last, and what that says about those to come.
//!
//! Vesta's rule (§4.5): when slot `B` is read and the trace holds `B − 1` to `B − n`, then `B + 1` to
//! `B + n` are fetched. The trace belongs to the fork, not to a client: a sequence that many clients
//! form together, each with its own part and in any order, is one. Several forks read at once, or
//! reads without order, give short sequences and so little or nothing is fetched.
//!
//! Different from Vesta: the trace is one per fork, and half of what was fetched is read before
//! the next is, so that fetches are long.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Slots that a trace remembers.
const TRACE: usize = 160;
/// Most slots that are fetched ahead: 8 MiB.
pub(crate) const AHEAD_MAX: u64 = 128;
/// A shorter sequence may be chance.
const SEQUENCE_MIN: u64 = 2;

/// The last slots read of a fork, counted from its first byte.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// In the order in which they were read.
    recent: VecDeque<u64>,
    /// The same, in theirs.
    sorted: BTreeSet<u64>,
    /// One past the last slot fetched ahead.
    fetched: u64,
}

impl Trace {
    /// Takes note of slots read; the slots to fetch now, at most `most` behind them.
    pub(crate) fn read(&mut self, slots: Range<u64>, most: u64) -> Option<Range<u64>> {
        let last = slots.end.checked_sub(1)?;
        if slots.start == last && self.recent.back() == Some(&last) {
            return None;
        }
        for slot in slots.start.max(slots.end.saturating_sub(TRACE as u64))..slots.end {
            if self.sorted.insert(slot) {
                if self.recent.len() == TRACE
                    && let Some(oldest) = self.recent.pop_front()
                {
                    self.sorted.remove(&oldest);
                }
                self.recent.push_back(slot);
            }
        }
        let most = most.min(AHEAD_MAX);
        let before = self.sorted.range(..last).rev().zip(1..=most);
        let sequence = before.take_while(|(slot, i)| **slot + i == last).count() as u64;
        if sequence < SEQUENCE_MIN {
            return None;
        }
        let (next, end) = (last + 1, last + 1 + sequence);
        if self.fetched < next || self.fetched > next + AHEAD_MAX {
            self.fetched = next;
        }
        // Far enough ahead: the next fetch shall be a long one.
        if self.fetched - next > sequence / 2 || end <= self.fetched {
            return None;
        }
        let fetch = self.fetched..end;
        self.fetched = end;
        Some(fetch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fetched(reads: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut trace = Trace::default();
        let fetches = reads
            .into_iter()
            .filter_map(|s| trace.read(s..s + 1, AHEAD_MAX));
        fetches.collect()
    }

    #[test]
    fn a_sequence_is_fetched_ahead_of_further_and_further() {
        let all = fetched(0..200);
        assert_eq!(all[0], 3..5);
        for pair in all.windows(2) {
            assert_eq!(
                pair[0].end, pair[1].start,
                "nothing twice, nothing left out"
            );
        }
        assert!(all.last().unwrap().end > 200);
        assert!(all.len() < 30, "{} fetches", all.len());
        let longest = fetched(0..2000).iter().map(|r| r.end - r.start).max();
        assert_eq!(longest, Some(AHEAD_MAX / 2));
    }

    #[test]
    fn the_sequence_of_many_clients_is_one() {
        // Four clients, each its fourth of every stripe, one after the other and out of step.
        let turns = (0..50).flat_map(|stripe| [2, 0, 3, 1].map(|client| stripe * 4 + client));
        let all = fetched(turns);
        let slots: u64 = all.iter().map(|r| r.end - r.start).sum();
        assert!(slots > 180, "{slots} of 200");
    }

    #[test]
    fn reads_without_order_fetch_nothing() {
        assert_eq!(fetched((0..1000).map(|i| i * 7919 % 100_003)), []);
        assert_eq!(fetched((0..100).map(|i| i * 2)), []);
        assert_eq!(fetched((0..100).rev()), []);
    }

    proptest! {
        #[test]
        fn a_fetch_lies_ahead_of_what_is_read_and_is_bounded(
            reads in prop::collection::vec((0_u64..300, 1_u64..100, 0_u64..200), 1..300),
        ) {
            let mut trace = Trace::default();
            for (start, length, most) in reads {
                if let Some(fetch) = trace.read(start..start + length, most) {
                    prop_assert!(fetch.start >= start + length);
                    let end = start + length + AHEAD_MAX.min(most);
                    prop_assert!(fetch.end <= end && !fetch.is_empty());
                }
                prop_assert!(trace.recent.len() <= TRACE);
                prop_assert_eq!(trace.recent.len(), trace.sorted.len());
            }
        }
    }
}
