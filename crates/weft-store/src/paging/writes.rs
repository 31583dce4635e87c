//! Writes to the disks.

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::counters::Counters;
use crate::engine::Inner;
use crate::error::StoreError;
use crate::pages::Operations;
use crate::pool::BLOCK;
use crate::storage::together;

/// Why a write to the disks failed.
pub(crate) struct WriteFailed {
    pub(crate) error: StoreError,
    /// No disk that failed gets new data any more, so another try may succeed.
    pub(crate) can_retry: bool,
}

impl Inner {
    /// Writes to the disks and waits for every operation, even after one failed.
    pub(crate) async fn write_operations(&self, operations: Operations) -> Result<(), WriteFailed> {
        let mut running = FuturesUnordered::new();
        for (place, blocks, slices) in operations.into_iter() {
            Counters::add(&self.counters().disk_writes, 1);
            Counters::add(
                &self.counters().disk_write_bytes,
                u64::from(blocks) * BLOCK as u64,
            );
            let file = self.disks().file(place);
            running.push(async move {
                let done = match file {
                    Ok(file) => file.write_at(place.offset(), slices).await,
                    Err(error) => Err(error),
                };
                (place, done)
            });
        }
        let mut result = Ok(());
        let mut can_retry = true;
        while let Some((place, done)) = together(running.next()).await {
            if let Some(disk) = self.disks().get(place.disk()) {
                disk.mark_written();
            }
            if let Err(error) = done {
                let reason = format!("write: {error}");
                let mut state = self.lock();
                can_retry &= self.disks().fail(state.space_mut(), place.disk(), &reason);
                drop(state);
                let error = StoreError::io("write", &self.disks().shown(place), &error);
                result = Err(WriteFailed { error, can_retry });
            }
        }
        result.map_err(|failed| WriteFailed {
            can_retry,
            ..failed
        })
    }
}
