//! The check of the store that `weft fsck` drives, step by step.

use tokio::sync::{Mutex, MutexGuard};
use weft_kv::EngineFile;
use weft_store::CheckPass;

/// At most one check; a new one replaces it.
#[derive(Default)]
pub(in crate::io) struct StoreChecks(Mutex<Option<StoreCheck>>);

impl StoreChecks {
    pub(super) async fn lock(&self) -> MutexGuard<'_, Option<StoreCheck>> {
        self.0.lock().await
    }
}

/// The progress of one pass over the store.
pub(super) struct StoreCheck {
    pass: u64,
    /// Steps that are done.
    pub(super) steps: u64,
    /// Files of the index that are still to be verified.
    pub(super) index: Vec<EngineFile>,
    pub(super) store: CheckPass,
}

impl StoreCheck {
    pub(super) fn new(pass: u64, index: Vec<EngineFile>, store: CheckPass) -> StoreCheck {
        StoreCheck {
            pass,
            steps: 0,
            index,
            store,
        }
    }

    /// Whether it is the pass of this number.
    pub(super) fn is(&self, pass: u64) -> bool {
        self.pass == pass
    }
}
