//! Buffers that are reused: fresh memory costs a page fault per 4 KiB, which on virtual machines is
//! several times the cost of copying into it.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::receive::ReceiveBuffer;
use crate::limits::{BUFFER_SIZES, TRIM_INTERVAL, UNUSED_BYTES_MAX};

/// A pool of buffers of a few sizes. Cheap to clone; clones share the buffers.
#[derive(Clone, Debug, Default)]
pub struct BufferPool(Arc<FreeLists>);

#[derive(Debug, Default)]
struct FreeLists {
    by_class: [Mutex<FreeList>; BUFFER_SIZES.len()],
    trimmed: Mutex<Option<Instant>>,
}

/// The free buffers of one class.
#[derive(Debug, Default)]
struct FreeList {
    buffers: Vec<Box<[u8]>>,
    /// Buffers at the bottom that were not used since the pool was last trimmed.
    unused: usize,
}

/// A buffer taken from a pool; returns there when dropped, also as [`Bytes`].
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    memory: Box<[u8]>,
    len: usize,
    class: Option<usize>,
    pool: BufferPool,
}

impl BufferPool {
    pub(crate) fn take(&self, len: usize) -> PooledBuffer {
        let class = BUFFER_SIZES.iter().position(|size| *size >= len);
        let memory = class.and_then(|c| {
            let mut free = self.free(c);
            let memory = free.buffers.pop();
            free.unused = free.unused.min(free.buffers.len());
            memory
        });
        let memory = memory
            .unwrap_or_else(|| vec![0; class.map_or(len, |c| BUFFER_SIZES[c])].into_boxed_slice());
        PooledBuffer {
            memory,
            len,
            class,
            pool: self.clone(),
        }
    }

    /// Frees the buffers that were not used since the last call; does nothing within
    /// [`TRIM_INTERVAL`] of that.
    pub(crate) fn trim(&self) {
        let now = Instant::now();
        let mut trimmed = self.0.trimmed.lock();
        if trimmed.is_some_and(|last| now - last < TRIM_INTERVAL) {
            return;
        }
        *trimmed = Some(now);
        drop(trimmed);
        for class in 0..BUFFER_SIZES.len() {
            let mut free = self.free(class);
            // Buffers are taken from the top, so the unused ones are at the bottom.
            let unused = free.unused;
            let freed: Vec<_> = free.buffers.drain(..unused).collect();
            free.unused = free.buffers.len();
            drop(free);
            drop(freed);
        }
    }

    fn free(&self, class: usize) -> MutexGuard<'_, FreeList> {
        self.0.by_class[class].lock()
    }
}

impl ReceiveBuffer for PooledBuffer {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }

    fn freeze(self: Box<Self>) -> Bytes {
        Bytes::from_owner(*self)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(class) = self.class {
            let mut free = self.pool.free(class);
            if (free.buffers.len() + 1) * BUFFER_SIZES[class] <= UNUSED_BYTES_MAX {
                free.buffers.push(std::mem::take(&mut self.memory));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_reused() {
        let pool = BufferPool::default();
        let first = Box::new(pool.take(100_000)).freeze();
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(200_000).as_ref().as_ptr(), address);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_buffers_are_freed() {
        let pool = BufferPool::default();
        let assert_free = |n| assert_eq!(pool.free(3).buffers.len(), n);
        let buffers: Vec<_> = (0..4).map(|_| pool.take(1 << 20)).collect();
        drop(buffers);
        pool.trim();
        pool.trim();
        assert_free(4);
        tokio::time::advance(TRIM_INTERVAL).await;
        // Two of the four buffers are used again, twice.
        for _ in 0..2 {
            drop((pool.take(1 << 20), pool.take(1 << 20)));
        }
        pool.trim();
        assert_free(2);
        tokio::time::advance(TRIM_INTERVAL).await;
        pool.trim();
        assert_free(0);
    }

    #[test]
    fn sizes_beyond_the_classes_are_served() {
        assert_eq!(BufferPool::default().take(3 << 20).as_ref().len(), 3 << 20);
    }
}
