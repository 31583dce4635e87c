//! Which slots of a fork were read last, and what that says about those to come.
//!
//! Vesta's rule (§4.5): when slot `B` is read and the trace holds `B − 1` to `B − n`, then `B + 1` to
//! `B + n` are fetched. The trace belongs to the fork, not to a client: a sequence that many clients
//! form together, each with its own part and in any order, is one. Several forks read at once, or
//! reads without order, give short sequences and so little or nothing is fetched.
//!
//! Different from Vesta: the trace is one per fork; half of what was fetched is read before the next is, so that fetches are
//! long; `B − i` counts only if it was read within the last `2 i + 16` reads of other slots, because in a short fork
//! every slot was read at some time; and what one call reads is no sequence by itself, except at the fork's beginning.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::record::ForkId;

/// Slots that a trace remembers.
const TRACE: usize = 160;
/// Slots of one fetch, which begins and ends at multiples of them where that is not much shorter: 1 MiB, one operation of a disk
/// where the fork lies in one piece.
pub(crate) const FETCH: u64 = 16;
/// Most slots that are fetched ahead: 8 MiB.
pub(crate) const AHEAD_MAX: u64 = 128;
/// A shorter sequence may be chance.
const SEQUENCE_MIN: u64 = 2;
/// Reads by which those who form a sequence may be out of step.
const SKEW: u64 = 16;
/// Forks whose traces are kept; those that were read last.
const FORKS: usize = 4096;
/// The last fetches, which say how many forks are swept through at a time.
const LATELY: usize = 1024;

/// How far a fetch may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Slots behind what is read.
    pub(crate) most: u64,
    /// Slots that the fork has.
    pub(crate) end: u64,
}

/// The last slots read of a fork, counted from its first byte.
#[derive(Debug, Default)]
struct Trace {
    /// In order, with the time of the last read of each.
    slots: Vec<(u64, u64)>,
    /// Counts reads of what had not been read just before.
    now: u64,
    /// One past the last slot fetched ahead.
    fetched: u64,
}

impl Trace {
    /// Takes note of slots read; the slots to fetch now.
    fn read(&mut self, slots: Range<u64>, reach: Reach) -> Option<Range<u64>> {
        let last = slots.end.checked_sub(1)?;
        if !self.note(slots.start.max(slots.end.saturating_sub(TRACE as u64))..slots.end) {
            return None;
        }
        let sequence = self.sequence(last);
        if sequence < SEQUENCE_MIN || (sequence < slots.end - slots.start && slots.start > 0) {
            return None;
        }
        let next = last + 1;
        if self.fetched < next || self.fetched > next + 2 * sequence {
            self.fetched = next;
        }
        // Far enough ahead: the next fetch shall be a long one.
        if self.fetched - next > sequence / 2 {
            return None;
        }
        let mut end = (next + sequence.min(reach.most)).min(reach.end);
        let whole = end / FETCH * FETCH;
        if end < reach.end && whole >= self.fetched + FETCH / 2 {
            end = whole;
        }
        if end <= self.fetched {
            return None;
        }
        let fetch = self.fetched..end;
        self.fetched = end;
        Some(fetch)
    }

    /// Whether any of these was not read just before.
    fn note(&mut self, slots: Range<u64>) -> bool {
        let first = self.slots.partition_point(|(slot, _)| *slot < slots.start);
        let known = self.slots[first..].iter().zip(slots.clone());
        let young = known.take_while(|((slot, at), s)| slot == s && at + SKEW >= self.now);
        if young.count() as u64 == slots.end - slots.start {
            return false;
        }
        self.now += 1;
        let now = self.now;
        let end = self.slots.partition_point(|(slot, _)| *slot < slots.end);
        self.slots.splice(first..end, slots.map(|slot| (slot, now)));
        while self.slots.len() > TRACE {
            let ages = self.slots.iter().map(|(_, at)| *at).enumerate();
            let oldest = ages.min_by_key(|(_, at)| *at);
            self.slots.remove(oldest.map_or(0, |(n, _)| n));
        }
        true
    }

    /// How many slots before this one were read lately, without a gap.
    fn sequence(&self, last: u64) -> u64 {
        let end = self.slots.partition_point(|(slot, _)| *slot < last);
        let before = self.slots[..end].iter().rev().zip(1..=AHEAD_MAX);
        let follows =
            before.take_while(|((slot, at), i)| slot + i == last && at + 2 * i + SKEW >= self.now);
        follows.count() as u64
    }
}

/// The traces of a store's forks.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    forks: HashMap<ForkId, (Trace, u64)>,
    /// Counts reads.
    now: u64,
    /// Whose sequences were fetched ahead.
    lately: VecDeque<ForkId>,
    /// The same, and how often.
    swept: HashMap<ForkId, usize>,
}

