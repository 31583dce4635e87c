#![allow(unsafe_code)] // io_uring takes raw addresses; the kernel works on them after the call returns.
//! One io_uring: callers submit, one thread collects what is done.
//!
//! Submitting costs one system call on the caller's thread and no hand-over; completions wake the
//! caller's task. Rejected: a thread that does both, because every operation would pay two
//! hand-overs.
//!
//! Invariants:
//! 1. An operation's buffers, vectors and file live in its slot until its completion was seen.
//! 2. Only the collecting thread touches the completion queue; only the holder of `submit` touches
//!    the submission queue.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::pool::{Buffer, Slice};
use crate::storage::BoxFuture;

/// Entries of the submission queue; it is emptied by every submission.
const ENTRIES: u32 = 256;
/// The operation that ends the collecting thread.
const STOP: u64 = u64::MAX;
/// Most vectors of one operation (`IOV_MAX`).
const VECTORS: usize = 1024;

/// What an operation works on; handed back when it is done.
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
    stopping: bool,
}

impl Slots {
    fn busy(&self) -> bool {
        self.table.len() > self.free.len()
    }
}

struct Shared {
    uring: IoUring,
    submit: Mutex<()>,
    slots: Mutex<Slots>,
}

/// A ring and its thread; dropping it waits for what is under way.
pub(super) struct Ring {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Ring {
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            uring: IoUring::new(ENTRIES)?,
            submit: Mutex::default(),
            slots: Mutex::default(),
        });
        let collector = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("weft-ring".into())
            .spawn(move || collector.collect())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub(super) fn read(
        &self,
        file: &Arc<File>,
        at: u64,
        buffers: Vec<Buffer>,
    ) -> BoxFuture<io::Result<Vec<Buffer>>> {
        let wanted: usize = buffers.iter().map(|b| b.len()).sum();
        let done = self.shared.start(file, at, 0, Payload::Read(buffers));
        let (shared, file) = (Arc::clone(&self.shared), Arc::clone(file));
        Box::pin(async move {
            match shared.finish(&file, at, wanted, done).await? {
                Payload::Read(buffers) => Ok(buffers),
                _ => unreachable!("an operation hands its payload back"),
            }
        })
    }

    pub(super) fn write(
        &self,
        file: &Arc<File>,
        at: u64,
        slices: Vec<Slice>,
    ) -> BoxFuture<io::Result<()>> {
        let wanted: usize = slices.iter().map(|s| s.len()).sum();
        let done = self.shared.start(file, at, 0, Payload::Write(slices));
        let (shared, file) = (Arc::clone(&self.shared), Arc::clone(file));
        Box::pin(async move { shared.finish(&file, at, wanted, done).await.map(drop) })
    }

    pub(super) fn sync(&self, file: &Arc<File>) -> BoxFuture<io::Result<()>> {
        let done = self.shared.start(file, 0, 0, Payload::Sync);
        let (shared, file) = (Arc::clone(&self.shared), Arc::clone(file));
        Box::pin(async move { shared.finish(&file, 0, 0, done).await.map(drop) })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.shared.slots.lock().stopping = true;
        let stop = opcode::Nop::new().build().user_data(STOP);
        // SAFETY: a no-operation refers to no memory.
        unsafe { self.shared.push(&stop) };
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by itself.
            let _ = thread.join();
        }
    }
}

type Done = oneshot::Receiver<(i32, Payload)>;

impl Shared {
    /// Submits one operation that skips the first `skip` bytes of its payload.
    fn start(&self, file: &Arc<File>, at: u64, skip: usize, mut payload: Payload) -> Done {
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
        receive
    }

    /// # Safety
    /// What the entry refers to lives until its completion.
    unsafe fn push(&self, entry: &squeue::Entry) {
        let _alone = self.submit.lock();
        loop {
            // SAFETY: the lock makes this the only access (invariant 2); the caller answers for
            // the entry.
            let pushed = unsafe { self.uring.submission_shared().push(entry) };
            let submitted = self.uring.submit();
            if pushed.is_ok() && submitted.is_ok() {
                return;
            }
            if pushed.is_ok() {
                // Out of memory or of room for completions: the entry stays queued.
                while self.uring.submit().is_err() {
                    std::thread::yield_now();
                }
                return;
            }
        }
    }

    /// Waits for an operation and goes on with the rest where the kernel stopped short.
    async fn finish(
        &self,
        file: &Arc<File>,
        at: u64,
        wanted: usize,
        done: Done,
    ) -> io::Result<Payload> {
        let stopped = || io::Error::other("the ring stopped");
        let (mut result, mut payload) = done.await.map_err(|_| stopped())?;
        let mut moved = 0;
        loop {
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
            (result, payload) = self
                .start(file, at, moved, payload)
                .await
                .map_err(|_| stopped())?;
        }
    }

    /// Collects completions until it is told to stop and nothing is under way.
    fn collect(&self) {
        loop {
            let waiting = self.uring.submitter();
            // SAFETY: no argument is passed; entries are submitted elsewhere.
            let entered = unsafe { waiting.enter::<libc::sigset_t>(0, 1, 1, None) };
            if let Err(error) = entered
                && error.raw_os_error() != Some(libc::EINTR)
            {
                tracing::error!(%error, "cannot wait for io_uring");
                std::thread::yield_now();
            }
            // SAFETY: this thread alone touches the completion queue (invariant 2).
            let completions: Vec<(u64, i32)> = unsafe { self.uring.completion_shared() }
                .map(|c| (c.user_data(), c.result()))
                .collect();
            let mut slots = self.slots.lock();
            let mut done = Vec::with_capacity(completions.len());
            for (index, result) in completions {
                if index == STOP {
                    continue;
                }
                if let Some(slot) = slots.table[index as usize].take() {
                    slots.free.push(index as usize);
                    done.push((slot, result));
                }
            }
            let ended = slots.stopping && !slots.busy();
            drop(slots);
            for (slot, result) in done {
                // The caller may have gone; the payload is dropped here then.
                let _ = slot.done.send((result, slot.payload));
            }
            if ended {
                return;
            }
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
