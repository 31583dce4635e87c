//! Patterns: which bytes, relative to a place.

use std::ffi::c_int;

use weft_ffi::Failure;
use weft_layout::Pattern;
use weft_layout::array::{Array, Slab};

use crate::arguments::{Owned, give, handles, of, slice_of, take, text_of};
use crate::error::call;

/// Which bytes one call touches, relative to where it begins: contiguous, strided, nested, a
/// sequence, or a list, and any of these inside another.
///
/// One may be nested 16 levels deep and have 4096 parts; the runs of a list do not count.
///
/// Patterns describe bytes of a file and of memory alike. They are values: a function that makes
/// one of others copies them, and each is freed by itself. Threads may share one.
pub struct weft_pattern(pub(crate) Owned<Pattern>);

handles! {
    weft_pattern(Pattern), "pattern";
}

/// A run of bytes in a pattern.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_run {
    /// Where it begins, in bytes from where the pattern begins; may be negative.
    pub displacement: i64,
    /// Its bytes.
    pub length: u64,
}

/// Elements of one dimension of an array: `count` blocks of `block` elements, `stride` apart.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_slab {
    /// The first element, from 0.
    pub start: u64,
    /// From the first element of one block to that of the next; at least 1.
    pub stride: u64,
    /// Blocks.
    pub count: u64,
    /// Elements of each block.
    pub block: u64,
}

/// A pattern within the limits of depth, parts and bytes.
fn legal(pattern: Pattern) -> Result<Pattern, Failure> {
    pattern.length().map_err(weft_client::Error::Pattern)?;
    Ok(pattern)
}

/// Makes a pattern of `length` consecutive bytes and stores it in *pattern.
///
/// Returns 0, or -EINVAL if `pattern` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pattern_bytes(length: u64, pattern: *mut *mut weft_pattern) -> c_int {
    // SAFETY: the caller's.
    call(|| unsafe { give(Pattern::bytes(length), pattern) }.map(|()| 0))
}

/// Makes a pattern that repeats `body` `times` times, `stride` bytes from one beginning to the
/// next, and stores it in *pattern. A negative stride goes backwards.
///
/// A strided request repeats bytes; a nested one repeats a repetition. Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pattern_repeat(
    body: *const weft_pattern,
    stride: i64,
    times: u64,
    pattern: *mut *mut weft_pattern,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let body = unsafe { of(body) }?.clone();
        // SAFETY: the caller's.
        unsafe { give(legal(body.every(stride).times(times))?, pattern) }?;
        Ok(0)
    })
}

/// Makes a pattern of `count` patterns one after the other, each displaced by so many bytes from
/// where the whole begins, and stores it in *pattern.
///
/// Repeated, it is a nested-batched request. Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pattern_sequence(
    count: usize,
    displacements: *const i64,
    members: *const *const weft_pattern,
    pattern: *mut *mut weft_pattern,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let displacements = unsafe { slice_of(displacements, count, "array of displacements") }?;
        // SAFETY: the caller's.
        let members = unsafe { slice_of(members, count, "array of patterns") }?;
        let sequence = displacements.iter().zip(members).map(|(at, member)| {
            // SAFETY: the caller's.
            let member = unsafe { of(*member) }?;
            Ok((*at, member.clone()))
        });
        let sequence = Pattern::Sequence(sequence.collect::<Result<_, Failure>>()?);
        // SAFETY: the caller's.
        unsafe { give(legal(sequence)?, pattern) }?;
        Ok(0)
    })
}

/// Makes a pattern of `count` runs, in the order in which they lie in memory, and stores it in
/// *pattern. Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pattern_list(
    count: usize,
    runs: *const weft_run,
    pattern: *mut *mut weft_pattern,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let runs = unsafe { slice_of(runs, count, "list of runs") }?;
        let list = Pattern::list(runs.iter().map(|run| (run.displacement, run.length)));
        // SAFETY: the caller's.
        unsafe { give(legal(list)?, pattern) }?;
        Ok(0)
    })
}

/// Makes the pattern of a part of an array of several dimensions, a hyperslab, and stores it in
/// *pattern, and in *offset where it begins in the array's bytes.
///
/// `array` is the element's type and the shape, as "f64 1000x500" or "i32 8x8x8 column"; u8 to u64,
/// i8 to i64, f16 to f64, and bytes12 for 12 bytes of any meaning. There is one slab for each
/// dimension, in the order of the shape.
///
/// Returns 0, or -EINVAL if the text is no array or the slabs do not fit it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pattern_array(
    array: *const std::ffi::c_char,
    dimensions: usize,
    slabs: *const weft_slab,
    offset: *mut u64,
    pattern: *mut *mut weft_pattern,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let array: Array = unsafe { text_of(array, "array") }?
            .parse()
            .map_err(|e| Failure::from(weft_client::Error::Array(e)))?;
        // SAFETY: the caller's.
        let slabs = unsafe { slice_of(slabs, dimensions, "array of slabs") }?;
        let slab = |s: &weft_slab| Slab {
            start: s.start,
            stride: s.stride,
            count: s.count,
            block: s.block,
        };
        let slabs: Vec<Slab> = slabs.iter().map(slab).collect();
        let (at, part) = array
            .hyperslab(&slabs)
            .map_err(|e| Failure::from(weft_client::Error::Array(e)))?;
        // SAFETY: the caller's.
        unsafe {
            crate::arguments::set(offset, at.0, "offset")?;
            give(part, pattern)?;
        }
        Ok(0)
    })
}

/// Returns how many bytes a pattern touches, counted as often as it touches them, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pattern_length(pattern: *const weft_pattern) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let length = unsafe { of(pattern) }?.length();
        Ok(length.map_err(weft_client::Error::Pattern)? as i64)
    })
}

/// Frees a pattern. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pattern_free(pattern: *mut weft_pattern) {
    // SAFETY: the caller's.
    let _ = call(|| unsafe { take(pattern) }.map(|_| 0_i32));
}
