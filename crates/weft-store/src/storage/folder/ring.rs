#![allow(unsafe_code)] // io_uring takes raw addresses; the kernel works on them after the call returns.
//! Several io_urings: callers submit, tasks of the runtime collect completions.
//!
//! Submitting costs one system call on the caller's thread and no hand-over; operations that one
//! task starts together cost one for all, and reach the disk together. A ring is in the runtime's
//! poll set, so the thread that waits for the network also sees completions and runs the caller's
//! task. The kernel locks a ring during a submission, so each thread has its own ring while there
//! are enough. Rejected: a thread that waits for completions, because every operation would pay for
//! its wake-up and for a hand-over to the runtime; a thread that also submits, which pays both
//! twice; and submitting for several tasks at once, which saves a fifth of the processor time of
//! small reads, but makes client, server and disk wait for each other's batches.
//!
//! Invariants:
//! 1. An operation's buffers, vectors and file live in its slot until its completion was seen; the
//!    ring outlives its slots.
//! 2. Only the holder of `collecting` touches the completion queue; only the holder of `queueing`
//!    the end of the submission queue.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZero;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::limits::{RING_COMPLETIONS, RING_ENTRIES, RINGS_MAX};
use crate::pool::{Buffer, Slice};
use crate::storage::BoxFuture;

/// Most vectors of one operation (`IOV_MAX`).
const VECTORS: usize = 1024;
/// `IORING_ENTER_GETEVENTS`.
const GET_EVENTS: u32 = 1;

/// The memory of an operation; returned when it is done.
enum Payload {
    Read(Vec<Buffer>),
    Write(Vec<Slice>),
    Sync,
}

struct Vectors(Vec<libc::iovec>);

// SAFETY: the addresses point into the payload that travels in the same slot.
unsafe impl Send for Vectors {}

struct Slot {
    payload: Payload,
    /// Read by the kernel until the operation is done.
    _vectors: Vectors,
    _file: Arc<File>,
    done: oneshot::Sender<(i32, Payload)>,
}

#[derive(Default)]
struct Slots {
    table: Vec<Option<Slot>>,
    free: Vec<usize>,
}

impl Slots {
    fn busy(&self) -> bool {
        self.table.len() > self.free.len()
    }
}

struct Shared {
    uring: IoUring,
    queueing: Mutex<()>,
    collecting: Mutex<()>,
    slots: Mutex<Slots>,
}

/// The rings of one disk.
pub(super) struct Rings(Vec<Arc<Ring>>);

impl Rings {
    pub(super) fn start() -> io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut rings = vec![Arc::new(Ring::start()?)];
        // If no more can be made, threads share them.
        let more = (1..threads.min(RINGS_MAX)).map_while(|_| Ring::start().ok());
        rings.extend(more.map(Arc::new));
        Ok(Self(rings))
    }

    /// The calling thread's ring, which other threads may share.
    pub(super) fn of_thread(&self) -> &Arc<Ring> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static THREAD: usize = THREADS.fetch_add(1, Relaxed));
        &self.0[THREAD.with(|n| n % self.0.len())]
    }
}

/// A ring; dropping it waits for its operations in flight.
pub(super) struct Ring {
    shared: Arc<Shared>,
    /// Collects completions, in the runtime that last waited for one.
    collector: Mutex<Option<JoinHandle<()>>>,
}

