//! Views, and blocking calls on them.

use std::ffi::{c_char, c_int, c_void};
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use weft_client::{Error, OpenView};
use weft_ffi::{Failure, Loans, data_of, data_of_transfer, runtime};
use weft_layout::{CellIndex, OFFSET_MAX, Order, Partition, Subfile, View, ViewOffset, view_text};

use crate::arguments::{
    Owned, buffer_of, give, handles, of, optional_text, slice_of, take, text_of,
};
use crate::error::call;
use crate::file::weft_file;
use crate::request::{WEFT_LAST_WINS, WEFT_SYNCED, WRITE_FLAGS, known, transfer_of, weft_request};

/// What a program sees of a file: a linear sequence of bytes, with a pointer of its own. Making one
/// sends no message.
///
/// Any thread may use it. It keeps its file attached until both are closed.
pub struct weft_view(pub(crate) Owned<OpenView>);

handles! {
    weft_view(OpenView), "view";
}

/// For weft_view_subfile(): column by column in a block, blocks by rows.
pub const WEFT_ORDER_DEFAULT: u32 = 0;
/// For weft_view_subfile(): BSU by BSU across all cells of the subfile.
pub const WEFT_ORDER_ROW: u32 = 1;
/// For weft_view_subfile(): the bytes of one call lie in memory cell by cell.
pub const WEFT_ORDER_COLUMN: u32 = 2;

/// One run of a list call: bytes of the view, and memory of their own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_io_run {
    /// Where it begins in the view, in bytes.
    pub offset: u64,
    /// Its memory; not changed by a write.
    pub buffer: *mut c_void,
    /// Its bytes.
    pub length: usize,
}

/// # Safety
/// The pointers are the caller's.
unsafe fn open(
    file: *const weft_file,
    view: View,
    fork: *const c_char,
    out: *mut *mut weft_view,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        // SAFETY: the caller's.
        let opened = match unsafe { optional_text(fork, "fork") }? {
            None => file.view(view)?,
            Some(fork) => file.view_of_fork(view, fork)?,
        };
        // SAFETY: the caller's.
        unsafe { give(opened.zeroed(), out) }?;
        Ok(0)
    })
}

/// Opens the view of all bytes of a file in their canonical order and stores it in *view. `fork` is
/// NULL for the data.
///
/// Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_file(
    file: *const weft_file,
    fork: *const c_char,
    view: *mut *mut weft_view,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { open(file, View::canonical(), fork, view) }
}

/// Opens the view of one cell, byte by byte, and stores it in *view. Cells are numbered from 0.
///
/// Returns 0, or a negative errno: -EINVAL if the file has no such cell.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_cell(
    file: *const weft_file,
    cell: u32,
    fork: *const c_char,
    view: *mut *mut weft_view,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { open(file, View::Cell(CellIndex(cell)), fork, view) }
}

/// Opens the view of `group` bytes of every `stride`, from byte `offset` of the file on, and stores
/// it in *view: a partition of PVFS.
///
/// Returns 0, or a negative errno: -EINVAL if groups are empty or overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_partition(
    file: *const weft_file,
    offset: u64,
    group: u64,
    stride: u64,
    fork: *const c_char,
    view: *mut *mut weft_view,
) -> c_int {
    let partition = Partition {
        offset,
        group,
        stride,
    };
    // SAFETY: the caller's.
    unsafe { open(file, View::Partition(partition), fork, view) }
}

/// Opens one of Vesta's disjoint subfiles and stores it in *view.
///
/// Blocks are `vbs` BSUs high and `hbs` cells wide; `vn` subfiles are interleaved down a cell and
/// `hn` across the cells, and `index` is which of them, s + t * hn for the one s-th across and t-th
/// down. `order` is WEFT_ORDER_DEFAULT, WEFT_ORDER_ROW or WEFT_ORDER_COLUMN.
///
/// Returns 0, or a negative errno: -EINVAL if the parameters are not legal on the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_subfile(
    file: *const weft_file,
    vbs: u64,
    vn: u64,
    hbs: u64,
    hn: u64,
    index: u64,
    order: u32,
    fork: *const c_char,
    view: *mut *mut weft_view,
) -> c_int {
    let order = match order {
        WEFT_ORDER_DEFAULT => Order::Default,
        WEFT_ORDER_ROW => Order::Row,
        WEFT_ORDER_COLUMN => Order::Column,
        other => {
            let message = format!("{other} is no order of bytes: use a constant WEFT_ORDER_*");
            return call(|| Err(Failure::invalid(message)));
        }
    };
    let subfile = Subfile {
        vbs,
        vn,
        hbs,
        hn,
        index,
        order,
    };
    // SAFETY: the caller's.
    unsafe { open(file, View::Subfile(subfile), fork, view) }
}

