//! Which incarnations of the service there were, and whether a change that one of them acknowledged is still there.
//!
//! A client that can wait for syncs is answered before its change survives power loss. The history
//! ([`weft_kv::History`]) counts the engine's commits and lies in the engine itself, so that an older copy of one is an
//! older copy of the other.
//!
//! Invariant: what the engine had is counted before this life of the service commits anything.

use std::sync::atomic::Ordering;

use weft_kv::{Batch, History, Incarnation, Position};
use weft_proto::stamp;

use super::error::MetaError;
use super::namespace::Namespace;
use crate::records::keys::{INCARNATIONS_KEY, VOLUME};

impl Namespace {
    /// Begins an incarnation of the service, `number` drawn at random.
    ///
    /// # Errors
    /// The engine's.
    /// # Durability
    /// On stable storage on return, and nothing may be acknowledged before.
    pub fn begin_incarnation(&self, number: u64, now: i64) -> Result<(), MetaError> {
        let known = self.kv.snapshot()?.get(VOLUME, INCARNATIONS_KEY)?;
        let mut history = match known {
            None => History::default(),
            Some(bytes) => History::decode(&bytes).ok_or(MetaError::Corrupt {
                what: "history of incarnations",
                id: 0,
                reason: "it cannot be decoded".to_owned(),
            })?,
        };
        history.begin(number, self.found, now);
        self.kv.write(Batch {
            changes: vec![(VOLUME, INCARNATIONS_KEY.to_vec(), Some(history.encode()))],
        })?;
        let committed = self.kv.committed();
        self.kv.sync()?;
        self.note_durable(committed);
        *self.history.write() = history;
        Ok(())
    }

    /// A position that covers every change until now; none where no incarnation was begun.
    pub fn position(&self) -> Option<Position> {
        let incarnation = self.history.read().current()?.number;
        Some(Position {
            incarnation,
            sequence: self.kv.committed(),
        })
    }

    /// A sync covered everything up to this commit.
    pub fn note_durable(&self, committed: u64) {
        self.durable.fetch_max(committed, Ordering::AcqRel);
    }

    /// What survives power loss, as far as is known; none where no incarnation was begun.
    pub(crate) fn durable(&self) -> Option<stamp::Position> {
        let incarnation = self.history.read().current()?.number;
        let sequence = self.durable.load(Ordering::Acquire);
        Some(stamp::Position {
            incarnation,
            sequence,
        })
    }

    /// Whether everything that was acknowledged at a position is still there.
    ///
    /// # Errors
    /// [`MetaError::Lost`].
    pub fn still_has(&self, at: Position) -> Result<(), MetaError> {
        let history = self.history.read();
        let held = history.holds(at, self.kv.committed());
        held.map_err(|without| MetaError::Lost {
            began: without
                .or_else(|| history.current().copied())
                .map_or(0, |one: Incarnation| one.began),
        })
    }
}
