//! Chunks by their names: CAPFS's D-cache.

use bytes::Bytes;
use quick_cache::sync::Cache;
use weft_sum::ChunkName;

/// Chunks without the zeros at their end, within a bound of bytes.
pub(crate) struct ChunkCache {
    chunks: Cache<ChunkName, Bytes, ByBytes>,
    most: u64,
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
    /// A cache of at most so many bytes; 0: it keeps nothing.
    pub(crate) fn new(most: u64) -> ChunkCache {
        let items = usize::try_from(most >> 16).unwrap_or(usize::MAX);
        ChunkCache {
            chunks: Cache::with_weighter(items.max(16), most, ByBytes),
            most,
        }
    }

    /// The most bytes that it keeps.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    pub(crate) fn get(&self, name: &ChunkName) -> Option<Bytes> {
        self.chunks.get(name)
    }

    /// Keeps bytes under the name that they have; the caller has computed it.
    pub(crate) fn put(&self, name: ChunkName, chunk: Bytes) {
        self.chunks.insert(name, chunk);
    }
}
