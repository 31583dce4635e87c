//! The incarnations of a database that counts its commits: an engine, or a store's log.
//!
//! A process that opens a database begins an *incarnation*: it draws a random number, records the
//! last commit that it found, and makes that record durable before it acknowledges anything. A
//! position, `(incarnation, sequence)`, then names one commit for ever, although numbers are reused
//! after a power loss took the last ones.
//!
//! The records alone tell whether a commit is still there: it is, if its incarnation is known and
//! no later one began below it. A process that was only killed lost nothing, so the next
//! incarnation begins above all that was acknowledged. A power loss takes the commits since the
//! last sync, and the next incarnation begins where recovery ended. An older copy of the whole
//! database has older records as well: they do not know the incarnation, or begin the next one
//! below the position.
//!
//! Deliberately absent: clocks. The time of an opening is kept for messages to people only.

use crate::limits::INCARNATIONS_KEPT;

/// A commit, for ever: the process that made it, and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The process's number; 0 is none's.
    pub incarnation: u64,
    /// The commit's number.
    pub sequence: u64,
}

/// From one opening to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// Drawn at random, not 0.
    pub number: u64,
    /// The last commit that it found.
    pub found: u64,
    /// When it began, in nanoseconds since the epoch.
    pub began: i64,
}

/// The last incarnations, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Vec<Incarnation>);

/// Bytes of an incarnation in [`History::encode`].
const ENTRY_BYTES: usize = 24;

impl History {
    /// Begins an incarnation that found `found` as the last commit.
    ///
    /// A `number` that is 0 or taken is replaced by one that is free.
    pub fn begin(&mut self, number: u64, found: u64, began: i64) -> Incarnation {
        let taken = |n: u64| n == 0 || self.0.iter().any(|one| one.number == n);
        let mut number = number;
        while taken(number) {
            number = number.wrapping_add(1);
        }
        let incarnation = Incarnation {
            number,
            found,
            began,
        };
        if self.0.len() >= INCARNATIONS_KEPT {
            self.0.remove(0);
        }
        self.0.push(incarnation);
        incarnation
    }

    /// The newest incarnation.
    pub fn current(&self) -> Option<&Incarnation> {
        self.0.last()
    }

    /// Whether the commit at a position is still there, if the database now has commits up to
    /// `reached`.
    ///
    /// # Errors
    /// The incarnation that began without it; none, if the history is empty.
    pub fn holds(&self, at: Position, reached: u64) -> Result<(), Option<Incarnation>> {
        let Some(index) = self.0.iter().position(|one| one.number == at.incarnation) else {
            // As far as can be told, the oldest known incarnation began without it.
            return Err(self.0.first().copied());
        };
        let later = self.0[index + 1..].iter();
        if let Some(without) = later.clone().find(|one| one.found < at.sequence) {
            return Err(Some(*without));
        }
        if at.sequence > reached {
            return Err(self.current().copied());
        }
        Ok(())
    }

    /// All incarnations, oldest first.
    pub fn incarnations(&self) -> &[Incarnation] {
        &self.0
    }

    /// Encodes it in at most 3 KiB: a count, then number, found and began of each, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = (self.0.len() as u32).to_le_bytes().to_vec();
        for one in &self.0 {
            out.extend(one.number.to_le_bytes());
            out.extend(one.found.to_le_bytes());
            out.extend(one.began.to_le_bytes());
        }
        out
    }

    /// Decodes it; `None` where the bytes are no history.
    pub fn decode(bytes: &[u8]) -> Option<History> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        if count > INCARNATIONS_KEPT || rest.len() != count * ENTRY_BYTES {
            return None;
        }
        let mut all = Vec::with_capacity(count);
        for entry in rest.chunks_exact(ENTRY_BYTES) {
            let field = |n: usize| entry[n * 8..].first_chunk::<8>().copied();
            let one = Incarnation {
                number: u64::from_le_bytes(field(0)?),
                found: u64::from_le_bytes(field(1)?),
                began: i64::from_le_bytes(field(2)?),
            };
            if one.number == 0 {
                return None;
            }
            all.push(one);
        }
        Some(History(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(incarnation: u64, sequence: u64) -> Position {
        Position {
            incarnation,
            sequence,
        }
    }

    #[test]
    fn a_process_kill_loses_no_commit() {
        let mut history = History::default();
        history.begin(7, 0, 0);
        history.begin(8, 100, 0);
        assert_eq!(history.holds(at(7, 100), 100), Ok(()));
        assert_eq!(history.holds(at(8, 150), 150), Ok(()));
    }

    #[test]
    fn commits_lost_to_power_loss_stay_lost_although_their_numbers_are_reused() {
        let mut history = History::default();
        history.begin(7, 0, 0);
        let second = history.begin(8, 90, 5);
        assert_eq!(history.holds(at(7, 90), 500), Ok(()));
        assert_eq!(history.holds(at(7, 91), 500), Err(Some(second)));
        assert_eq!(history.holds(at(8, 91), 500), Ok(()));
    }

    #[test]
    fn a_later_loss_can_affect_several_earlier_incarnations() {
        let mut history = History::default();
        history.begin(7, 0, 0);
        history.begin(8, 100, 0);
        let third = history.begin(9, 50, 0);
        assert_eq!(history.holds(at(7, 50), 60), Ok(()));
        assert_eq!(history.holds(at(7, 80), 60), Err(Some(third)));
        assert_eq!(history.holds(at(8, 120), 60), Err(Some(third)));
    }

    #[test]
    fn an_older_copy_does_not_hold_later_commits() {
        let mut history = History::default();
        history.begin(7, 0, 0);
        let copy = history.clone();
        history.begin(8, 40, 0);
        let mut restored = copy;
        let again = restored.begin(9, 20, 0);
        assert_eq!(restored.holds(at(7, 20), 20), Ok(()));
        assert_eq!(restored.holds(at(7, 40), 20), Err(Some(again)));
        assert!(restored.holds(at(8, 41), 20).is_err());
        // A copy of an open database has the same incarnation but fewer commits.
        let open = History(restored.0[..1].to_vec());
        assert!(open.holds(at(7, 30), 20).is_err());
    }

    #[test]
    fn incarnation_numbers_are_unique_and_old_incarnations_are_dropped() {
        let mut history = History::default();
        assert_eq!(history.begin(0, 0, 0).number, 1);
        assert_eq!(history.begin(1, 5, 0).number, 2);
        for n in 0..INCARNATIONS_KEPT as u64 {
            history.begin(1000 + n, 10 + n, 0);
        }
        assert_eq!(history.incarnations().len(), INCARNATIONS_KEPT);
        assert!(history.holds(at(1, 3), 1000).is_err());
        assert_eq!(history.holds(at(1000, 11), 1000), Ok(()));
    }

    #[test]
    fn a_history_is_decoded_from_its_bytes_and_other_bytes_are_refused() {
        let mut history = History::default();
        history.begin(7, 3, -5);
        history.begin(9, 8, i64::MAX);
        let bytes = history.encode();
        assert_eq!(History::decode(&bytes), Some(history));
        for length in 0..bytes.len() {
            assert_eq!(History::decode(&bytes[..length]), None);
        }
        let mut many = bytes.clone();
        many[3] = 0xff;
        assert_eq!(History::decode(&many), None);
    }
}
