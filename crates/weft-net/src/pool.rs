//! Buffers that are used again: fresh memory costs a page fault per 4 KiB, which on virtual
//! machines is several times the cost of copying into it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::landing::Landed;

const CLASSES: [usize; 4] = [64 << 10, 256 << 10, 512 << 10, 1 << 20];

/// A pool of buffers of a few sizes. Cheap to clone; clones share the buffers.
#[derive(Clone, Debug, Default)]
pub struct BufferPool(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    free: [Mutex<Shelf>; CLASSES.len()],
    tidied: Mutex<Option<Instant>>,
}

/// The buffers of one class that nobody uses.
#[derive(Debug, Default)]
struct Shelf {
    buffers: Vec<Box<[u8]>>,
    /// So many of them nobody has used since the pool was last tidied.
    unused: usize,
}

/// Bytes kept in the pool of one class when nobody uses them.
const KEPT_PER_CLASS: usize = 16 << 20;

/// How often memory that nobody used is given back: rarely enough that a load which pauses finds
/// its buffers again.
pub(crate) const TIDYING: Duration = Duration::from_secs(5);

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
            let mut kept = self.shelf(c);
            let memory = kept.buffers.pop();
            kept.unused = kept.unused.min(kept.buffers.len());
            memory
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

    /// Gives back the memory of buffers that nobody has used since it last did; nothing within
    /// [`TIDYING`] of that.
    pub(crate) fn tidy(&self) {
        let now = Instant::now();
        let mut tidied = self.0.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        if tidied.is_some_and(|last| now - last < TIDYING) {
            return;
        }
        *tidied = Some(now);
        drop(tidied);
        for class in 0..CLASSES.len() {
            let mut kept = self.shelf(class);
            // Those at the bottom: the others were used last.
            let unused = kept.unused;
            let given_back: Vec<_> = kept.buffers.drain(..unused).collect();
            kept.unused = kept.buffers.len();
            drop(kept);
            drop(given_back);
        }
    }

    fn shelf(&self, class: usize) -> MutexGuard<'_, Shelf> {
        self.0.free[class]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
            let mut kept = self.pool.shelf(class);
            if (kept.buffers.len() + 1) * CLASSES[class] <= KEPT_PER_CLASS {
                kept.buffers.push(std::mem::take(&mut self.memory));
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

    #[tokio::test(start_paused = true)]
    async fn memory_that_nobody_used_for_a_while_is_given_back() {
        let pool = BufferPool::default();
        let kept = |n| assert_eq!(pool.shelf(3).buffers.len(), n);
        let buffers: Vec<_> = (0..4).map(|_| pool.take(1 << 20)).collect();
        drop(buffers);
        pool.tidy();
        pool.tidy();
        kept(4);
        tokio::time::advance(TIDYING).await;
        // Two of them are in use meanwhile, one after another twice.
        for _ in 0..2 {
            drop((pool.take(1 << 20), pool.take(1 << 20)));
        }
        pool.tidy();
        kept(2);
        tokio::time::advance(TIDYING).await;
        pool.tidy();
        kept(0);
    }

    #[test]
    fn sizes_beyond_the_classes_are_served() {
        assert_eq!(BufferPool::default().take(3 << 20).as_ref().len(), 3 << 20);
    }
}
