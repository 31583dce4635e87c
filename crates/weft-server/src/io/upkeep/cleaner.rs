//! The cleaner of a server: removes addressed chunks that no file names, in the background after
//! changes, and on request.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_kv::Position;
use weft_proto::addressed::{CleanReply, CleanRequest};
use weft_proto::{Code, Failure};
use weft_store::{Cleaned, Store, StoreError};

use crate::failure;
use crate::io::IoService;
use crate::limits::{CLEAN_INTERVAL, CLEAN_SHARE, CLEAN_SPACE_SHARE, CLEAN_TICK};

/// The last pass.
#[derive(Default)]
pub(in crate::io) struct Cleaner(Mutex<CleanerState>);

#[derive(Default)]
struct CleanerState {
    last: Option<LastPass>,
    failed: bool,
}

#[derive(Clone, Copy)]
struct LastPass {
    cleaned: Cleaned,
    /// The store's position when it began.
    began: Position,
    ended: Instant,
    took: Duration,
}

impl Cleaner {
    /// Runs a pass; returns whether it came to its end.
    async fn run(&self, store: &Store) -> Result<bool, StoreError> {
        let (began, started) = (store.position(), Instant::now());
        let Some(cleaned) = store.clean().await? else {
            return Ok(false);
        };
        if cleaned.removed > 0 {
            tracing::info!(
                chunks = cleaned.removed,
                bytes = cleaned.removed_bytes,
                "removed addressed chunks that no file names"
            );
        }
        if cleaned.missing > 0 {
            tracing::error!(
                chunks = cleaned.missing,
                "files name addressed chunks that are missing or damaged; reads of them fail"
            );
        }
        self.0.lock().last = Some(LastPass {
            cleaned,
            began,
            ended: Instant::now(),
            took: started.elapsed(),
        });
        Ok(true)
    }

    /// Whether a pass would find something else than the last one, and takes no more than its share
    /// of the time.
    fn is_due(&self, store: &Store) -> bool {
        if store.list_chunks(None, 1).0.is_empty() {
            return false;
        }
        let Some(last) = self.0.lock().last else {
            return true;
        };
        let usage = store.usage();
        let is_short = usage.available < usage.capacity / CLEAN_SPACE_SHARE;
        let rests = if is_short { CLEAN_TICK } else { CLEAN_INTERVAL };
        let rests = rests.max(last.took * CLEAN_SHARE);
        last.began != store.position() && last.ended.elapsed() >= rests
    }

    fn reply(&self, store: &Store) -> CleanReply {
        let removed_since_start = store.counters().cleaned_bytes;
        match self.0.lock().last {
            None => CleanReply {
                never: true,
                ..CleanReply::default()
            },
            Some(LastPass { cleaned, .. }) => CleanReply {
                named: cleaned.named,
                named_bytes: cleaned.named_bytes,
                chunks: cleaned.chunks,
                chunk_bytes: cleaned.chunk_bytes,
                removed: cleaned.removed,
                removed_bytes: cleaned.removed_bytes,
                missing: cleaned.missing,
                removed_since_start,
                never: false,
            },
        }
    }
}

impl IoService {
    pub(in crate::io) async fn clean(&self, request: CleanRequest) -> Result<CleanReply, Failure> {
        if request.run {
            let run = self.cleaner.run(&self.store).await;
            if !run.map_err(|e| failure::of_store(&e))? {
                let what = "checkpoints or rollbacks went on during the cleaning; try again";
                return Err(Failure::new(Code::Busy, what));
            }
        }
        Ok(self.cleaner.reply(&self.store))
    }
}

/// Cleans as long as the service lives.
pub(crate) async fn clean_regularly(service: Weak<IoService>) {
    loop {
        tokio::time::sleep(CLEAN_TICK).await;
        let Some(service): Option<Arc<IoService>> = service.upgrade() else {
            return;
        };
        if !service.cleaner.is_due(&service.store) {
            continue;
        }
        let result = service.cleaner.run(&service.store).await;
        let mut state = service.cleaner.0.lock();
        if let Err(error) = &result
            && !state.failed
        {
            tracing::warn!(%error, "cannot clean up addressed chunks; it is tried again");
        }
        state.failed = result.is_err();
    }
}
