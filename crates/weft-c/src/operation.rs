//! Operations in the background.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use weft_client::Operation;
use weft_ffi::{Failure, Loan, Loans, Posted, data_of_transfer};

use crate::arguments::{Owned, give, handles, of, set, slice_of, take};
use crate::error::call;
use crate::group::weft_group;
use crate::request::{WRITE_FLAGS, transfer_of, weft_request};
use crate::view::{lends, weft_view};

/// An operation in the background: posted now, tested and waited for later.
///
/// Its memory belongs to it until weft_operation_wait() or weft_operation_cancel() has returned.
/// One thread at a time tests an operation or waits for it.
pub struct weft_operation(Owned<Posted>);

handles! {
    weft_operation(Posted), "operation";
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
        let (view, mut transfer) =
            unsafe { (of(view)?, transfer_of(request, length, WRITE_FLAGS)?) };
        let loans = Arc::new(Loans::default());
        let (memory, lend) = (buffer.cast(), lends(view));
        // SAFETY: the caller's.
        let data = unsafe { data_of_transfer(&mut transfer, memory, length, lend, &loans) }?;
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
        let mut transfer = unsafe { transfer_of(request, length, WRITE_FLAGS) }?;
        let loans = Arc::new(Loans::default());
        let (memory, lend) = (buffer.cast(), lends(view));
        // SAFETY: the caller's.
        let data = unsafe { data_of_transfer(&mut transfer, memory, length, lend, &loans) }?;
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
        Ok(c_int::from(posted.has_ended()?))
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
        let posted = posted.ok_or_else(|| Failure::invalid("the operation is NULL"))?;
        posted.wait()
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
        if let Some(posted) = unsafe { take(operation) }? {
            posted.cancel()?;
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
        unsafe { of(operation) }?.descriptor()
    })
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
        let (mut posted, mut indices) = (Vec::new(), Vec::new());
        for (i, operation) in operations.iter().enumerate().filter(|(_, o)| !o.is_null()) {
            // SAFETY: the caller's.
            posted.push(unsafe { of(*operation) }?);
            indices.push(i);
        }
        let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let ended = indices[Posted::wait_any(&posted, limit)?];
        // SAFETY: the caller's.
        unsafe { set(index, ended, "index") }?;
        Ok(0)
    })
}
