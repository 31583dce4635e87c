//! The access history of forks, and the prefetches that follow from it.
//!
//! Vesta's rule (§4.5): when slot `B` is read and the history holds `B − 1` to `B − n`, then
//! `B + 1` to `B + n` are prefetched. The history belongs to the fork, not to a client: clients
//! that read shares of a sequence, in any order, form one sequence. Random reads give short
//! sequences, and so little or nothing is prefetched.
//!
//! Different from Vesta: there is one history per fork; the next fetch waits until half of the last
//! one is read, so that fetches are long; `B − i` counts only if at most 16 reads of other slots
//! came between it and `B − i + 1` (8, if that came first), because in a short fork every slot was
//! read at some time; and the slots of one call are no sequence by themselves, except at the fork's
//! beginning.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::limits::{
    DISORDER, FETCH_SLOTS, HISTORIES_MAX, HISTORY_SLOTS, PREFETCH_SLOTS_MAX, RECENT_AGE,
    RECENT_READS, SEQUENCE_MIN, SEQUENCES_MAX, SKEW,
};
use crate::record::ForkId;

/// Bounds of a fetch, in slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchBounds {
    /// How far it goes beyond what is read.
    pub(crate) most: u64,
    /// How many more slots can be in flight now.
    pub(crate) in_flight_left: u64,
    /// How many slots the fork has.
    pub(crate) end: u64,
}

/// The last slots read of a fork, counted from its first byte.
#[derive(Debug, Default)]
struct AccessHistory {
    /// Ascending, with the time of the last read of each.
    slots: Vec<(u64, u64)>,
    /// Counts reads of slots that were not read just before.
    now: u64,
    heads: Vec<Head>,
}

/// The prefetched end of a sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// One past the last slot fetched.
    fetched: u64,
    /// When the sequence was last read.
    at: u64,
}

impl Head {
    /// The slots to fetch, so that `ahead` slots after `next` are prefetched.
    fn fetch(&mut self, next: u64, ahead: u64, reach: PrefetchBounds) -> Option<Range<u64>> {
        // Far enough ahead: a later fetch is longer.
        if self.fetched - next > ahead / 2 {
            return None;
        }
        let mut end = (next + ahead).min(reach.end);
        let whole = end / FETCH_SLOTS * FETCH_SLOTS;
        if end < reach.end && whole >= self.fetched + FETCH_SLOTS / 2 {
            end = whole;
        }
        let wanted = end.checked_sub(self.fetched).filter(|slots| *slots > 0)?;
        // If few more can be in flight, a later read fetches more at once.
        if reach.in_flight_left < wanted.min(FETCH_SLOTS) {
            return None;
        }
        let fetch = self.fetched..self.fetched + wanted.min(reach.in_flight_left);
        self.fetched = fetch.end;
        Some(fetch)
    }
}

impl AccessHistory {
    /// Records a read of slots; returns whether it continues a sequence, and the slots to fetch
    /// now.
    fn read(&mut self, slots: Range<u64>, reach: PrefetchBounds) -> (bool, Option<Range<u64>>) {
        let Some(last) = slots.end.checked_sub(1) else {
            return (false, None);
        };
        let length = slots.end - slots.start;
        if !self.note(
            slots
                .start
                .max(slots.end.saturating_sub(HISTORY_SLOTS as u64))..slots.end,
        ) {
            return (false, None);
        }
        let sequence = self.sequence(last);
        // As many slots before a call as it reads itself, and the least sequence for a call of one
        // slot.
        let needed = if slots.start == 0 {
            SEQUENCE_MIN
        } else {
            (2 * length - 1).clamp(SEQUENCE_MIN, PREFETCH_SLOTS_MAX)
        };
        if sequence < needed {
            return (false, None);
        }
        let next = last + 1;
        let head = self.head(next, sequence);
        (true, head.fetch(next, sequence.min(reach.most), reach))
    }

    /// The head of a sequence that continues at `next`: the nearest one, or a new one that replaces
    /// the oldest.
    fn head(&mut self, next: u64, sequence: u64) -> &mut Head {
        let near = next.saturating_sub(sequence)..=next + 2 * sequence;
        let nearest = (0..self.heads.len()).filter(|n| near.contains(&self.heads[*n].fetched));
        let nearest = nearest.min_by_key(|n| self.heads[*n].fetched.abs_diff(next));
        let n = nearest.unwrap_or_else(|| {
            if self.heads.len() < SEQUENCES_MAX {
                self.heads.push(Head::default());
                return self.heads.len() - 1;
            }
            let oldest = (0..SEQUENCES_MAX)
                .min_by_key(|n| self.heads[*n].at)
                .unwrap_or(0);
            self.heads[oldest] = Head::default();
            oldest
        });
        let head = &mut self.heads[n];
        head.fetched = head.fetched.max(next);
        head.at = self.now;
        head
    }

