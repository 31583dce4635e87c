//! The store as callers see it.

use std::sync::Arc;

use weft_layout::FileId;

use super::Inner;
use crate::counters::CounterSnapshot;
use crate::disk::DiskStatus;
use crate::error::StoreError;
use crate::key::{ForkKey, ForkStatus, Usage};
use crate::pool::{BLOCK, Pool};

/// The disk of an I/O server. Clones share the store.
///
/// # Cancellation
/// Every method may be dropped: what has begun takes effect as a whole or not at all.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Inner>);

impl Store {
    /// A fork's length and times; `None` if there is no fork of this name.
    #[expect(
        clippy::unused_async,
        reason = "an evicted fork will have to be loaded"
    )]
    pub async fn status(&self, key: &ForkKey) -> Result<Option<ForkStatus>, StoreError> {
        let (status, sequence) = {
            let state = self.0.lock();
            state.check_alive(key.file)?;
            (state.find(key).map(|id| state.status(id)), state.sequence())
        };
        self.0.append_before_reply(sequence)?;
        Ok(status)
    }

    /// All forks of a file's cells on this server, by cell and name, without recipes.
    #[expect(
        clippy::unused_async,
        reason = "an evicted file will have to be loaded"
    )]
    pub async fn forks(&self, file: FileId) -> Result<Vec<(ForkKey, ForkStatus)>, StoreError> {
        let (forks, sequence) = {
            let state = self.0.lock();
            state.check_alive(file)?;
            let forks = state.forks().file(file).map(|f| f.forks().values());
            let forks = forks.into_iter().flatten();
            let list: Vec<_> = forks
                .map(|id| (state.forks()[*id].key().clone(), state.status(*id)))
                .filter(|(key, _)| !key.is_recipe())
                .collect();
            (list, state.sequence())
        };
        self.0.append_before_reply(sequence)?;
        Ok(forks)
    }

    /// Whether the store has any fork of a file.
    pub fn holds(&self, file: FileId) -> bool {
        let state = self.0.lock();
        state
            .forks()
            .file(file)
            .is_some_and(|f| !f.forks().is_empty())
    }

    /// Space that is used and space that is left.
    pub fn usage(&self) -> Usage {
        let inner = &self.0;
        let (used, free, waiting, sizes) = {
            let state = inner.lock();
            let disk = state.space();
            let open = disk.open().into_iter();
            let sizes: Vec<_> = open
                .map(|n| (n, disk.of_disk(n).0, disk.unbacked(n)))
                .collect();
            (disk.used(), disk.available(), disk.waiting(), sizes)
        };
        let growth = sizes.into_iter().filter_map(|(number, blocks, away)| {
            let disk = inner.disks().get(number)?;
            let unit = BLOCK as u64;
            disk.growth(blocks * unit, away * unit).ok()
        });
        let growth: u64 = growth.sum();
        let (used, available) = (
            used * BLOCK as u64,
            (free + waiting) * BLOCK as u64 + growth,
        );
        Usage {
            capacity: used + available,
            used,
            available,
        }
    }

    /// The disks, by number.
    pub fn disks(&self) -> Vec<DiskStatus> {
        let inner = &self.0;
        inner.disks().status(inner.lock().space())
    }

    /// The memory of its pages. Data that was received there ([`Pool::land`]) is not copied when it
    /// is written in large pieces that are aligned in that memory as in their page.
    pub fn memory(&self) -> &Pool {
        self.0.pool()
    }

    /// What the store has done since it was opened.
    pub fn counters(&self) -> CounterSnapshot {
        CounterSnapshot {
            prefetched_unused: self.0.lock().cache().prefetched_unused(),
            ..self.0.counters().snapshot()
        }
    }

    /// Memory that buffers have taken from the system.
    pub fn buffer_bytes(&self) -> u64 {
        self.0.pool().bytes()
    }
}
