//! Turns: which background operations exclude each other.
//!
//! A function that may only run inside a turn takes the turn's guard as an argument.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};
use weft_layout::FileId;

use crate::index::Application;
use crate::key::{ChunkName, ForkKey};
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
    /// By the names of chunks.
    names: Lanes,
    /// By the places of chunks in addressed forks.
    places: Lanes,
    /// By addressed forks.
    recipes: Lanes,
    clean: Mutex<()>,
}

struct Lanes([Mutex<()>; LANES]);

impl Default for Lanes {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

/// Lanes that a call has taken, in ascending order.
pub(crate) type LaneGuards<'a> = Vec<MutexGuard<'a, ()>>;

impl Lanes {
    /// Locks several lanes in ascending order, so that no two calls wait for each other.
    async fn lock(&self, numbers: impl Iterator<Item = usize>) -> LaneGuards<'_> {
        let numbers: BTreeSet<usize> = numbers.map(|n| n % LANES).collect();
        let mut guards = Vec::with_capacity(numbers.len());
        for n in numbers {
            guards.push(self.0[n].lock().await);
        }
        guards
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

    /// Keeps puts and removals of the same chunks apart.
    pub(crate) async fn chunks(&self, names: impl Iterator<Item = ChunkName>) -> LaneGuards<'_> {
        let lanes = names.map(|name| usize::from(name.as_bytes()[0]));
        self.names.lock(lanes).await
    }

    /// Keeps writes into the same chunks of addressed forks apart. Only a courtesy: without it, one
    /// of two writes would find when it commits that it has to begin again.
    pub(crate) async fn places(
        &self,
        places: impl Iterator<Item = (FileId, u64)>,
    ) -> LaneGuards<'_> {
        let lanes = places.map(|(file, chunk)| (file.0 ^ chunk) as usize);
        self.places.lock(lanes).await
    }

    /// Keeps changes of the same recipes apart. Whoever has these may take those of
    /// [`Turns::chunks`] next, but not those of [`Turns::places`].
    pub(crate) async fn recipes<'a>(
        &self,
        forks: impl Iterator<Item = &'a ForkKey>,
    ) -> LaneGuards<'_> {
        let lanes = forks.map(|key| (key.file.0 ^ u64::from(key.cell.0)) as usize);
        self.recipes.lock(lanes).await
    }

    /// The turn to remove chunks that no recipe names.
    pub(crate) async fn clean(&self) -> MutexGuard<'_, ()> {
        self.clean.lock().await
    }
}
