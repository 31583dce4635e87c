//! Memory that requests are read into, used again: a fresh mebibyte costs 256 page faults.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Buffers kept when nobody uses them.
const KEPT: usize = 32;

/// Buffers of one size. Cheap to clone; clones share the buffers.
#[derive(Clone, Debug)]
pub(super) struct Buffers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    length: usize,
    free: Mutex<Vec<Box<[u8]>>>,
}

/// A buffer that goes back when it is dropped, also as [`Bytes`].
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Box<[u8]>,
    valid: usize,
    home: Buffers,
}

impl Buffers {
    pub(super) fn new(length: usize) -> Buffers {
        let free = Mutex::default();
        Buffers(Arc::new(Inner { length, free }))
    }

    pub(super) fn take(&self) -> Buffer {
        let memory = self.0.free.lock().pop();
        Buffer {
            memory: memory.unwrap_or_else(|| vec![0; self.0.length].into_boxed_slice()),
            valid: 0,
            home: self.clone(),
        }
    }
}

impl Buffer {
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    pub(super) fn length(&self) -> usize {
        self.memory.len()
    }

    pub(super) fn get(&self, length: usize) -> &[u8] {
        &self.memory[..length]
    }

    /// The first bytes, without a copy.
    pub(super) fn freeze(mut self, length: usize) -> Bytes {
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
        let mut free = self.home.0.free.lock();
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_bytes_are_dropped() {
        let buffers = Buffers::new(100);
        let mut buffer = buffers.take();
        buffer.as_mut()[0] = 7;
        let place = buffer.as_mut().as_ptr();
        let bytes = buffer.freeze(3);
        assert_eq!((bytes.len(), bytes[0]), (3, 7));
        drop(bytes);
        assert_eq!(buffers.take().as_mut().as_ptr(), place);
    }
}
