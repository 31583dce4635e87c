//! Reused buffers, so that memory stays constant whatever the amount of data.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A fixed number of buffers of one size. Cheap to clone; clones share the buffers.
#[derive(Clone)]
pub(crate) struct Buffers(Arc<Inner>);

struct Inner {
    size: usize,
    free: Mutex<Vec<Box<[u8]>>>,
    room: Arc<Semaphore>,
}

/// One buffer; goes back when dropped, also as [`Bytes`].
pub(crate) struct Buffer {
    memory: Box<[u8]>,
    length: usize,
    home: Buffers,
    _room: OwnedSemaphorePermit,
}

impl Buffers {
    /// `count` buffers of `size` bytes, made as they are needed.
    pub(crate) fn new(count: usize, size: usize) -> Buffers {
        let room = Arc::new(Semaphore::new(count));
        Buffers(Arc::new(Inner {
            size,
            free: Mutex::default(),
            room,
        }))
    }

    /// The next free buffer, with whatever it held before. Waits for one.
    pub(crate) async fn take(&self, length: usize) -> Buffer {
        debug_assert!(length <= self.0.size);
        let room = self
            .0
            .room
            .clone()
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let free = self
            .0
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let memory = free.unwrap_or_else(|| vec![0; self.0.size].into_boxed_slice());
        Buffer {
            memory,
            length,
            home: self.clone(),
            _room: room,
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
        self.home
            .0
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_comes_back_and_is_bounded() {
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
