//! One pointer in memory: its offset, and the last take of each taker. Decides; stores nothing.

use std::collections::HashMap;

use tokio::time::Instant;
use weft_layout::OFFSET_MAX;
use weft_proto::{Code, Failure};

use super::record::{ENTRY_BYTES, Take, head};
use crate::failure;
use crate::limits::{TAKER_IDLE_MIN, TAKERS_MAX};

/// What a taker asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) taker: u64,
    pub(super) sequence: u64,
    pub(super) bytes: u64,
}

struct Taker {
    entry: usize,
    last: Take,
    used: Instant,
}

/// Takes that the store has to keep before they are answered.
pub(super) struct Dealt {
    offset: u64,
    takes: Vec<(usize, Take)>,
}

impl Dealt {
    /// A pointer that is moved; its takers stay.
    pub(super) fn moved_to(offset: u64) -> Dealt {
        let takes = Vec::new();
        Dealt { offset, takes }
    }

    /// The pieces to write, by their offset in the pointer's fork.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, [u8; ENTRY_BYTES])> {
        let entry = |(entry, take): &(usize, Take)| ((1 + entry) * ENTRY_BYTES, take.encode());
        std::iter::once((0, head(self.offset))).chain(self.takes.iter().map(entry))
    }
}

/// A pointer. Its entries in the store are numbered from 0, and each has one taker.
pub(super) struct PointerState {
    offset: u64,
    takers: HashMap<u64, Taker>,
}