    /// Records slots; returns whether any of them was not read just before.
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
        while self.slots.len() > HISTORY_SLOTS {
            let ages = self.slots.iter().map(|(_, at)| *at).enumerate();
            let oldest = ages.min_by_key(|(_, at)| *at);
            self.slots.remove(oldest.map_or(0, |(n, _)| n));
        }
        true
    }

    /// How many slots before this one were read recently, without a gap.
    fn sequence(&self, last: u64) -> u64 {
        let end = self.slots.partition_point(|(slot, _)| *slot < last);
        let before = self.slots[..end].iter().rev().zip(1..=PREFETCH_SLOTS_MAX);
        let mut later = self.now;
        let follows = before.take_while(|((slot, at), i)| {
            let recent = (at.saturating_sub(DISORDER)..=at + SKEW).contains(&later);
            later = *at;
            slot + i == last && recent
        });
        follows.count() as u64
    }
}

/// The access histories of a store's forks.
#[derive(Debug, Default)]
pub(crate) struct AccessHistories {
    forks: HashMap<ForkId, (AccessHistory, u64)>,
    /// Counts reads.
    now: u64,
    /// Recent sequential reads: the fork, and when.
    recent: VecDeque<(ForkId, u64)>,
    /// The same forks, and how often each is in `recent`.
    sequential: HashMap<ForkId, usize>,
}

impl AccessHistories {
    /// Records a read of a fork's slots; returns the slots to fetch now.
    pub(crate) fn read(
        &mut self,
        id: ForkId,
        slots: Range<u64>,
        reach: PrefetchBounds,
    ) -> Option<Range<u64>> {
        if reach.end <= SEQUENCE_MIN + 1 {
            return None;
        }
        self.now += 1;
        self.forget_old_reads();
        if self.forks.len() >= HISTORIES_MAX && !self.forks.contains_key(&id) {
            let mut times: Vec<u64> = self.forks.values().map(|(_, at)| *at).collect();
            let (_, middle, _) = times.select_nth_unstable(HISTORIES_MAX / 2);
            self.forks.retain(|_, (_, at)| *at > *middle);
        }
        let (history, at) = self.forks.entry(id).or_default();
        *at = self.now;
        let ends = slots.end >= reach.end;
        let (in_order, fetch) = history.read(slots, reach);
        if ends {
            self.sequential.remove(&id);
        } else if in_order {
            self.recent.push_back((id, self.now));
            *self.sequential.entry(id).or_default() += 1;
        }
        fetch
    }

    fn forget_old_reads(&mut self) {
        while let Some((id, at)) = self.recent.front().copied()
            && (self.recent.len() >= RECENT_READS || at + RECENT_AGE < self.now)
        {
            self.recent.pop_front();
            if let Some(count) = self.sequential.get_mut(&id) {
                *count -= 1;
                if *count == 0 {
                    self.sequential.remove(&id);
                }
            }
        }
    }

    /// How many forks are read sequentially.
    pub(crate) fn sequential_forks(&self) -> u64 {
        self.sequential.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FAR: PrefetchBounds = PrefetchBounds {
        most: PREFETCH_SLOTS_MAX,
        in_flight_left: u64::MAX,
        end: u64::MAX,
    };

    fn fetched(reads: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut history = AccessHistory::default();
        let fetches = reads
            .into_iter()
            .filter_map(|s| history.read(s..s + 1, FAR).1);
        fetches.collect()
    }

    fn slots(fetches: &[Range<u64>]) -> u64 {
        fetches.iter().map(|r| r.end - r.start).sum()
    }

    #[test]
    fn prefetches_grow_along_a_sequence() {
        let all = fetched(0..200);
        assert_eq!(all[0], 3..5);
        for pair in all.windows(2) {
            assert_eq!(
                pair[0].end, pair[1].start,
                "fetches neither overlap nor leave gaps"
            );
        }
        assert!(all.last().unwrap().end > 200);
        assert!(all.len() < 30, "{} fetches", all.len());
        let longest = fetched(0..2000).iter().map(|r| r.end - r.start).max();
        assert_eq!(longest, Some(PREFETCH_SLOTS_MAX / 2));
    }

    #[test]
    fn reads_of_many_clients_form_one_sequence() {
        // Each of four clients reads one quarter of every stripe, in turn and out of step.
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
    fn unordered_reads_prefetch_nothing() {
        assert_eq!(fetched((0..1000).map(|i| i * 7919 % 100_003)), []);
        assert_eq!(fetched((0..100).map(|i| i * 2)), []);
        assert_eq!(fetched((0..100).rev()), []);
        // Long reads prefetch nothing either.
        let mut history = AccessHistory::default();
        for i in 0..1000 {
            let at = 16 + i * 7919 % 10_007 * 16;
            assert_eq!(history.read(at..at + 16, FAR), (false, None));
        }
    }

    #[test]
    fn random_reads_of_a_short_fork_prefetch_little() {
        let mut state = 1_u64;
        for length in [60, 120, 500] {
            let mut random = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) % length
            };
            let all = fetched((0..length).chain((0..10_000).map(|_| random())));
            let chance = slots(&all).saturating_sub(length + PREFETCH_SLOTS_MAX);
            assert!(chance < 3000, "{chance} slots for 10,000 of {length}");
        }
    }

