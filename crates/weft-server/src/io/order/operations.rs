//! The operations that touch several servers, from their first call on this one to their end.
//!
//! Invariants:
//! 1. An operation is decided on its coordinator, once: by a commit, or by a question for its
//!    outcome, which aborts it.
//! 2. That an operation has taken effect is in the store as soon as its bytes are.
//! 3. An operation that was ended before its first call arrived does not begin.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedRwLockReadGuard, OwnedSemaphorePermit};
use weft_layout::FileId;
use weft_proto::{Code, Failure};
use weft_store::{DiskWait, ForkKey, StoreError, Timestamp};

use super::extents::Extents;
use super::outcomes::Outcomes;
use super::schedule::{Claim, Mode};
use crate::io::replica::{Prepared, ReplicatedStore};
use crate::limits::{CLEAR_BATCH_RANGES, CLIENT_OPERATIONS_MAX, ENDED_EARLY_MAX};

/// What an operation does here when it is committed.
pub(in crate::io) enum Effect {
    /// Nothing: it reads, or its effect comes by other calls.
    Nothing,
    Write {
        batches: Vec<Prepared>,
        /// The commit is answered when the bytes survive power loss.
        sync: bool,
        /// As is held by the bytes that the disk is still writing.
        memory: Arc<OwnedSemaphorePermit>,
    },
    Clear(Vec<(ForkKey, Range<u64>)>),
}

/// A granted claim, and for a change the gate that keeps checkpoints of the file waiting.
pub(in crate::io) struct Granted {
    pub(super) claim: Claim,
    pub(super) _gate: Option<OwnedRwLockReadGuard<()>>,
}

impl Granted {
    /// Waits until the claim is taken away because others wait for it.
    pub(in crate::io) async fn revoked(&self) {
        self.claim.revoked().await;
    }
}

/// One operation that touches several servers.
pub(super) struct Operation {
    pub(super) id: u64,
    pub(super) client: u64,
    pub(super) coordinator: u32,
    pub(super) file: FileId,
    pub(super) mode: Mode,
    pub(super) extents: Extents,
    /// It changes the file here, so checkpoints wait for it. The calls of an operation whose effect
    /// comes by other calls pass the gate themselves.
    pub(super) gated: bool,
    /// It takes effect in several steps.
    in_steps: bool,
    state: AsyncMutex<State>,
}

enum State {
    Staged {
        granted: Option<Granted>,
        effect: Effect,
    },
    /// It has taken effect, and keeps its claim until it has done so everywhere.
    Committed {
        _granted: Granted,
    },
    Ended,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    Done,
    /// It is not known here, or has no claim any more. Nothing was done.
    Unknown,
}

impl Operation {
    pub(super) fn new(
        id: u64,
        client: u64,
        coordinator: u32,
        file: FileId,
        mode: Mode,
        extents: Extents,
        effect: Effect,
    ) -> Operation {
        Operation {
            id,
            client,
            coordinator,
            file,
            mode,
            extents,
            gated: !matches!(effect, Effect::Nothing),
            in_steps: matches!(effect, Effect::Clear(_)),
            state: AsyncMutex::new(State::Staged {
                granted: None,
                effect,
            }),
        }
    }

    /// Takes the granted claim; false if the operation has ended meanwhile.
    pub(super) async fn grant(&self, new: Granted) -> bool {
        match &mut *self.state.lock().await {
            State::Staged { granted, .. } => {
                *granted = Some(new);
                true
            }
            State::Committed { .. } => true,
            State::Ended => false,
        }
    }

    /// Whether it has taken effect.
    pub(super) async fn is_committed(&self) -> bool {
        matches!(&*self.state.lock().await, State::Committed { .. })
    }

    /// Gives the claim back, unless it has taken effect.
    pub(super) async fn give_back(&self) {
        if let State::Staged { granted, .. } = &mut *self.state.lock().await {
            *granted = None;
        }
    }

    /// Lets it take effect; once.
    ///
    /// A clear must be polled to its end. A write that is dropped has not taken effect, or is known
    /// to have: nothing is awaited in between.
    async fn commit(
        &self,
        store: &ReplicatedStore,
        outcomes: &Outcomes,
        now: Timestamp,
        decided: bool,
    ) -> Result<Commit, StoreError> {
        // Before the state is locked: the operation can be aborted while its disk is slow.
        for disk in self.disks().await {
            disk.ended().await;
        }
        let mut state = self.state.lock().await;
        match &*state {
            State::Staged {
                granted: Some(granted),
                ..
            } if decided || !granted.claim.is_revoked() => {}
            State::Committed { .. } => return Ok(Commit::Done),
            _ => return Ok(Commit::Unknown),
        }
        let State::Staged {
            granted: Some(granted),
            effect,
        } = std::mem::replace(&mut *state, State::Ended)
        else {
            return Ok(Commit::Unknown);
        };
        let (entry, write) = outcomes.next(store, self.id).await?;
        match effect {
            Effect::Nothing => {}
            Effect::Write {
                batches,
                sync,
                memory,
            } => {
                store.commit_prepared(batches, vec![write], now).await?;
                outcomes.keep(entry);
                if sync {
                    store.sync().await?;
                }
                drop(memory);
            }
            Effect::Clear(ranges) => {
                // First: what is cleared and not known as cleared would be cleared again later.
                store.write(vec![write], now).await?;
                outcomes.keep(entry);
                for batch in ranges.chunks(CLEAR_BATCH_RANGES) {
                    store.clear(batch, now).await?;
                }
            }
        }
        *state = State::Committed { _granted: granted };
        Ok(Commit::Done)
    }

