//! Operations in the background.
//!
//! An operation is a boxed future of what came of it. Its task goes on by
//! itself; a descriptor makes one more task that waits and then signals.

use std::ffi::{c_int, c_void};
use std::future::{Future, poll_fn};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::oneshot;
use weft_client::{Error, Operation, wait_any};

use crate::arguments::{Owned, give, handles, of, set, slice_of, take};
use crate::error::{Failure, call};
use crate::group::weft_group;
use crate::memory::{Loan, Loans, data_of};
use crate::request::{WRITE_FLAGS, transfer_of, weft_request};
use crate::runtime::runtime;
use crate::view::{lends, weft_view};

/// An operation in the background: posted now, tested and waited for later.
///
/// Its memory belongs to it until weft_operation_wait() or weft_operation_cancel() has returned.
/// One thread at a time tests an operation or waits for it.
pub struct weft_operation(Owned<Posted>);

handles! {
    weft_operation(Posted), "operation";
}

/// What came of an operation: bytes moved.
type Outcome = Result<i64, Error>;

/// See [`weft_operation`].
pub(crate) struct Posted {
    state: Mutex<State>,
    loans: Arc<Loans>,
}

struct State {
    running: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    /// Has it end early.
    cancel: oneshot::Sender<()>,
    ended: Option<Outcome>,
    signal: Option<Signal>,
}

/// The descriptor of an operation; a task makes it readable.
type Signal = Arc<OwnedFd>;

impl State {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.ended.is_none() {
            let Poll::Ready(ended) = self.running.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.ended = Some(ended);
        }
        Poll::Ready(())
    }
}

impl Posted {
    fn new<T: Send + 'static>(
        loans: Arc<Loans>,
        operation: Operation<T>,
        bytes: impl FnOnce(T) -> u64 + Send + 'static,
    ) -> Posted {
        let (cancel, cancelled) = oneshot::channel();
        let running = async move {
            let ended = end(operation, cancelled).await?;
            Ok(bytes(ended) as i64)
        };
        Posted {
            state: Mutex::new(State {
                running: Box::pin(running),
                cancel,
                ended: None,
                signal: None,
            }),
            loans,
        }
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let busy = "another thread tests this operation or waits for it";
        self.state
            .try_lock()
            .ok_or_else(|| Failure::new(libc::EBUSY, busy))
    }
}

/// Waits for an operation, or for the wish to cancel it and then for its early end.
async fn end<T>(operation: Operation<T>, cancelled: oneshot::Receiver<()>) -> Result<T, Error> {
    let mut operations = [operation];
    tokio::select! {
        biased;
        _ = wait_any(&mut operations) => {
            let [operation] = operations;
            operation.wait().await
        }
        Ok(()) = cancelled => {
            let [operation] = operations;
            operation.cancel().await;
            Err(stopped("it was cancelled"))
        }
    }
}

fn stopped(reason: &str) -> Error {
    Error::Protocol {
        what: "wait for an operation".to_owned(),
        reason: reason.to_owned(),
    }
}

/// Stores a new operation, whose outcome has so many bytes.
///
/// # Safety
/// `out` is NULL or points to memory for a pointer.
unsafe fn post<T: Send + 'static>(
    loans: Arc<Loans>,
    out: *mut *mut weft_operation,
    operation: Operation<T>,
    bytes: impl FnOnce(T) -> u64 + Send + 'static,
) -> Result<c_int, Failure> {
    let posted = Posted::new(loans, operation, bytes);
    // SAFETY: the caller's.
    unsafe { give(posted, out) }?;
    Ok(0)
}

/// Refuses a call that has no place for its operation, before anything is posted.
fn has_place(out: *mut *mut weft_operation) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::invalid("there is no place to store the operation"));
    }
    Ok(())
}

/// Posts weft_read_request() and stores the operation in *operation. Never waits.
///
/// Operations in flight are in no order, unless the file was attached with WEFT_CAUTIOUS: a read
/// posted after a write of the same bytes may see them or not. Wait in between where it matters.
///
/// Returns 0, or -EINVAL if an argument is not legal; all other errors are returned by the wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_post_read(
    view: *const weft_view,
    request: *const weft_request,
    buffer: *mut c_void,
    length: usize,
    operation: *mut *mut weft_operation,
) -> c_int {
    call(|| {
        has_place(operation)?;
        // SAFETY: the caller's.
        let (view, transfer) = unsafe { (of(view)?, transfer_of(request, length, 0)?) };
        let loans = Arc::new(Loans::default());
        // SAFETY: the caller's.
        let loan = unsafe { Loan::new(buffer.cast(), length, &loans) }?;
        let posted = view.post_read_with(transfer, loan);
        // SAFETY: the caller's.
        unsafe { post(loans, operation, posted, |outcome| outcome.bytes) }
    })
}

