//! The threads that serve a process's connections, and what a `fork` leaves of them: nothing.
//!
//! The runtime is made by the first call that needs it and lives as long as the process. A child
//! has a copy of its memory but none of its threads. So the child forgets it, without freeing
//! anything, and makes one of its own when it connects.
//!
//! Rejected: a mutex around the runtime, which a thread could hold at the moment of a fork.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Threads for the network: each call also works on its caller's thread.
const THREADS_MAX: usize = 4;

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
/// Forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process in which a handle was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// This one.
    pub fn current() -> Process {
        Process(FORKS.load(Ordering::Acquire))
    }
}

/// The runtime of this process.
///
/// # Errors
/// When no thread can be started.
pub fn runtime() -> Result<&'static Runtime, Failure> {
    let made = RUNTIME.load(Ordering::Acquire);
    if !made.is_null() {
        // SAFETY: it was leaked below and is never freed.
        return Ok(unsafe { &*made });
    }
    forget_after_fork()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let made = Builder::new_multi_thread()
        .worker_threads(threads.min(THREADS_MAX))
        .thread_name("weft")
        .on_thread_start(block_signals)
        .enable_all()
        .build()
        .map_err(|e| {
            let errno = e.raw_os_error().unwrap_or(libc::EAGAIN);
            Failure::new(errno, format!("cannot start threads: {e}"))
        })?;
    let made = Box::into_raw(Box::new(made));
    let won = RUNTIME.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    match won {
        // SAFETY: it is never freed.
        Ok(_) => Ok(unsafe { &*made }),
        Err(other) => {
            // SAFETY: another thread was faster, and this one is not shared yet.
            unsafe { Box::from_raw(made) }.shutdown_background();
            // SAFETY: as above.
            Ok(unsafe { &*other })
        }
    }
}

/// Has children of this process forget its runtime.
fn forget_after_fork() -> Result<(), Failure> {
    static REGISTERED: Once = Once::new();
    let mut error = 0;
    REGISTERED.call_once(|| {
        // SAFETY: the handler only stores to atomics.
        error = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    if error == 0 {
        return Ok(());
    }
    Err(Failure::new(
        error,
        "cannot prepare for forks: out of memory",
    ))
}

extern "C" fn in_child() {
    RUNTIME.store(ptr::null_mut(), Ordering::Release);
    FORKS.fetch_add(1, Ordering::AcqRel);
}

/// Signals are for the program's own threads.
fn block_signals() {
    // SAFETY: the set is filled before it is used, and the mask is that of this thread alone.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut());
    }
}

/// This process is a child, by other means than `fork`, of the one that used the library before:
/// it has a copy of its memory and none of its threads.
pub fn after_fork() {
    in_child();
}
