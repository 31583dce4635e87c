//! Pointers that processes share.

use std::ffi::{c_char, c_int, c_void};

use weft_client::SharedPointer;
use weft_ffi::runtime;
use weft_layout::ViewOffset;

use crate::arguments::{Owned, buffer_of, give, handles, of, take, text_of};
use crate::error::call;
use crate::group::weft_group;
use crate::view::{weft_view, write};

/// A pointer into a view that all processes share which name it so.
pub struct weft_pointer(Owned<SharedPointer>);

handles! {
    weft_pointer(SharedPointer), "shared pointer";
}

/// Opens the shared pointer of a view's file with this name, 1 to 64 bytes without '/', and stores
/// it in *pointer. No message. A server of the file keeps it until it is removed, or the file is.
///
/// The view stays usable, and is not needed any more. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_open(
    view: *const weft_view,
    name: *const c_char,
    pointer: *mut *mut weft_pointer,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (view, name) = unsafe { (of(view)?, text_of(name, "pointer's name")?) };
        let shared = view.another().shared_pointer(name)?;
        // SAFETY: the caller's.
        unsafe { give(shared, pointer) }?;
        Ok(0)
    })
}

/// Frees the handle of a shared pointer, which stays where it is. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_close(pointer: *mut weft_pointer) {
    // SAFETY: the caller's.
    let _ = call(|| unsafe { take(pointer) }.map(|_| 0_i32));
}

/// Takes the next `bytes` bytes of a view for this caller: no other process gets one of them. With
/// a group, members take in the order of their numbers, and all of them call it; NULL: without.
///
/// Returns where they begin, or a negative errno. One request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_take(
    pointer: *const weft_pointer,
    group: *const weft_group,
    bytes: u64,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let pointer = unsafe { of(pointer) }?;
        let taken = if group.is_null() {
            runtime()?.block_on(pointer.take(bytes))?
        } else {
            // SAFETY: the caller's.
            let group = unsafe { of(group) }?;
            runtime()?.block_on(pointer.ordered(group).take(bytes))?
        };
        Ok(taken.0 as i64)
    })
}

/// Takes the next `length` bytes, as weft_pointer_take(), and reads them into `buffer`. Returns as
/// weft_read_at().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_read(
    pointer: *const weft_pointer,
    group: *const weft_group,
    buffer: *mut c_void,
    length: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let pointer = unsafe { of(pointer) }?;
        // SAFETY: the caller's.
        let buffer = unsafe { buffer_of(buffer.cast(), length) }?;
        let read = if group.is_null() {
            runtime()?.block_on(pointer.read(buffer))?
        } else {
            // SAFETY: the caller's.
            let group = unsafe { of(group) }?;
            runtime()?.block_on(pointer.ordered(group).read(buffer))?
        };
        Ok(read as i64)
    })
}

/// Takes the next `length` bytes, as weft_pointer_take(), and writes them from `buffer`. Returns as
/// weft_write_at().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_write(
    pointer: *const weft_pointer,
    group: *const weft_group,
    buffer: *const c_void,
    length: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let pointer = unsafe { of(pointer) }?;
        if group.is_null() {
            // SAFETY: the caller's.
            return unsafe { write(pointer.view(), buffer, length, |data| pointer.write(data)) };
        }
        // SAFETY: the caller's.
        let group = unsafe { of(group) }?;
        let go = |data| pointer.ordered(group).write(data);
        // SAFETY: the caller's.
        unsafe { write(pointer.view(), buffer, length, go) }
    })
}

/// Returns where a shared pointer is, or a negative errno. One request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_position(pointer: *const weft_pointer) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let pointer = unsafe { of(pointer) }?;
        Ok(runtime()?.block_on(pointer.position())?.0 as i64)
    })
}

/// Moves a shared pointer to byte `offset` for all. Returns 0, or a negative errno. One request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_seek(pointer: *const weft_pointer, offset: u64) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let pointer = unsafe { of(pointer) }?;
        runtime()?.block_on(pointer.seek(ViewOffset(offset)))?;
        Ok(0)
    })
}

/// Has the server forget a shared pointer: the next one of this name begins at 0. Returns 0, or a
/// negative errno. One request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pointer_remove(pointer: *const weft_pointer) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let pointer = unsafe { of(pointer) }?;
        runtime()?.block_on(pointer.remove())?;
        Ok(0)
    })
}
