//! Reusable memory that requests are read into: a fresh mebibyte costs 256 page faults.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::limits::IDLE_BUFFERS_MAX;

/// Buffers of one size. Cheap to clone; clones share the buffers.
#[derive(Clone, Debug)]
pub(in crate::fuse) struct Buffers(Arc<BufferPool>);

#[derive(Debug)]
struct BufferPool {
    length: usize,
    free: Mutex<Vec<Box<[u8]>>>,
}

/// A buffer that returns to its pool when it is dropped, also as [`Bytes`].
#[derive(Debug)]
pub(in crate::fuse) struct Buffer {
    memory: Box<[u8]>,
    valid: usize,
    pool: Buffers,
}

impl Buffers {
    pub(in crate::fuse) fn new(length: usize) -> Buffers {
        let free = Mutex::default();
        Buffers(Arc::new(BufferPool { length, free }))
    }

    pub(in crate::fuse) fn take(&self) -> Buffer {
        let memory = self.0.free.lock().pop();
        Buffer {
            memory: memory.unwrap_or_else(|| vec![0; self.0.length].into_boxed_slice()),
            valid: 0,
            pool: self.clone(),
        }
    }
}

impl Buffer {
    pub(in crate::fuse) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    pub(in crate::fuse) fn length(&self) -> usize {
        self.memory.len()
    }

    pub(in crate::fuse) fn get(&self, length: usize) -> &[u8] {
        &self.memory[..length]
    }

    /// The first bytes, without a copy.
    pub(in crate::fuse) fn freeze(mut self, length: usize) -> Bytes {
        self.valid = length;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.valid]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.pool.0.free.lock();
        if free.len() < IDLE_BUFFERS_MAX {
            free.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_returns_to_its_pool_when_its_bytes_are_dropped() {
        let buffers = Buffers::new(100);
        let mut buffer = buffers.take();
        buffer.as_mut()[0] = 7;
        let address = buffer.as_mut().as_ptr();
        let bytes = buffer.freeze(3);
        assert_eq!((bytes.len(), bytes[0]), (3, 7));
        drop(bytes);
        assert_eq!(buffers.take().as_mut().as_ptr(), address);
    }
}
