//! Buffers that are used again: fresh memory costs a page fault per 4 KiB, which on virtual machines is
//! several times the cost of copying into it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::landing::Landed;

const CLASSES: [usize; 4] = [64 << 10, 256 << 10, 512 << 10, 1 << 20];

/// A pool of buffers of a few sizes. Cheap to clone; clones share the buffers.
#[derive(Clone, Debug, Default)]
pub struct BufferPool(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    free: [Mutex<Vec<Box<[u8]>>>; CLASSES.len()],
}

/// Bytes kept in the pool of one class when nobody uses them.
const KEPT_PER_CLASS: usize = 16 << 20;

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
        let class = CLASSES.iter().position(|size| *size >= len);
        let memory = class.and_then(|c| {
            self.0.free[c]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop()
        });
        let memory =
            memory.unwrap_or_else(|| vec![0; class.map_or(len, |c| CLASSES[c])].into_boxed_slice());
        PooledBuffer {
            memory,
            len,
            class,
            pool: self.clone(),
        }
    }
}

impl Landed for PooledBuffer {
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
            let mut free = self.pool.0.free[class]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if (free.len() + 1) * CLASSES[class] <= KEPT_PER_CLASS {
                free.push(std::mem::take(&mut self.memory));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again() {
        let pool = BufferPool::default();
        let first = Box::new(pool.take(100_000)).freeze();
        let place = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(200_000).as_ref().as_ptr(), place);
    }

    #[test]
    fn sizes_beyond_the_classes_are_served() {
        assert_eq!(BufferPool::default().take(3 << 20).as_ref().len(), 3 << 20);
    }
}
