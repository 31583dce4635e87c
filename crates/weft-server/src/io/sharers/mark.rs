//! What a restarted server does not know: whether clients of its last run still believe names.
//!
//! A mark in the store says that the last run had sharers: an empty fork of the file
//! [`ORDER_STATE`], cell 3, which has no block that could go bad. Then no change is acknowledged
//! until their belief has ended by itself. The mark survives the death of the process; a machine
//! that lost power takes longer to come back than clients believe.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, sleep_until};
use weft_layout::CellIndex;
use weft_store::{CHUNK_MIN, ForkKey, ForkName, ORDER_STATE, StoreError, Timestamp};

use crate::io::replica::ReplicatedStore;
use crate::limits::SHARERS_BELIEVE;

fn key() -> ForkKey {
    ForkKey {
        file: ORDER_STATE,
        cell: CellIndex(3),
        fork: ForkName::data(),
    }
}

/// Whether there were sharers before this run, or are in it.
pub(super) struct SharersMark {
    started: Instant,
    /// An earlier run had some.
    earlier: OnceCell<bool>,
    /// Nobody believes names of an earlier run.
    over: AtomicBool,
    /// The mark is in the store, for this run.
    set: AtomicBool,
    turn: Mutex<()>,
}

impl SharersMark {
    pub(super) fn new() -> SharersMark {
        SharersMark {
            started: Instant::now(),
            earlier: OnceCell::new(),
            over: AtomicBool::new(false),
            set: AtomicBool::new(false),
            turn: Mutex::default(),
        }
    }

    /// Before a change is acknowledged: waits until nobody believes names of an earlier run.
    pub(super) async fn wait_out(&self, store: &ReplicatedStore) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        if self.was_set(store).await {
            sleep_until(self.started + SHARERS_BELIEVE).await;
        }
        let _turn = self.turn.lock().await;
        if !self.over.swap(true, Ordering::AcqRel)
            && !self.set.load(Ordering::Acquire)
            && let Err(error) = store.remove_fork(&key()).await
        {
            tracing::debug!(%error, "the mark of the last run's sharers stays");
        }
    }

    /// Whether an earlier run has left a mark.
    async fn was_set(&self, store: &ReplicatedStore) -> bool {
        // A store that cannot say is taken to have one.
        let look = async || !matches!(store.status(&key()).await, Ok(None));
        *self.earlier.get_or_init(look).await
    }

    /// Before a client becomes a sharer.
    pub(super) async fn set(&self, store: &ReplicatedStore) -> Result<(), StoreError> {
        if self.set.load(Ordering::Acquire) {
            return Ok(());
        }
        self.was_set(store).await;
        let _turn = self.turn.lock().await;
        store.create_fork(&key(), CHUNK_MIN, Timestamp(0)).await?;
        self.set.store(true, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_kv::MemKv;
    use weft_store::{SimStorage, Store, StoreConfig};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_restarted_server_waits_until_nobody_believes_names_of_its_last_run() {
        let disk = Arc::new(SimStorage::new(7));
        let config = StoreConfig::new(disk, Arc::new(MemKv::new()), "boot".into());
        let store = ReplicatedStore::alone(Store::open(config).await.unwrap());
        let waits = async |run: &SharersMark| {
            let began = Instant::now();
            run.wait_out(&store).await;
            began.elapsed()
        };
        let first = SharersMark::new();
        first.set(&store).await.unwrap();
        assert!(waits(&first).await.is_zero(), "its own sharers are told");
        let second = SharersMark::new();
        tokio::time::sleep(SHARERS_BELIEVE / 4).await;
        assert_eq!(waits(&second).await, SHARERS_BELIEVE * 3 / 4);
        assert!(waits(&second).await.is_zero());
        assert!(
            waits(&SharersMark::new()).await.is_zero(),
            "the second run had none"
        );
        // One that gets sharers while it waits keeps the mark.
        let third = SharersMark::new();
        let write = async || third.set(&store).await.unwrap();
        let created = store.create_fork(&key(), CHUNK_MIN, Timestamp(0)).await;
        created.unwrap();
        tokio::join!(async { waits(&third).await }, write());
        assert_eq!(waits(&SharersMark::new()).await, SHARERS_BELIEVE);
    }
}