/// Opens the view that a text names and stores it in *view: "subfile=Vbs,Vn,Hbs,Hn,INDEX",
/// "partition=OFFSET,GSIZE,STRIDE" or "cell=I", with "@FORK" behind it for a fork.
///
/// Returns 0, or a negative errno: -EINVAL if the text is none or the view does not fit the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_parse(
    file: *const weft_file,
    text: *const c_char,
    view: *mut *mut weft_view,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        // SAFETY: the caller's.
        let text = unsafe { text_of(text, "view") }?;
        let (parsed, fork) = view_text::view(text).map_err(Failure::invalid)?;
        let opened = file.view_of_fork(parsed, &fork)?;
        // SAFETY: the caller's.
        unsafe { give(opened.zeroed(), view) }?;
        Ok(0)
    })
}

/// Closes a view. NULL is allowed. Operations that were posted on it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_close(view: *mut weft_view) {
    // SAFETY: the caller's.
    let _ = call(|| unsafe { take(view) }.map(|_| 0_i32));
}

/// Returns the size of a view in bytes, or a negative errno. One request to each server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_size(view: *const weft_view) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        Ok(runtime()?.block_on(view.size())? as i64)
    })
}

/// Moves a view's pointer to byte `offset`. No message. Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_seek(view: *const weft_view, offset: u64) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        if offset > OFFSET_MAX {
            return Err(Failure::invalid(format!(
                "offset {offset} is past the largest one"
            )));
        }
        view.seek(ViewOffset(offset));
        Ok(0)
    })
}

/// Returns where a view's pointer is, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_position(view: *const weft_view) -> i64 {
    // SAFETY: the caller's.
    call(|| Ok(unsafe { of(view) }?.position().0 as i64))
}

/// Reads `length` bytes of a view from byte `offset` on into `buffer`.
///
/// Returns how many of them the file has, or a negative errno. What it does not have, at its end
/// and where it was never written, is zeros in the buffer. The view's pointer stays.
///
/// Holes inside a cell count as had; those beyond the end of a cell do not. So a smaller number
/// means that the file ends here, or that it is sparse: weft_view_size() tells which.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_read_at(
    view: *const weft_view,
    buffer: *mut c_void,
    length: usize,
    offset: u64,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        let buffer = unsafe { buffer_of(buffer.cast(), length) }?;
        Ok(runtime()?.block_on(view.read_at(ViewOffset(offset), buffer))? as i64)
    })
}

/// Reads at the view's pointer, which moves on by `length` bytes at once, whether or not the read
/// succeeds: threads that share a view read different bytes. Else as weft_read_at().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_read(
    view: *const weft_view,
    buffer: *mut c_void,
    length: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        let buffer = unsafe { buffer_of(buffer.cast(), length) }?;
        Ok(runtime()?.block_on(view.read(buffer))? as i64)
    })
}

/// Reads the bytes of a request into a buffer of `length` bytes: else as weft_read_at().
///
/// Returns how many bytes were moved, or a negative errno: -EINVAL if the request is not legal, two
/// of its bytes have one place in memory, or the buffer is too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_read_request(
    view: *const weft_view,
    request: *const weft_request,
    buffer: *mut c_void,
    length: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        let transfer = unsafe { transfer_of(request, length, 0) }?;
        // SAFETY: the caller's.
        let buffer = unsafe { buffer_of(buffer.cast(), length) }?;
        Ok(runtime()?.block_on(view.read_with(&transfer, buffer))? as i64)
    })
}

/// Reads `count` runs of a view, each into memory of its own: one request to each server.
///
/// Returns how many bytes were moved, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_read_list(
    view: *const weft_view,
    runs: *const weft_io_run,
    count: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        let runs = unsafe { slice_of(runs, count, "list of runs") }?;
        let part = |run: &weft_io_run| {
            // SAFETY: the caller's: the runs' memory does not overlap.
            let memory = unsafe { buffer_of(run.buffer.cast(), run.length) }?;
            Ok((ViewOffset(run.offset), memory))
        };
        let mut list = runs.iter().map(part).collect::<Result<Vec<_>, Failure>>()?;
        Ok(runtime()?.block_on(view.read_list(&mut list))? as i64)
    })
}

/// Whether the client keeps none of the bytes of a write after it: then they need no copy.
pub(crate) fn lends(view: &OpenView) -> bool {
    view.file().policy().is_none()
}

