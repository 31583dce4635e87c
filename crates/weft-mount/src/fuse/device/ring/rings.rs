//! The queues of all processors.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::queue::{Queue, SlotAnswer};
use super::worker::{Source, Worker};
use crate::fuse::device::buffers::Buffers;
use crate::fuse::device::descriptor::Device;
use crate::fuse::device::incoming::Incoming;

/// The kernel's parameter that allows FUSE over io_uring; root may write it.
pub(in crate::fuse) const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Whether this kernel offers FUSE over io_uring. `None`: it is too old.
pub(in crate::fuse) fn is_offered() -> Option<bool> {
    let text = std::fs::read_to_string(PARAMETER).ok()?;
    Some(matches!(text.trim(), "Y" | "1"))
}

/// What a thread does with the requests that came together.
type Take = Arc<dyn Fn(Vec<(Incoming, SlotAnswer)>) + Send + Sync>;
type Begin = (Source, Take);

/// A queue's thread, from the ring it makes to the requests it serves.
struct Thread {
    queue: Arc<Queue>,
    begin: mpsc::Sender<Begin>,
    registered: mpsc::Receiver<io::Result<()>>,
    handle: JoinHandle<()>,
}

/// One ring for each processor that the kernel knows.
pub(in crate::fuse) struct Rings(Vec<Thread>);

impl Rings {
    /// Makes the rings. They wait for [`Rings::begin`].
    ///
    /// # Errors
    /// This process may not use io_uring, or has no memory or threads left.
    pub(in crate::fuse) fn new() -> io::Result<Rings> {
        let mut threads = Vec::new();
        for number in 0..processors() {
            threads.push(start(number)?);
        }
        Ok(Rings(threads))
    }

    /// Begins to serve, once the kernel has agreed: it holds all requests back until each queue has
    /// slots of `length` bytes, or one is refused. `take` is called with the requests that came
    /// together; `ask` makes the kernel send one that is answered at once.
    ///
    /// # Errors
    /// The kernel refused the slots of a queue: requests come by `/dev/fuse`.
    pub(in crate::fuse) fn begin(
        &self,
        device: &Arc<Device>,
        (length, buffers): (usize, &Buffers),
        ask: impl Fn() -> io::Result<()> + Send + Sync + 'static,
        take: impl Fn(Vec<(Incoming, SlotAnswer)>) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let gone = || io::Error::other("a thread of a ring has ended");
        let take: Take = Arc::new(take);
        let source = Source {
            device: device.clone(),
            length,
            buffers: buffers.clone(),
            ask: Arc::new(ask),
        };
        for thread in &self.0 {
            let begin = (source.clone(), take.clone());
            thread.begin.send(begin).map_err(|_| gone())?;
        }
        for thread in &self.0 {
            thread.registered.recv().map_err(|_| gone())??;
        }
        Ok(())
    }

    /// Ends the threads, after the mount has ended.
    pub(in crate::fuse) fn end(mut self) -> io::Result<()> {
        self.end_queues();
        let mut result = Ok(());
        for Thread { begin, handle, .. } in std::mem::take(&mut self.0) {
            drop(begin);
            let panicked = |_| io::Error::other("a thread of a ring panicked");
            result = result.and(handle.join().map_err(panicked));
        }
        result
    }

    fn end_queues(&self) {
        for thread in &self.0 {
            thread.queue.end();
        }
    }
}

/// A mount that fails on its way leaves no thread behind.
impl Drop for Rings {
    fn drop(&mut self) {
        self.end_queues();
    }
}

fn start(number: u16) -> io::Result<Thread> {
    let queue = Arc::new(Queue::new()?);
    let (begin, begins) = mpsc::channel::<Begin>();
    let (made, is_made) = mpsc::channel();
    let (register, registered) = mpsc::channel();
    let of_thread = queue.clone();
    let run = move || {
        let mut worker = match Worker::new(number, of_thread) {
            Ok(worker) => worker,
            Err(e) => {
                let _ = made.send(Err(e));
                return;
            }
        };
        let _ = made.send(Ok(()));
        let Ok((source, take)) = begins.recv() else {
            return;
        };
        let _ = register.send(worker.register(&source));
        worker.serve(&source, &*take);
    };
    let thread = std::thread::Builder::new().name(format!("weft-ring-{number}"));
    let handle = thread.spawn(run)?;
    let gone = |_| io::Error::other("a thread of a ring has ended");
    is_made.recv().map_err(gone)??;
    Ok(Thread {
        queue,
        begin,
        registered,
        handle,
    })
}

/// Processors that the kernel makes a queue for: all that this machine may ever have.
fn processors() -> u16 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    count(&text).unwrap_or_else(|| {
        let here = std::thread::available_parallelism();
        here.map_or(1, |n| u16::try_from(n.get()).unwrap_or(u16::MAX))
    })
}

/// The numbers in a list such as `0-3,8`.
fn count(numbers: &str) -> Option<u16> {
    let parts = numbers.trim().split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    parts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_from_a_list() {
        for (list, processors) in [("0-1\n", 2), ("0", 1), ("0-3,8-9,12", 7)] {
            assert_eq!(count(list), Some(processors), "{list}");
        }
        for list in ["", "a", "3-1", "0-"] {
            assert_eq!(count(list), None, "{list}");
        }
    }

    #[test]
    fn rings_that_never_begin_end() {
        // A container may forbid io_uring.
        let Ok(rings) = Rings::new() else { return };
        assert_eq!(rings.0.len(), usize::from(processors()));
        rings.end().unwrap();
    }
}