impl PointerState {
    pub(super) fn new(offset: u64, takes: Vec<Take>, now: Instant) -> PointerState {
        let known = takes.into_iter().enumerate().map(|(entry, last)| {
            let used = now;
            (last.taker, Taker { entry, last, used })
        });
        PointerState {
            offset,
            takers: known.collect(),
        }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The answer to a take that was dealt before.
    ///
    /// # Errors
    /// [`Code::Invalid`] for one that is older than the taker's last, or another take under the
    /// same number.
    pub(super) fn answered(&self, asked: Asked) -> Result<Option<u64>, Failure> {
        let Some(last) = self.takers.get(&asked.taker).map(|taker| taker.last) else {
            return Ok(None);
        };
        if asked.sequence > last.sequence {
            return Ok(None);
        }
        if (asked.sequence, asked.bytes) == (last.sequence, last.bytes) {
            return Ok(Some(last.offset));
        }
        Err(failure::invalid(format!(
            "take {} of {} bytes is out of date: take {} of {} bytes was dealt since",
            asked.sequence, asked.bytes, last.sequence, last.bytes
        )))
    }

    /// Deals consecutive ranges, in this order. Nothing changes before [`PointerState::keep`].
    ///
    /// # Errors
    /// [`Code::TooLarge`] beyond the largest offset; [`Code::Busy`] with too many takers.
    pub(super) fn deal(&self, asked: &[Asked], now: Instant) -> Result<Dealt, Failure> {
        let mut free = self.takers.len()..TAKERS_MAX;
        let (mut offset, mut takes, mut idle) = (self.offset, Vec::new(), None);
        for one in asked {
            let end = offset
                .checked_add(one.bytes)
                .filter(|end| *end <= OFFSET_MAX);
            let Some(end) = end else {
                let what = format!(
                    "{} bytes at offset {offset} are beyond the largest offset {OFFSET_MAX}",
                    one.bytes
                );
                return Err(Failure::new(Code::TooLarge, what));
            };
            let known = self.takers.get(&one.taker).map(|known| known.entry);
            let entry = if let Some(entry) = known.or_else(|| free.next()) {
                entry
            } else {
                let idle = idle.get_or_insert_with(|| self.idle_entries(asked, now));
                idle.pop().ok_or_else(too_many_takers)?
            };
            let take = Take {
                taker: one.taker,
                sequence: one.sequence,
                offset,
                bytes: one.bytes,
            };
            takes.push((entry, take));
            offset = end;
        }
        Ok(Dealt { offset, takes })
    }

    /// Entries of takers that have taken nothing for so long that they repeat nothing any more.
    fn idle_entries(&self, asking: &[Asked], now: Instant) -> Vec<usize> {
        let idle = |taker: &&Taker| {
            now.duration_since(taker.used) >= TAKER_IDLE_MIN
                && asking.iter().all(|asked| asked.taker != taker.last.taker)
        };
        let idle = self.takers.values().filter(idle);
        idle.map(|taker| taker.entry).collect()
    }

    /// Notes what the store has kept.
    pub(super) fn keep(&mut self, dealt: Dealt, now: Instant) {
        self.offset = dealt.offset;
        for (entry, last) in dealt.takes {
            // A taker whose entry another one got is forgotten.
            if !self.takers.contains_key(&last.taker) {
                self.takers.retain(|_, taker| taker.entry != entry);
            }
            let taker = Taker {
                entry,
                last,
                used: now,
            };
            self.takers.insert(last.taker, taker);
        }
    }
}

fn too_many_takers() -> Failure {
    let what = format!(
        "{TAKERS_MAX} takers use the pointer; one that takes nothing for {} makes place for another",
        humantime::format_duration(TAKER_IDLE_MIN)
    );
    Failure::new(Code::Busy, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(taker: u64, sequence: u64, bytes: u64) -> Asked {
        Asked {
            taker,
            sequence,
            bytes,
        }
    }

    fn take(state: &mut PointerState, one: Asked, now: Instant) -> Result<u64, Code> {
        if let Some(offset) = state.answered(one).map_err(|failure| failure.code())? {
            return Ok(offset);
        }
        let dealt = state.deal(&[one], now).map_err(|failure| failure.code())?;
        let offset = dealt.takes[0].1.offset;
        state.keep(dealt, now);
        Ok(offset)
    }

    #[tokio::test]
    async fn takes_follow_one_another_and_a_repeated_one_gets_its_answer() {
        let now = Instant::now();
        let mut state = PointerState::new(100, Vec::new(), now);
        assert_eq!(take(&mut state, asked(1, 1, 10), now), Ok(100));
        assert_eq!(take(&mut state, asked(2, 1, 5), now), Ok(110));
        assert_eq!(take(&mut state, asked(1, 1, 10), now), Ok(100));
        assert_eq!(take(&mut state, asked(1, 2, 1), now), Ok(115));
        assert_eq!(take(&mut state, asked(1, 1, 10), now), Err(Code::Invalid));
        assert_eq!(take(&mut state, asked(1, 2, 2), now), Err(Code::Invalid));
        assert_eq!(state.offset(), 116);
    }

    #[tokio::test]
    async fn a_pointer_stays_below_the_largest_offset() {
        let now = Instant::now();
        let mut state = PointerState::new(OFFSET_MAX - 1, Vec::new(), now);
        assert_eq!(take(&mut state, asked(1, 1, 2), now), Err(Code::TooLarge));
        assert_eq!(
            take(&mut state, asked(1, 1, u64::MAX), now),
            Err(Code::TooLarge)
        );
        assert_eq!(take(&mut state, asked(1, 1, 1), now), Ok(OFFSET_MAX - 1));
    }

    #[tokio::test]
    async fn only_an_idle_taker_gives_its_entry_to_another() {
        let start = Instant::now();
        let mut state = PointerState::new(0, Vec::new(), start);
        for taker in 1..=TAKERS_MAX as u64 {
            assert_eq!(take(&mut state, asked(taker, 1, 1), start), Ok(taker - 1));
        }
        let new = asked(1 << 40, 1, 1);
        assert_eq!(take(&mut state, new, start), Err(Code::Busy));
        // The known ones go on.
        let later = start + TAKER_IDLE_MIN;
        let count = TAKERS_MAX as u64;
        assert_eq!(take(&mut state, asked(7, 2, 1), later), Ok(count));
        assert_eq!(take(&mut state, new, later), Ok(count + 1));
        assert_eq!(state.takers.len(), TAKERS_MAX);
        assert_eq!(take(&mut state, asked(7, 2, 1), later), Ok(count));
        assert_eq!(take(&mut state, new, later), Ok(count + 1));
    }
}
