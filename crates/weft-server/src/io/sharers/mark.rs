//! What a restarted server does not know: whether clients of its last run still believe names.
//!
//! A mark in the store says that the last run had sharers: in a fork of the file [`ORDER_STATE`],
//! cell 3. Then no change is acknowledged until their belief has ended by itself. The mark survives
//! the death of the process; a machine that lost power takes longer to come back than clients
//! believe.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use weft_layout::{CellIndex, CellOffset};
use weft_store::{CHUNK_MIN, ForkKey, ForkName, ORDER_STATE, Store, StoreError, Timestamp, Write};

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
            over: AtomicBool::new(false),
            set: AtomicBool::new(false),
            turn: Mutex::default(),
        }
    }

    /// Before a change is acknowledged: waits until nobody believes names of an earlier run.
    pub(super) async fn wait_out(&self, store: &Store) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        // A store that cannot say whether there is a mark is taken to have one.
        if !matches!(store.status(&key()).await, Ok(None)) {
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

    /// Before a client becomes a sharer.
    pub(super) async fn set(&self, store: &Store) -> Result<(), StoreError> {
        if self.set.load(Ordering::Acquire) {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        let write = Write {
            key: key(),
            chunk: CHUNK_MIN,
            offset: CellOffset(0),
            data: Bytes::from_static(b"sharers"),
        };
        store.write(vec![write], Timestamp(0)).await?;
        self.set.store(true, Ordering::Release);
        Ok(())
    }
}