    #[test]
    fn interleaved_sequences_are_prefetched_separately() {
        for streams in [2, 4, 8, 16] {
            let turns = (0..200).flat_map(|n| (0..streams).map(move |s| s * 10_000 + n));
            let all = fetched(turns);
            let wanted = streams * 200;
            assert!(
                slots(&all) > wanted - streams * 12,
                "{} of {wanted}",
                slots(&all)
            );
            assert!(
                slots(&all) < wanted + streams * PREFETCH_SLOTS_MAX,
                "fetched twice: {}",
                slots(&all)
            );
            assert!(all.len() as u64 <= streams * 60, "{} fetches", all.len());
        }
    }

    #[test]
    fn a_second_pass_is_prefetched_like_the_first() {
        for (length, most) in [(20, 128), (64, 128), (64, 16), (118, 16), (300, 128)] {
            let reach = PrefetchBounds {
                most,
                end: length,
                ..FAR
            };
            let mut history = AccessHistory::default();
            for _ in 0..3 {
                let all: Vec<_> = (0..length)
                    .filter_map(|s| history.read(s..s + 1, reach).1)
                    .collect();
                assert_eq!(slots(&all), length - 3, "{length}, {most}");
                assert_eq!(all.last().unwrap().end, length);
                let longest = all.iter().map(|r| r.end - r.start).max();
                assert!(longest >= Some(length.min(60) / 8), "{all:?}");
                assert!(all.len() as u64 <= 8 + length / 8, "{all:?}");
            }
        }
    }

    #[test]
    fn a_slowly_freed_budget_does_not_split_prefetches() {
        let mut history = AccessHistory::default();
        let mut all = Vec::new();
        for slot in 0_u64..1000 {
            // Each read frees two slots.
            let in_flight_left = (slot * 2).saturating_sub(slots(&all));
            let reach = PrefetchBounds {
                in_flight_left,
                ..FAR
            };
            all.extend(history.read(slot..slot + 1, reach).1);
        }
        assert!(
            slots(&all) > 900 && all.len() < 100,
            "{} in {}",
            slots(&all),
            all.len()
        );
    }

    #[test]
    fn the_most_recently_read_forks_keep_their_histories() {
        let mut histories = AccessHistories::default();
        let reach = PrefetchBounds { end: 1000, ..FAR };
        for slot in 0..4 {
            for id in 1..HISTORIES_MAX as u64 + 100 {
                histories.read(ForkId(id), slot..slot + 1, reach);
                // Fork 0 is read continuously.
                histories.read(ForkId(0), 500..501, reach);
            }
            assert!(histories.forks.len() <= HISTORIES_MAX);
            assert!(histories.forks.contains_key(&ForkId(0)));
        }
        assert_eq!(
            histories.sequential_forks(),
            0,
            "each fork was dropped before its next read"
        );
    }

    #[test]
    fn only_forks_being_read_count_as_sequential() {
        let mut histories = AccessHistories::default();
        for slot in 0..200 {
            for id in 0..300 {
                histories.read(ForkId(id), slot..slot + 1, FAR);
            }
        }
        assert_eq!(histories.sequential_forks(), 300);
        // Many short forks, each read to its end.
        for id in 1000..9000 {
            for slot in 0..4 {
                let reach = PrefetchBounds { end: 4, ..FAR };
                histories.read(ForkId(id), slot..slot + 1, reach);
            }
        }
        assert!(
            histories.sequential_forks() < 2,
            "{}",
            histories.sequential_forks()
        );
        assert!(histories.recent.len() <= RECENT_READS && histories.forks.len() <= HISTORIES_MAX);
    }

    proptest! {
        #[test]
        fn a_prefetch_starts_after_the_read_and_is_bounded(
            reads in prop::collection::vec((0_u64..300, 1_u64..200, 0_u64..200, 0_u64..200), 1..300),
        ) {
            let mut history = AccessHistory::default();
            for (start, length, most, in_flight_left) in reads {
                let reach = PrefetchBounds {
                    most,
                    in_flight_left,
                    end: 400,
                };
                if let Some(fetch) = history.read(start..start + length, reach).1 {
                    prop_assert!(fetch.start >= start + length);
                    let end = start + length + PREFETCH_SLOTS_MAX.min(most);
                    prop_assert!(fetch.end <= end.min(400) && !fetch.is_empty());
                    prop_assert!(fetch.end - fetch.start <= in_flight_left);
                }
                prop_assert!(history.slots.len() <= HISTORY_SLOTS);
                prop_assert!(history.slots.is_sorted_by(|a, b| a.0 < b.0));
            }
        }
    }
}
