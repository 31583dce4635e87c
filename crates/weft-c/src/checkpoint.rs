//! Checkpoints of files and trees.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::size_of;

use weft_client::CheckpointInfo;
use weft_ffi::{Failure, runtime};

use crate::arguments::{Versioned, bytes_of, fill, give, of, text_of};
use crate::error::call;
use crate::view::weft_view;
use crate::volume::weft_volume;

/// A checkpoint of a file or a tree. Set `size` to sizeof(weft_checkpoint) before it is filled.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_checkpoint {
    /// sizeof(weft_checkpoint).
    pub size: usize,
    /// Its number, for weft_view_of_checkpoint().
    pub number: u64,
    /// When it was made, nanoseconds since 1970.
    pub made: i64,
    /// Bytes of the file in it, or of all files of the tree.
    pub length: u64,
    /// Names in the tree; of a file 0.
    pub names: u64,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_checkpoint {
    const NAME: &'static str = "weft_checkpoint";
}

fn written(found: &CheckpointInfo) -> weft_checkpoint {
    weft_checkpoint {
        size: size_of::<weft_checkpoint>(),
        number: found.number,
        made: found.made,
        length: found.size,
        names: found.names,
    }
}

/// Makes a checkpoint of a file, or of all that is below a directory: one request, whatever the
/// size. Each write to one server is wholly before or wholly after it. Fills *checkpoint unless it
/// is NULL.
///
/// Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_checkpoint_make(
    volume: *const weft_volume,
    path: *const c_char,
    name: *const c_char,
    checkpoint: *mut weft_checkpoint,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        // SAFETY: the caller's.
        let name = unsafe { text_of(name, "checkpoint's name") }?;
        let made = runtime()?.block_on(volume.make_checkpoint(path, name))?;
        if !checkpoint.is_null() {
            // SAFETY: the caller's.
            unsafe { fill(checkpoint, &written(&made)) }?;
        }
        Ok(0)
    })
}

/// Calls `visit` for every checkpoint of a file or directory in the order in which they were made,
/// with its name. It stops at the first call that does not return 0, and returns that.
///
/// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
/// may call this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_checkpoint_list(
    volume: *const weft_volume,
    path: *const c_char,
    visit: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            name: *const c_char,
            checkpoint: *const weft_checkpoint,
        ) -> c_int,
    >,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        let visit = visit.ok_or_else(|| Failure::invalid("the function is NULL"))?;
        for found in runtime()?.block_on(volume.checkpoints(path))? {
            let name = CString::new(found.name.clone()).unwrap_or_default();
            let found = written(&found);
            // SAFETY: the caller's function.
            let went = unsafe { visit(context, name.as_ptr(), &raw const found) };
            if went != 0 {
                return Ok(went);
            }
        }
        Ok(0)
    })
}

/// Removes a checkpoint of a file or directory. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_checkpoint_remove(
    volume: *const weft_volume,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        // SAFETY: the caller's.
        let name = unsafe { text_of(name, "checkpoint's name") }?;
        runtime()?.block_on(volume.remove_checkpoint(path, name))?;
        Ok(0)
    })
}

/// Makes a file, or all that is below a directory, what it is in a checkpoint: one request,
/// whatever the size. Other checkpoints stay. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_roll_back(
    volume: *const weft_volume,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        // SAFETY: the caller's.
        let name = unsafe { text_of(name, "checkpoint's name") }?;
        runtime()?.block_on(volume.roll_back(path, name))?;
        Ok(0)
    })
}

/// Opens the same view of a checkpoint of its file, by the checkpoint's number, and stores it in
/// *old. It can be read, not written. No message. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_view_of_checkpoint(
    view: *const weft_view,
    number: u64,
    old: *mut *mut weft_view,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let view = unsafe { of(view) }?;
        // SAFETY: the caller's.
        unsafe { give(view.another().of_checkpoint_number(number), old) }?;
        Ok(0)
    })
}
