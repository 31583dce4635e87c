//! The incarnations of the service, and whether a change that one of them acknowledged is still
//! there.
//!
//! A client that can wait for syncs is answered before its change survives power loss. The history
//! ([`weft_kv::History`]) counts the engine's commits and is stored in the engine itself, so an
//! older copy of one is an older copy of the other.
//!
//! Invariant: the commits that the engine had are counted before this run commits anything.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use weft_kv::{Batch, History, Incarnation, OrderedKv, Position};
use weft_proto::stamp;

use crate::error::MetaError;
use crate::records::keys::{INCARNATIONS_KEY, VOLUME};

/// The history of incarnations, and the durable commits of the present one.
#[derive(Debug)]
pub(crate) struct Incarnations {
    /// The engine's last commit when it was opened.
    found: u64,
    history: RwLock<History>,
    /// Commits up to this one are on stable storage.
    durable: AtomicU64,
}

impl Incarnations {
    /// No incarnation has begun; `found` is the engine's last commit.
    pub(crate) fn new(found: u64) -> Incarnations {
        Incarnations {
            found,
            history: RwLock::default(),
            durable: AtomicU64::new(0),
        }
    }

    /// Begins an incarnation.
    ///
    /// # Durability
    /// On stable storage on return, and nothing may be acknowledged before.
    pub(crate) fn begin(&self, kv: &dyn OrderedKv, number: u64, now: i64) -> Result<(), MetaError> {
        let known = kv.snapshot()?.get(VOLUME, INCARNATIONS_KEY)?;
        let mut history = match known {
            None => History::default(),
            Some(bytes) => History::decode(&bytes).ok_or(MetaError::Corrupt {
                what: "history of incarnations",
                id: 0,
                reason: "it cannot be decoded".to_owned(),
            })?,
        };
        history.begin(number, self.found, now);
        kv.write(Batch {
            changes: vec![(VOLUME, INCARNATIONS_KEY.to_vec(), Some(history.encode()))],
        })?;
        let committed = kv.committed();
        kv.sync()?;
        self.note_durable(committed);
        *self.history.write() = history;
        Ok(())
    }

    /// The position of this commit; `None` where no incarnation was begun.
    pub(crate) fn position(&self, sequence: u64) -> Option<Position> {
        let incarnation = self.history.read().current()?.number;
        Some(Position {
            incarnation,
            sequence,
        })
    }

    /// Records that a sync covered everything up to this commit.
    pub(crate) fn note_durable(&self, committed: u64) {
        self.durable.fetch_max(committed, Ordering::AcqRel);
    }

    /// The last position known to be on stable storage; `None` where no incarnation was begun.
    pub(crate) fn durable(&self) -> Option<stamp::Position> {
        let incarnation = self.history.read().current()?.number;
        let sequence = self.durable.load(Ordering::Acquire);
        Some(stamp::Position {
            incarnation,
            sequence,
        })
    }

    /// Checks that everything acknowledged up to a position is still there.
    ///
    /// # Errors
    /// [`MetaError::Lost`].
    pub(crate) fn check_has(&self, at: Position, committed: u64) -> Result<(), MetaError> {
        let history = self.history.read();
        let there = history.holds(at, committed);
        there.map_err(|without| MetaError::Lost {
            began: without
                .or_else(|| history.current().copied())
                .map_or(0, |one: Incarnation| one.began),
        })
    }
}