/// Posts weft_write_request() and stores the operation in *operation; else as weft_post_read().
///
/// The buffer must not be changed until the operation has been waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_post_write(
    view: *const weft_view,
    request: *const weft_request,
    buffer: *const c_void,
    length: usize,
    operation: *mut *mut weft_operation,
) -> c_int {
    call(|| {
        has_place(operation)?;
        // SAFETY: the caller's.
        let (view, transfer) = unsafe { (of(view)?, transfer_of(request, length, WRITE_FLAGS)?) };
        let loans = Arc::new(Loans::default());
        // SAFETY: the caller's.
        let data = unsafe { data_of(buffer.cast(), length, lends(view), &loans) }?;
        let posted = view.post_write_with(transfer, data);
        // SAFETY: the caller's.
        unsafe { post(loans, operation, posted, |outcome| outcome.bytes) }
    })
}

/// Posts weft_collective_read() and stores the operation in *operation; else as weft_post_read().
/// The wait fails if the group goes on without members and some were missing, with -ETIMEDOUT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_post_collective_read(
    view: *const weft_view,
    group: *const weft_group,
    request: *const weft_request,
    buffer: *mut c_void,
    length: usize,
    operation: *mut *mut weft_operation,
) -> c_int {
    call(|| {
        has_place(operation)?;
        // SAFETY: the caller's.
        let (view, group) = unsafe { (of(view)?, of(group)?) };
        // SAFETY: the caller's.
        let transfer = unsafe { transfer_of(request, length, 0) }?;
        let loans = Arc::new(Loans::default());
        // SAFETY: the caller's.
        let loan = unsafe { Loan::new(buffer.cast(), length, &loans) }?;
        let posted = view.collective(group).post_read(transfer, loan);
        // SAFETY: the caller's.
        unsafe { post(loans, operation, posted, |(collected, _)| collected.bytes) }
    })
}

/// Posts weft_collective_write() and stores the operation in *operation; else as
/// weft_post_collective_read().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_post_collective_write(
    view: *const weft_view,
    group: *const weft_group,
    request: *const weft_request,
    buffer: *const c_void,
    length: usize,
    operation: *mut *mut weft_operation,
) -> c_int {
    call(|| {
        has_place(operation)?;
        // SAFETY: the caller's.
        let (view, group) = unsafe { (of(view)?, of(group)?) };
        // SAFETY: the caller's.
        let transfer = unsafe { transfer_of(request, length, WRITE_FLAGS) }?;
        let loans = Arc::new(Loans::default());
        // SAFETY: the caller's.
        let data = unsafe { data_of(buffer.cast(), length, lends(view), &loans) }?;
        let posted = view.collective(group).post_write(transfer, data);
        // SAFETY: the caller's.
        unsafe { post(loans, operation, posted, |collected| collected.bytes) }
    })
}

/// Posts weft_file_sync() of a view's file and stores the operation in *operation. It covers the
/// writes that had been waited for when it was posted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_post_sync(
    view: *const weft_view,
    operation: *mut *mut weft_operation,
) -> c_int {
    call(|| {
        has_place(operation)?;
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        let posted = view.post_sync();
        // SAFETY: the caller's.
        unsafe { post(Arc::default(), operation, posted, |outcome| outcome.bytes) }
    })
}

/// Returns 1 if an operation has ended, 0 if not, or a negative errno. Never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_operation_test(operation: *const weft_operation) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let posted = unsafe { of(operation) }?;
        let mut state = posted.state()?;
        let ended = state.poll(&mut Context::from_waker(Waker::noop()));
        Ok(c_int::from(ended.is_ready()))
    })
}