    /// What the disk is still writing of it.
    async fn disks(&self) -> Vec<DiskWait> {
        match &*self.state.lock().await {
            State::Staged {
                effect: Effect::Write { batches, .. },
                ..
            } => batches.iter().filter_map(Prepared::disk).collect(),
            _ => Vec::new(),
        }
    }

    /// Ends it, and its claim; waits for a commit that is under way.
    async fn end(&self) {
        *self.state.lock().await = State::Ended;
    }
}

#[derive(Default)]
struct Table {
    by_id: BTreeMap<u64, Arc<Operation>>,
    /// Operations that were ended while they were not known, oldest first: a call may be late.
    ended_early: VecDeque<u64>,
}

impl Table {
    fn end_early(&mut self, id: u64) {
        if self.ended_early.len() >= ENDED_EARLY_MAX {
            self.ended_early.pop_front();
        }
        self.ended_early.push_back(id);
    }
}

/// The operations in progress on one server.
#[derive(Clone, Default)]
pub(in crate::io) struct Operations {
    table: Arc<Mutex<Table>>,
    outcomes: Arc<Outcomes>,
}

impl Operations {
    /// Adds an operation. `connected`: whether its client still is; looked at under the lock, so
    /// that an operation of a client that leaves is either refused here or found by
    /// [`Operations::of_client`].
    ///
    /// # Errors
    /// [`Code::Cancelled`] if the client has left or ended it; [`Code::Busy`] if it has too many;
    /// [`Code::Exists`] if there is one of this number.
    pub(super) fn add(
        &self,
        operation: Operation,
        connected: impl FnOnce() -> bool,
    ) -> Result<Arc<Operation>, Failure> {
        let operation = Arc::new(operation);
        let mut table = self.table.lock();
        if !connected() || table.ended_early.contains(&operation.id) {
            let what = "the client has left, or has ended the operation";
            return Err(Failure::new(Code::Cancelled, what));
        }
        let of_client = (table.by_id.values()).filter(|o| o.client == operation.client);
        if of_client.count() >= CLIENT_OPERATIONS_MAX {
            let what = format!("the client has {CLIENT_OPERATIONS_MAX} operations in progress");
            return Err(Failure::new(Code::Busy, what));
        }
        if table.by_id.contains_key(&operation.id) {
            let what = format!("operation {:016x} is in progress already", operation.id);
            return Err(Failure::new(Code::Exists, what));
        }
        table.by_id.insert(operation.id, operation.clone());
        Ok(operation)
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Operation>> {
        self.table.lock().by_id.get(&id).cloned()
    }

    /// As [`Operations::get`]; one that is not known never begins.
    pub(super) fn get_to_end(&self, id: u64) -> Option<Arc<Operation>> {
        let mut table = self.table.lock();
        let operation = table.by_id.get(&id).cloned();
        if operation.is_none() {
            table.end_early(id);
        }
        operation
    }

    pub(super) fn of_client(&self, client: u64) -> Vec<Arc<Operation>> {
        let table = self.table.lock();
        let of_client = table.by_id.values().filter(|o| o.client == client);
        of_client.cloned().collect()
    }

    /// Lets an operation take effect; a caller that is dropped does not stop it halfway. `decided`:
    /// its coordinator has decided, so that a claim that was taken away is no obstacle.
    pub(super) async fn commit(
        &self,
        operation: Arc<Operation>,
        store: &ReplicatedStore,
        now: Timestamp,
        decided: bool,
    ) -> Result<Commit, StoreError> {
        if !operation.in_steps && store.replicas().is_none() {
            return operation.commit(store, &self.outcomes, now, decided).await;
        }
        let (store, outcomes) = (store.clone(), self.outcomes.clone());
        let work = async move { operation.commit(&store, &outcomes, now, decided).await };
        match tokio::spawn(work).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// Ends an operation: what has not taken effect never will.
    pub(super) async fn end(&self, operation: &Operation) {
        operation.end().await;
        self.table.lock().by_id.remove(&operation.id);
    }

    /// Forgets which operations have taken effect, which the store knows: another replica of the
    /// server has changed it since.
    pub(in crate::io) fn forget_outcomes(&self) {
        self.outcomes.forget();
    }

    /// Whether an operation that is not in progress any more has taken effect here.
    pub(super) async fn has_taken_effect(
        &self,
        store: &ReplicatedStore,
        id: u64,
    ) -> Result<bool, StoreError> {
        self.outcomes.has(store, id).await
    }
}