impl Ring {
    fn start() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(RING_COMPLETIONS);
        // A thread takes completions when it next enters the kernel, which happens soon; kernels
        // before 5.19 interrupt it.
        let uring = builder.clone().setup_coop_taskrun().build(RING_ENTRIES);
        Ok(Self {
            shared: Arc::new(Shared {
                uring: uring.or_else(|_| builder.build(RING_ENTRIES))?,
                queueing: Mutex::default(),
                collecting: Mutex::default(),
                slots: Mutex::default(),
            }),
            collector: Mutex::default(),
        })
    }

    pub(super) fn read(
        self: &Arc<Self>,
        file: &Arc<File>,
        at: u64,
        buffers: Vec<Buffer>,
    ) -> BoxFuture<io::Result<Vec<Buffer>>> {
        let wanted: usize = buffers.iter().map(|b| b.len()).sum();
        let payload = Payload::Read(buffers);
        let (ring, file) = (Arc::clone(self), Arc::clone(file));
        Box::pin(async move {
            match ring.carry_out(&file, at, wanted, payload).await? {
                Payload::Read(buffers) => Ok(buffers),
                _ => unreachable!("an operation hands its payload back"),
            }
        })
    }

    pub(super) fn write(
        self: &Arc<Self>,
        file: &Arc<File>,
        at: u64,
        slices: Vec<Slice>,
    ) -> BoxFuture<io::Result<()>> {
        let wanted: usize = slices.iter().map(|s| s.len()).sum();
        let payload = Payload::Write(slices);
        let (ring, file) = (Arc::clone(self), Arc::clone(file));
        Box::pin(async move { ring.carry_out(&file, at, wanted, payload).await.map(drop) })
    }

    pub(super) fn sync(self: &Arc<Self>, file: &Arc<File>) -> BoxFuture<io::Result<()>> {
        let (ring, file) = (Arc::clone(self), Arc::clone(file));
        Box::pin(async move { ring.carry_out(&file, 0, 0, Payload::Sync).await.map(drop) })
    }

    /// Waits for an operation; submits the rest again if the kernel did only a part.
    async fn carry_out(
        &self,
        file: &Arc<File>,
        at: u64,
        wanted: usize,
        payload: Payload,
    ) -> io::Result<Payload> {
        let stopped = || io::Error::other("the ring stopped");
        // First: without a collector the completion of a started operation would be missed, and the
        // caller would take it for undone.
        self.have_collected()?;
        let done = self.shared.start(file, at, 0, payload);
        let (mut result, mut payload) = done.await.map_err(|_| stopped())?;
        let mut moved = 0;
        loop {
            if result == -libc::ECANCELED {
                result = on_this_thread(file, at, moved, &mut payload);
            }
            if result < 0 && -result != libc::EINTR && -result != libc::EAGAIN {
                return Err(io::Error::from_raw_os_error(-result));
            }
            if result == 0 && moved < wanted {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            moved += usize::try_from(result).unwrap_or(0);
            if moved >= wanted && result >= 0 {
                return Ok(payload);
            }
            let rest = self.shared.start(file, at, moved, payload);
            (result, payload) = rest.await.map_err(|_| stopped())?;
        }
    }

    /// Makes sure that a collector runs: it ends with its runtime. So a ring is used in one runtime
    /// at a time.
    fn have_collected(&self) -> io::Result<()> {
        let mut collector = self.collector.lock();
        if collector.as_ref().is_none_or(JoinHandle::is_finished) {
            let ring = Listening(Arc::clone(&self.shared));
            // SAFETY: the registration holds the ring, so its descriptor stays open and the same
            // until the registration is dropped.
            let ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }?;
            *collector = Some(tokio::spawn(collect(ring)));
        }
        Ok(())
    }
}

/// Carries out an operation that the kernel refused to begin because it may not start a thread
/// (`pids.max`). It blocks this thread: with so few threads there is no other.
fn on_this_thread(file: &File, at: u64, skip: usize, payload: &mut Payload) -> i32 {
    let at = at + skip as u64;
    let done = match payload {
        Payload::Read(buffers) => {
            let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            let mut rest = &mut slices[..];
            IoSliceMut::advance_slices(&mut rest, skip);
            let most = rest.len().min(VECTORS);
            rustix::io::preadv(file, &mut rest[..most], at)
        }
        Payload::Write(parts) => {
            let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut rest = &mut slices[..];
            IoSlice::advance_slices(&mut rest, skip);
            let most = rest.len().min(VECTORS);
            rustix::io::pwritev(file, &rest[..most], at)
        }
        Payload::Sync => rustix::fs::fdatasync(file).map(|()| 0),
    };
    // The kernel moves less than 2 GiB at once.
    done.map_or_else(
        |errno| -errno.raw_os_error(),
        |moved| i32::try_from(moved).unwrap_or(i32::MAX),
    )
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(collector) = self.collector.get_mut().take() {
            collector.abort();
        }
        // No caller waits for the operations in flight, but the kernel uses their memory. Wait for
        // a collector that is running: it would take the completions that this waits for.
        let _alone = self.shared.collecting.lock();
        self.shared.submit();
        while self.shared.slots.lock().busy() {
            self.shared.enter(1);
            self.shared.take_alone();
        }
    }
}

/// Submits together what a future starts in one poll. Its operations must not wait for each other
/// within a poll.
pub(crate) async fn submit_together<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _together = Together::begin();
        future.as_mut().poll(context)
    })
    .await
}