/// Waits until an operation has ended and frees it.
///
/// Returns what the blocking call would have returned. After it the memory is the caller's again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_operation_wait(operation: *mut weft_operation) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let posted = unsafe { take(operation) }?;
        let Some(Posted { state, loans }) = posted else {
            return Err(Failure::invalid("the operation is NULL"));
        };
        let mut state = state.into_inner();
        runtime()?.block_on(poll_fn(|context| state.poll(context)));
        let ended = state.ended.take();
        drop(state);
        loans.wait();
        Ok(ended.expect("it was polled until it had ended")?)
    })
}

/// Cancels an operation, waits until neither its memory is used any more nor a server works on it,
/// and frees it. NULL is allowed.
///
/// A cancelled read may have filled any part of its buffer. Of a cancelled write any part may have
/// been written; none is written later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_operation_cancel(operation: *mut weft_operation) {
    let _ = call(|| {
        // SAFETY: the caller's.
        if let Some(Posted { state, loans }) = unsafe { take(operation) }? {
            let State {
                mut running,
                cancel,
                ended,
                ..
            } = state.into_inner();
            // It may have ended by itself.
            let _ = cancel.send(());
            if ended.is_none() {
                let _ = runtime()?.block_on(&mut running);
            }
            drop((running, ended));
            loans.wait();
        }
        Ok(0_i32)
    });
}

/// Returns a file descriptor that becomes readable when an operation has ended, for poll(2) and
/// epoll(7), or a negative errno. It belongs to the operation and is closed when that is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_operation_descriptor(operation: *const weft_operation) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let posted = unsafe { of(operation) }?;
        let mut state = posted.state()?;
        if state.signal.is_none() {
            let signal = signal(&mut state)?;
            state.signal = Some(signal);
        }
        let signal = state.signal.as_ref().expect("it was just made");
        Ok(signal.as_raw_fd())
    })
}

/// Has a task wait for an operation, and signal when it has ended.
fn signal(state: &mut State) -> Result<Signal, Failure> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let made = eventfd(0, flags).map_err(|errno| {
        let message = format!("cannot make a descriptor for an operation: {errno}");
        Failure::new(errno.raw_os_error(), message)
    })?;
    let descriptor = Arc::new(made);
    let (send, receive) = oneshot::channel();
    let received = async move {
        receive
            .await
            .unwrap_or_else(|_| Err(stopped("its task was stopped")))
    };
    let running = std::mem::replace(&mut state.running, Box::pin(received));
    let already = state.ended.is_some();
    let to_signal = descriptor.clone();
    runtime()?.spawn(async move {
        // One that was found to have ended may not be polled again.
        if !already {
            // The operation may have been freed.
            let _ = send.send(running.await);
        }
        // It can only fail where 2^64 are stored in it.
        let _ = rustix::io::write(&*to_signal, &1_u64.to_ne_bytes());
    });
    Ok(descriptor)
}

/// Waits until one of `count` operations has ended, and stores its index in *index. Frees none. It
/// waits `timeout_ms` milliseconds at most; -1: as long as it takes.
///
/// Returns 0, -ETIMEDOUT if none has ended in time, or -EINVAL. An operation that is NULL is left
/// out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_wait_any(
    operations: *const *mut weft_operation,
    count: usize,
    timeout_ms: c_int,
    index: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let operations = unsafe { slice_of(operations, count, "array of operations") }?;
        let mut states = Vec::with_capacity(count);
        for (i, operation) in operations.iter().enumerate().filter(|(_, o)| !o.is_null()) {
            // SAFETY: the caller's.
            states.push((i, unsafe { of(*operation) }?.state()?));
        }
        if states.is_empty() {
            return Err(Failure::invalid("there is no operation to wait for"));
        }
        let any = poll_fn(|context| {
            let ended = states
                .iter_mut()
                .find_map(|(i, state)| state.poll(context).is_ready().then_some(*i));
            ended.map_or(Poll::Pending, Poll::Ready)
        });
        let runtime = runtime()?;
        let ended = if timeout_ms < 0 {
            runtime.block_on(any)
        } else {
            let limit = Duration::from_millis(timeout_ms.unsigned_abs().into());
            let _context = runtime.enter();
            let limited = runtime.block_on(async { tokio::time::timeout(limit, any).await });
            limited.map_err(|_| {
                let message = format!("none of the operations has ended in {timeout_ms} ms");
                Failure::new(libc::ETIMEDOUT, message)
            })?
        };
        // SAFETY: the caller's.
        unsafe { set(index, ended, "index") }?;
        Ok(0)
    })
}