/// Runs a write of the caller's memory.
///
/// # Safety
/// `buffer` points to `length` bytes that stay as they are until this returns.
pub(crate) unsafe fn write<F>(
    view: &OpenView,
    buffer: *const c_void,
    length: usize,
    write: impl FnOnce(Bytes) -> F,
) -> Result<i64, Failure>
where
    F: Future<Output = Result<u64, Error>>,
{
    let loans = Arc::new(Loans::default());
    // SAFETY: the caller's; this returns after every loan has ended.
    let data = unsafe { data_of(buffer.cast(), length, lends(view), &loans) }?;
    let written = runtime()?.block_on(write(data));
    loans.wait();
    Ok(written? as i64)
}

/// Writes `length` bytes to a view from byte `offset` on. `flags` is 0 or WEFT_SYNCED.
///
/// When it returns, the bytes survive the death of any process, and with WEFT_SYNCED power loss;
/// weft_file_sync() does the latter for all that was written. The view's pointer stays.
///
/// Returns how many bytes were moved, all of them except those of cells that the view implies but
/// the file does not have, or a negative errno. After -EHOSTDOWN, when a server was lost, any part
/// of the bytes may have been written: the message says so, or that no server was reached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write_at(
    view: *const weft_view,
    buffer: *const c_void,
    length: usize,
    offset: u64,
    flags: u32,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        let synced = known(flags, WEFT_SYNCED)? != 0;
        let at = ViewOffset(offset);
        let go = async |data| {
            if synced {
                view.write_at_synced(at, data).await
            } else {
                view.write_at(at, data).await
            }
        };
        // SAFETY: the caller's.
        unsafe { write(view, buffer, length, go) }
    })
}

/// Writes at the view's pointer, which moves on by `length` bytes at once, whether or not the write
/// succeeds. Else as weft_write_at() without flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write(
    view: *const weft_view,
    buffer: *const c_void,
    length: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        unsafe { write(view, buffer, length, |data| view.write(data)) }
    })
}

/// Writes the bytes of a request from a buffer of `length` bytes: else as weft_write_at().
///
/// Returns how many bytes were moved, or a negative errno: -EINVAL if the request is not legal,
/// touches a byte of the view twice without WEFT_LAST_WINS, or the buffer is too small; nothing is
/// written then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write_request(
    view: *const weft_view,
    request: *const weft_request,
    buffer: *const c_void,
    length: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        let mut transfer = unsafe { transfer_of(request, length, WRITE_FLAGS) }?;
        let (memory, lend) = (buffer.cast(), lends(view));
        let loans = Arc::new(Loans::default());
        // SAFETY: the caller's; this returns after every loan has ended.
        let data = unsafe { data_of_transfer(&mut transfer, memory, length, lend, &loans) }?;
        let written = runtime()?.block_on(view.write_with(&transfer, data));
        loans.wait();
        Ok(written? as i64)
    })
}

/// Writes `count` runs of a view, each from memory of its own: one request to each server. `flags`
/// is 0, WEFT_SYNCED or WEFT_LAST_WINS; without the latter the runs must not overlap.
///
/// Returns how many bytes were moved, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write_list(
    view: *const weft_view,
    runs: *const weft_io_run,
    count: usize,
    flags: u32,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        let runs = unsafe { slice_of(runs, count, "list of runs") }?;
        let flags = known(flags, WEFT_SYNCED | WEFT_LAST_WINS)?;
        let loans = Arc::new(Loans::default());
        let part = |run: &weft_io_run| {
            // SAFETY: the caller's.
            let data = unsafe { data_of(run.buffer.cast(), run.length, lends(view), &loans) }?;
            Ok((ViewOffset(run.offset), data))
        };
        let list = runs.iter().map(part).collect::<Result<Vec<_>, Failure>>()?;
        let written = runtime()?.block_on(async {
            match flags {
                0 => view.write_list(&list).await,
                WEFT_SYNCED => view.write_list_synced(&list).await,
                WEFT_LAST_WINS => view.write_list_last_wins(&list).await,
                _ => {
                    let written = view.write_list_last_wins(&list).await?;
                    view.file().sync().await?;
                    Ok(written)
                }
            }
        });
        drop(list);
        loans.wait();
        Ok(written? as i64)
    })
}

/// Asks the servers to read bytes of a view into their memory, for reads that will follow. Returns
/// how many bytes they will read, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_prefetch(view: *const weft_view, offset: u64, length: u64) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        Ok(runtime()?.block_on(view.prefetch(ViewOffset(offset), length))? as i64)
    })
}

/// Tells the servers that bytes of a view will not be used soon: they need not stay in memory.
/// Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_release(view: *const weft_view, offset: u64, length: u64) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        runtime()?.block_on(view.release(ViewOffset(offset), length))?;
        Ok(0)
    })
}

/// Makes bytes of a view a hole: they read as zeros and take no space. The size stays. Returns 0,
/// or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_clear(view: *const weft_view, offset: u64, length: u64) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        runtime()?.block_on(view.clear(ViewOffset(offset), length))?;
        Ok(0)
    })
}
