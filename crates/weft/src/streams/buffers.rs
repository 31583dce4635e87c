//! Reused buffers, so that memory stays constant whatever the amount of data.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A fixed number of buffers of one size. Cheap to clone; clones share the buffers.
#[derive(Clone)]
pub(crate) struct Buffers(Arc<BufferPool>);

struct BufferPool {
    size: usize,
    free: Mutex<Vec<Box<[u8]>>>,
    /// One permit for each buffer that may still be taken.
    permits: Arc<Semaphore>,
}

/// One buffer. It returns to the pool when it is dropped, also as [`Bytes`].
pub(crate) struct Buffer {
    memory: Box<[u8]>,
    length: usize,
    pool: Buffers,
    _permit: OwnedSemaphorePermit,
}

impl Buffers {
    /// A pool of `count` buffers of `size` bytes, allocated as they are needed.
    pub(crate) fn new(count: usize, size: usize) -> Buffers {
        Buffers(Arc::new(BufferPool {
            size,
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(count)),
        }))
    }

    /// Takes a free buffer, with whatever it held before. Waits until there is one.
    pub(crate) async fn take(&self, length: usize) -> Buffer {
        debug_assert!(length <= self.0.size);
        let permit = self
            .0
            .permits
            .clone()
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let free = self.0.free.lock().pop();
        let memory = free.unwrap_or_else(|| vec![0; self.0.size].into_boxed_slice());
        Buffer {
            memory,
            length,
            pool: self.clone(),
            _permit: permit,
        }
    }
}

impl Buffer {
    /// Keeps only the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The buffer as shared, immutable bytes.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        self.pool.0.free.lock().push(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_buffer_is_reused_and_memory_is_bounded() {
        let buffers = Buffers::new(1, 1000);
        let first = buffers.take(1000).await.freeze();
        let place = first.as_ptr();
        let second = tokio::spawn({
            let buffers = buffers.clone();
            async move { buffers.take(10).await.as_ptr() as usize }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        assert_eq!(second.await.unwrap(), place as usize);
    }
}