thread_local! {
    /// How many polls of [`submit_together`] this thread is in.
    static TOGETHER: Cell<usize> = const { Cell::new(0) };
    /// The rings in which their operations wait.
    static POSTPONED: RefCell<Vec<Arc<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, operations of this thread are queued; the end of the outermost submits them.
struct Together;

impl Together {
    fn begin() -> Together {
        TOGETHER.set(TOGETHER.get() + 1);
        Together
    }

    /// Whether the end of a poll will submit what was queued in this ring.
    fn postpone(ring: &Arc<Shared>) -> bool {
        if TOGETHER.get() == 0 {
            return false;
        }
        POSTPONED.with_borrow_mut(|rings| {
            if !rings.iter().any(|other| Arc::ptr_eq(other, ring)) {
                rings.push(Arc::clone(ring));
            }
        });
        true
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        TOGETHER.set(TOGETHER.get() - 1);
        if TOGETHER.get() == 0 {
            for ring in POSTPONED.take() {
                ring.submit();
            }
        }
    }
}

/// The ring in a runtime's poll set.
struct Listening(Arc<Shared>);

impl AsRawFd for Listening {
    fn as_raw_fd(&self) -> RawFd {
        self.0.uring.as_raw_fd()
    }
}

/// Collects completions until the ring or the runtime ends.
async fn collect(ring: AsyncFd<Listening>) {
    while let Ok(mut ready) = ring.readable().await {
        // Before the queue is emptied: a completion that arrives meanwhile notifies again.
        ready.clear_ready();
        ring.get_ref().0.take_completions();
    }
}

type Done = oneshot::Receiver<(i32, Payload)>;

impl Shared {
    /// Submits one operation that skips the first `skip` bytes of its payload.
    fn start(
        self: &Arc<Self>,
        file: &Arc<File>,
        at: u64,
        skip: usize,
        mut payload: Payload,
    ) -> Done {
        let mut vectors = vectors(&mut payload, skip);
        let (send, receive) = oneshot::channel();
        let fd = types::Fd(file.as_raw_fd());
        let (first, count) = (vectors.0.as_mut_ptr(), vectors.0.len() as u32);
        let at = at + skip as u64;
        let entry = match &payload {
            Payload::Read(_) => opcode::Readv::new(fd, first, count).offset(at).build(),
            Payload::Write(_) => opcode::Writev::new(fd, first, count).offset(at).build(),
            Payload::Sync => opcode::Fsync::new(fd)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
        };
        let slot = Slot {
            payload,
            _vectors: vectors,
            _file: Arc::clone(file),
            done: send,
        };
        let index = {
            let mut slots = self.slots.lock();
            if let Some(index) = slots.free.pop() {
                slots.table[index] = Some(slot);
                index
            } else {
                slots.table.push(Some(slot));
                slots.table.len() - 1
            }
        };
        // SAFETY: the slot keeps what the entry refers to until its completion (invariant 1): the
        // vectors' and payload's heap memory does not move with the slot.
        unsafe { self.push(&entry.user_data(index as u64)) };
        if !Together::postpone(self) {
            self.submit();
        }
        receive
    }

    /// Queues an entry; submits those before it if the queue is full.
    ///
    /// # Safety
    /// The memory that the entry refers to lives until its completion.
    unsafe fn push(&self, entry: &squeue::Entry) {
        loop {
            let alone = self.queueing.lock();
            // SAFETY: the lock makes this the only access (invariant 2); the caller guarantees the
            // entry's memory.
            if unsafe { self.uring.submission_shared().push(entry) }.is_ok() {
                return;
            }
            drop(alone);
            self.submit();
        }
    }

    /// Submits what is queued, also by other threads: the kernel takes entries from the queue's
    /// other end.
    fn submit(&self) {
        while self.uring.submit().is_err() {
            // Out of memory, or the completion queue is full.
            self.take_completions();
            std::thread::yield_now();
        }
    }

    /// Wakes the tasks whose operations are done.
    fn take_completions(&self) {
        let _alone = self.collecting.lock();
        self.take_alone();
    }

    /// As [`Shared::take_completions`], by the holder of `collecting`.
    fn take_alone(&self) {
        loop {
            // SAFETY: the lock makes this the only access (invariant 2).
            let mut queue = unsafe { self.uring.completion_shared() };
            let done: Vec<(u64, i32)> = (&mut queue).map(|c| (c.user_data(), c.result())).collect();
            drop(queue);
            let none = done.is_empty();
            let mut slots = self.slots.lock();
            let most = slots.table.len();
            let ended: Vec<_> = done
                .into_iter()
                .filter_map(|(index, result)| {
                    let slot = slots.table[index as usize].take()?;
                    slots.free.push(index as usize);
                    Some((slot, result))
                })
                .collect();
            drop(slots);
            for (slot, result) in ended {
                // The caller may have been cancelled; then the payload is dropped here.
                let _ = slot.done.send((result, slot.payload));
            }
            // Fewer in flight than fit: the kernel holds none back.
            if most <= RING_COMPLETIONS as usize || none {
                return;
            }
            self.enter(0);
        }
    }

    /// Asks the kernel for completions, and waits for `wanted` of them.
    fn enter(&self, wanted: u32) {
        let ring = self.uring.submitter();
        // SAFETY: no argument is passed, and nothing is submitted.
        let entered = unsafe { ring.enter::<libc::sigset_t>(0, wanted, GET_EVENTS, None) };
        if let Err(error) = entered
            && error.raw_os_error() != Some(libc::EINTR)
        {
            tracing::error!(%error, "cannot wait for io_uring");
            std::thread::yield_now();
        }
    }
}

/// Addresses of the payload's memory after its first `skip` bytes.
fn vectors(payload: &mut Payload, skip: usize) -> Vectors {
    let mut skip = skip;
    let mut out = Vec::new();
    let mut add = |start: *mut u8, length: usize| {
        let from = skip.min(length);
        skip -= from;
        if from < length && out.len() < VECTORS {
            let iov_base = start.wrapping_add(from).cast();
            out.push(libc::iovec {
                iov_base,
                iov_len: length - from,
            });
        }
    };
    match payload {
        Payload::Read(buffers) => buffers
            .iter_mut()
            .for_each(|b| add(b.as_mut_ptr(), b.len())),
        // The kernel only reads what a write points to.
        Payload::Write(slices) => slices
            .iter()
            .for_each(|s| add(s.as_ptr().cast_mut(), s.len())),
        Payload::Sync => {}
    }
    Vectors(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::BLOCK;
    use crate::pool::Pool;

    #[tokio::test]
    async fn operations_that_start_together_all_complete_also_more_than_the_queue_holds() {
        let Ok(ring) = Ring::start() else {
            eprintln!("SKIPPED: io_uring is not allowed here");
            return;
        };
        let (ring, pool) = (Arc::new(ring), Pool::new());
        let file = Arc::new(tempfile::tempfile().unwrap());
        let count = 3 * u64::from(RING_ENTRIES) + 1;
        let at = |number: u64| number * BLOCK as u64;
        let writes = (0..count).map(|number| {
            let mut buffer = pool.take(1);
            buffer.fill((number % 251) as u8);
            ring.write(
                &file,
                at(number),
                vec![Slice::new(Arc::new(buffer), 0..BLOCK)],
            )
        });
        let written = submit_together(futures_util::future::join_all(writes)).await;
        assert!(written.iter().all(Result::is_ok));
        let reads = (0..count).map(|number| {
            // One inside another submits nothing before the outer one.
            submit_together(ring.read(&file, at(number), vec![pool.take(1)]))
        });
        let found = submit_together(futures_util::future::join_all(reads)).await;
        for (number, buffers) in found.into_iter().enumerate() {
            assert!(
                buffers.unwrap()[0]
                    .iter()
                    .all(|b| usize::from(*b) == number % 251)
            );
        }
        assert_eq!(TOGETHER.get(), 0);
        // Dropped in the middle: the ring waits for what was started.
        let mut dropped = Box::pin(submit_together(ring.read(&file, 0, vec![pool.take(1)])));
        let first = futures_util::poll!(dropped.as_mut());
        drop((first, dropped));
    }

    #[test]
    fn an_operation_that_the_ring_refuses_completes_on_its_thread() {
        let file = tempfile::tempfile().unwrap();
        let (pool, count, skip) = (Pool::new(), VECTORS + 10, BLOCK + 100);
        let buffers = || (0..count).map(|_| pool.take(1));
        let slices = buffers().enumerate().map(|(number, mut buffer)| {
            buffer.fill((number % 251) as u8);
            Slice::new(Arc::new(buffer), 0..BLOCK)
        });
        let mut write = Payload::Write(slices.collect());
        let mut read = Payload::Read(buffers().collect());
        let all = count * BLOCK;
        for payload in [&mut write, &mut read] {
            let mut moved = skip;
            while moved < all {
                let more = on_this_thread(&file, 7, moved, payload);
                moved += usize::try_from(more).unwrap();
            }
            assert_eq!(moved, all);
        }
        let (Payload::Write(sent), Payload::Read(found)) = (&write, &read) else {
            unreachable!("a payload keeps its kind")
        };
        for (number, (sent, found)) in sent.iter().zip(found).enumerate() {
            let from = skip.saturating_sub(number * BLOCK).min(BLOCK);
            assert!(sent[from..] == found[from..], "{number}");
        }
        assert_eq!(on_this_thread(&file, 0, 0, &mut Payload::Sync), 0);
        let end = on_this_thread(&file, 7 + all as u64, 0, &mut read);
        assert_eq!(end, 0, "nothing lies beyond the end");
        let closed = File::open("/dev/null").unwrap();
        assert_eq!(on_this_thread(&closed, 0, 0, &mut write), -libc::EBADF);
    }
}
