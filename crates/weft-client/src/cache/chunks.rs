//! Chunks by their names: CAPFS's D-cache, in memory and on a disk if asked.

use std::sync::Arc;

use bytes::Bytes;
use quick_cache::sync::Cache;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use weft_sum::ChunkName;

use super::disk::DiskCache;
use crate::limits::DISK_CACHE_WRITES_MAX;

/// Chunks without the zeros at their end, within a bound of bytes.
pub(crate) struct ChunkCache {
    chunks: Cache<ChunkName, Bytes, ByBytes>,
    most: u64,
    disk: Option<OnDisk>,
}

/// The chunks on a disk, and permits for writes to it.
struct OnDisk {
    cache: Arc<DiskCache>,
    writes: Arc<Semaphore>,
    runtime: Handle,
}

#[derive(Clone)]
struct ByBytes;

/// What an entry takes beside its bytes.
const ENTRY_COST: u64 = 128;

impl quick_cache::Weighter<ChunkName, Bytes> for ByBytes {
    fn weight(&self, _: &ChunkName, chunk: &Bytes) -> u64 {
        chunk.len() as u64 + ENTRY_COST
    }
}

impl ChunkCache {
    /// A cache of at most so many bytes in memory (0: it keeps nothing there), and what this disk
    /// has.
    pub(crate) fn new(most: u64, disk: Option<DiskCache>) -> ChunkCache {
        let items = usize::try_from(most >> 16).unwrap_or(usize::MAX);
        ChunkCache {
            chunks: Cache::with_weighter(items.max(16), most, ByBytes),
            most,
            disk: disk.map(|cache| OnDisk {
                cache: Arc::new(cache),
                writes: Arc::new(Semaphore::new(DISK_CACHE_WRITES_MAX)),
                runtime: Handle::current(),
            }),
        }
    }

    /// The most bytes that it keeps.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    pub(crate) fn get(&self, name: &ChunkName) -> Option<Bytes> {
        self.chunks.get(name)
    }

    /// Those of these chunks that are on the disk; they are in memory from now on.
    pub(crate) async fn find_on_disk(&self, names: Vec<ChunkName>) -> Vec<(ChunkName, Bytes)> {
        let Some(disk) = self.disk.as_ref().filter(|_| !names.is_empty()) else {
            return Vec::new();
        };
        let cache = disk.cache.clone();
        let found = disk.runtime.spawn_blocking(move || {
            let found = names.into_iter();
            let found = found.filter_map(|name| Some((name, cache.get(&name)?)));
            found.collect::<Vec<_>>()
        });
        // A runtime that is shut down finds nothing.
        let found = found.await.unwrap_or_default();
        for (name, chunk) in &found {
            self.chunks.insert(*name, chunk.clone());
        }
        found
    }

    /// Keeps bytes under the name that they have; the caller has computed it. They go to the disk
    /// by themselves, unless too many others do.
    pub(crate) fn put(&self, name: ChunkName, chunk: Bytes) {
        if let Some(disk) = &self.disk
            && let Ok(turn) = disk.writes.clone().try_acquire_owned()
        {
            let (cache, chunk) = (disk.cache.clone(), chunk.clone());
            disk.runtime.spawn_blocking(move || {
                cache.put(&name, &chunk);
                drop(turn);
            });
        }
        self.chunks.insert(name, chunk);
    }
}
