//! The cleaner of a server: when it removes addressed chunks that no file names, and what it found
//! last.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_kv::Position;
use weft_proto::addressed::CleanReply;
use weft_store::{Cleaned, Store, StoreError};

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
    pub(super) async fn run(&self, store: &Store) -> Result<bool, StoreError> {
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
    pub(super) fn is_due(&self, store: &Store) -> bool {
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

    pub(super) fn reply(&self, store: &Store) -> CleanReply {
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

    /// Whether a failure is the first of several.
    pub(super) fn note_result(&self, failed: bool) -> bool {
        !std::mem::replace(&mut self.0.lock().failed, failed) && failed
    }
}