impl Traces {
    /// Takes note of slots read of a fork; the slots to fetch now.
    pub(crate) fn read(
        &mut self,
        id: ForkId,
        slots: Range<u64>,
        reach: Reach,
    ) -> Option<Range<u64>> {
        if reach.end <= SEQUENCE_MIN + 1 {
            return None;
        }
        self.now += 1;
        if self.forks.len() >= FORKS && !self.forks.contains_key(&id) {
            let mut times: Vec<u64> = self.forks.values().map(|(_, at)| *at).collect();
            let (_, middle, _) = times.select_nth_unstable(FORKS / 2);
            self.forks.retain(|_, (_, at)| *at > *middle);
        }
        let (trace, at) = self.forks.entry(id).or_default();
        *at = self.now;
        let fetch = trace.read(slots, reach)?;
        if self.lately.len() == LATELY
            && let Some(left) = self.lately.pop_front()
            && let Some(count) = self.swept.get_mut(&left)
        {
            *count -= 1;
            if *count == 0 {
                self.swept.remove(&left);
            }
        }
        self.lately.push_back(id);
        *self.swept.entry(id).or_default() += 1;
        Some(fetch)
    }

    /// How many forks are swept through.
    pub(crate) fn sweeps(&self) -> u64 {
        self.swept.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FAR: Reach = Reach {
        most: AHEAD_MAX,
        end: u64::MAX,
    };

    fn fetched(reads: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut trace = Trace::default();
        let fetches = reads.into_iter().filter_map(|s| trace.read(s..s + 1, FAR));
        fetches.collect()
    }

    fn slots(fetches: &[Range<u64>]) -> u64 {
        fetches.iter().map(|r| r.end - r.start).sum()
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
        assert!(slots(&all) > 180, "{} of 200", slots(&all));
        // Records of two slots at a time, in turn.
        let turns =
            (0..100).flat_map(|pair| [0, 1].repeat(16).into_iter().map(move |n| 2 * pair + n));
        let all = fetched(turns);
        assert!(slots(&all) > 180, "{} of 200", slots(&all));
    }

    #[test]
    fn reads_without_order_fetch_nothing() {
        assert_eq!(fetched((0..1000).map(|i| i * 7919 % 100_003)), []);
        assert_eq!(fetched((0..100).map(|i| i * 2)), []);
        assert_eq!(fetched((0..100).rev()), []);
        // Long ones neither.
        let mut trace = Trace::default();
        for i in 0..1000 {
            let at = 16 + i * 7919 % 10_007 * 16;
            assert_eq!(trace.read(at..at + 16, FAR), None);
        }
    }

    #[test]
    fn in_a_short_fork_all_of_which_was_read_once_chance_fetches_little() {
        let mut state = 1_u64;
        for length in [60, 120, 500] {
            let mut random = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) % length
            };
            let all = fetched((0..length).chain((0..10_000).map(|_| random())));
            let chance = slots(&all).saturating_sub(length + AHEAD_MAX);
            assert!(chance < 3000, "{chance} slots for 10,000 of {length}");
        }
    }

    #[test]
    fn the_second_sweep_is_fetched_as_the_first() {
        for (length, most) in [(20, 128), (64, 128), (64, 16), (118, 16), (300, 128)] {
            let reach = Reach { most, end: length };
            let mut trace = Trace::default();
            for _ in 0..3 {
                let all: Vec<_> = (0..length)
                    .filter_map(|s| trace.read(s..s + 1, reach))
                    .collect();
                assert_eq!(slots(&all), length - 3, "{length}, {most}");
                assert_eq!(all.last().unwrap().end, length);
            }
        }
    }

    #[test]
    fn those_read_last_are_remembered() {
        let mut traces = Traces::default();
        let reach = Reach { end: 1000, ..FAR };
        for slot in 0..4 {
            for id in 1..FORKS as u64 + 100 {
                traces.read(ForkId(id), slot..slot + 1, reach);
                // Read all the time.
                traces.read(ForkId(0), 500..501, reach);
            }
            assert!(traces.forks.len() <= FORKS);
            assert!(traces.forks.contains_key(&ForkId(0)));
        }
        assert_eq!(
            traces.sweeps(),
            0,
            "each was forgotten before it came again"
        );
        for slot in 10..200 {
            for id in 0..40 {
                traces.read(ForkId(id), slot..slot + 1, reach);
            }
        }
        assert_eq!(traces.sweeps(), 40);
        for slot in 0..3000 {
            for id in 0..3 {
                traces.read(ForkId(id), slot * 10..slot * 10 + 10, FAR);
            }
        }
        assert!(traces.sweeps() == 3 && traces.lately.len() == LATELY);
    }

    proptest! {
        #[test]
        fn a_fetch_lies_ahead_of_what_is_read_and_is_bounded(
            reads in prop::collection::vec((0_u64..300, 1_u64..200, 0_u64..200), 1..300),
        ) {
            let mut trace = Trace::default();
            for (start, length, most) in reads {
                if let Some(fetch) = trace.read(start..start + length, Reach { most, end: 400 }) {
                    prop_assert!(fetch.start >= start + length);
                    let end = start + length + AHEAD_MAX.min(most);
                    prop_assert!(fetch.end <= end.min(400) && !fetch.is_empty());
                }
                prop_assert!(trace.slots.len() <= TRACE);
                prop_assert!(trace.slots.is_sorted_by(|a, b| a.0 < b.0));
            }
        }
    }
}
