//! Turns: which background operations exclude each other.
//!
//! A function that may only run inside a turn takes the turn's guard as an argument.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};

use crate::index::Application;
use crate::limits::LANES;

/// The locks behind the turns.
#[derive(Default)]
pub(crate) struct Turns {
    sync: Arc<Mutex<()>>,
    flush: Mutex<()>,
    /// Holds what an earlier application could not bring into the index.
    apply: Mutex<Option<Application>>,
    grow: Mutex<()>,
    merge: Mutex<()>,
    large_call: Mutex<()>,
    lanes: Lanes,
}

struct Lanes([Mutex<()>; LANES]);

impl Default for Lanes {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

/// No other sync of the log and the disks runs.
pub(crate) struct SyncTurn(#[expect(dead_code, reason = "held")] OwnedMutexGuard<()>);

/// No other flush of dirty pages runs.
pub(crate) struct FlushTurn<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

/// Nothing else grows, fills or punches the disks' files.
pub(crate) struct GrowTurn<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

/// No chunk moves from a dropped checkpoint to the fork that derives from it.
pub(crate) struct MergeTurn<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

impl Turns {
    pub(crate) async fn sync(&self) -> SyncTurn {
        SyncTurn(Arc::clone(&self.sync).lock_owned().await)
    }

    pub(crate) async fn flush(&self) -> FlushTurn<'_> {
        FlushTurn(self.flush.lock().await)
    }

    /// The turn to apply the log; its value is what an earlier application left pending.
    pub(crate) async fn apply(&self) -> MutexGuard<'_, Option<Application>> {
        self.apply.lock().await
    }

    pub(crate) async fn grow(&self) -> GrowTurn<'_> {
        GrowTurn(self.grow.lock().await)
    }

    /// As [`Turns::grow`], if nothing else has the turn.
    pub(crate) fn try_grow(&self) -> Option<GrowTurn<'_>> {
        self.grow.try_lock().ok().map(GrowTurn)
    }

    pub(crate) async fn merge(&self) -> MergeTurn<'_> {
        MergeTurn(self.merge.lock().await)
    }

    /// The turn of the large call that waits for admission next.
    pub(super) async fn large_call(&self) -> MutexGuard<'_, ()> {
        self.large_call.lock().await
    }

    /// Keeps calls about one addressed chunk apart; `hash` is any byte of its name.
    pub(crate) async fn lane(&self, hash: u8) -> MutexGuard<'_, ()> {
        self.lanes.0[hash as usize % LANES].lock().await
    }
}
