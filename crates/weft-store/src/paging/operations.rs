//! Writes to the disks: slices that go to consecutive places become one operation.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::cache::Page;
use crate::counters::Counters;
use crate::engine::Inner;
use crate::error::StoreError;
use crate::limits::OPERATION_BLOCKS;
use crate::pool::{BLOCK, Slice};
use crate::record::Place;

/// Why a write to the disks failed.
pub(crate) struct WriteFailed {
    pub(crate) error: StoreError,
    /// Every disk that failed gets no new data any more: it may go better the next time.
    pub(crate) again: bool,
}

/// Slices that go to consecutive places, as operations of the disk.
#[derive(Default)]
pub(crate) struct Operations(Vec<(Place, u32, Vec<Slice>)>);

impl Operations {
    /// Adds the blocks of `page` from `first` on that lie at `places`.
    pub(crate) fn add(&mut self, page: &Page, first: u32, places: impl Iterator<Item = Place>) {
        for (i, place) in (0_u32..).zip(places) {
            let at = page.at((first + i) % 16);
            if let Some((start, blocks, slices)) = self.0.last_mut()
                && *blocks < OPERATION_BLOCKS
                && start.plus(*blocks) == place
            {
                *blocks += 1;
                match slices.last_mut() {
                    Some(last) if last.grows(page.buffer(), at) => last.grow(BLOCK),
                    _ => slices.push(Slice::new(Arc::clone(page.buffer()), at..at + BLOCK)),
                }
                continue;
            }
            let slice = Slice::new(Arc::clone(page.buffer()), at..at + BLOCK);
            self.0.push((place, 1, vec![slice]));
        }
    }
}

impl Inner {
    /// Writes to the disks and waits for every operation, whatever becomes of the others.
    pub(crate) async fn write_operations(&self, operations: Operations) -> Result<(), WriteFailed> {
        let mut running = FuturesUnordered::new();
        for (place, blocks, slices) in operations.0 {
            Counters::add(&self.counters.disk_writes, 1);
            Counters::add(
                &self.counters.disk_write_bytes,
                u64::from(blocks) * BLOCK as u64,
            );
            let file = self.disks.file(place);
            running.push(async move {
                let done = match file {
                    Ok(file) => file.write_at(place.offset(), slices).await,
                    Err(error) => Err(error),
                };
                (place, done)
            });
        }
        let mut result = Ok(());
        let mut again = true;
        while let Some((place, done)) = running.next().await {
            if let Some(disk) = self.disks.get(place.disk()) {
                disk.written.store(true, Relaxed);
            }
            if let Err(error) = done {
                let reason = format!("write: {error}");
                let alloc = &mut self.lock().disk;
                again &= self.disks.fail(alloc, place.disk(), &reason);
                let error = StoreError::io("write", &self.disks.shown(place), &error);
                result = Err(WriteFailed { error, again });
            }
        }
        result.map_err(|failed| WriteFailed { again, ..failed })
    }
}
