//! The structures of `weft_policy.h`.

use std::ffi::{c_char, c_int, c_void};

pub(crate) const NAMES_NONE: u32 = 0;
pub(crate) const NAMES_COHERENT: u32 = 1;
pub(crate) const NAMES_OWN: u32 = 2;

/// `struct weft_policy_values`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    pub(crate) size: u32,
    pub(crate) in_order: u32,
    pub(crate) names: u32,
    pub(crate) until_sync: u32,
    pub(crate) written_once: u32,
    pub(crate) reserved: u32,
    pub(crate) believed_ms: u64,
    pub(crate) delay_ms: u64,
}

/// `struct weft_open`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Open {
    pub(crate) size: u32,
    pub(crate) writable: u32,
    pub(crate) created: u32,
    pub(crate) addressed: u32,
    pub(crate) file: u64,
    pub(crate) length: u64,
    pub(crate) chunk: u64,
    pub(crate) path: *const c_char,
}

/// `struct weft_range`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    pub(crate) size: u32,
    pub(crate) canonical: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// `struct weft_chunk`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Within its cell.
    pub number: u64,
    /// The cell.
    pub cell: u32,
    /// 1: it has no name, and reads as zeros.
    pub hole: u32,
    /// BLAKE3 of its bytes without the zeros at their end.
    pub name: [u8; 32],
}

/// `struct weft_call`: the client's own part follows the member that authors see.
#[repr(C)]
pub struct Call {
    pub(crate) core: *const Core,
}

/// `struct weft_core`.
#[repr(C)]
pub struct Core {
    pub(crate) size: u32,
    pub(crate) version: u32,
    pub(crate) hcache_get:
        unsafe extern "C" fn(*mut Call, u64, u64, *mut Chunk, *mut usize) -> i64,
    pub(crate) hcache_put: unsafe extern "C" fn(*mut Call, *const Chunk, usize) -> c_int,
    pub(crate) hcache_clear: unsafe extern "C" fn(*mut Call) -> c_int,
    pub(crate) hcache_clear_range: unsafe extern "C" fn(*mut Call, u64, u64) -> c_int,
    pub(crate) hcache_invalidate: unsafe extern "C" fn(*mut Call) -> c_int,
    pub(crate) hcache_fetch: unsafe extern "C" fn(*mut Call, u64, u64) -> c_int,
    pub(crate) dcache_get: unsafe extern "C" fn(*mut Call, *const u8, *mut c_void, usize) -> i64,
    pub(crate) dcache_put:
        unsafe extern "C" fn(*mut Call, *const u8, *const c_void, usize) -> c_int,
    pub(crate) commit: unsafe extern "C" fn(*mut Call) -> c_int,
    pub(crate) because: unsafe extern "C" fn(*mut Call, *const c_char) -> c_int,
}

pub(crate) type OnOpen =
    unsafe extern "C" fn(*mut Call, *const Open, *mut Values, *mut *mut c_void) -> c_int;
pub(crate) type OnFile = unsafe extern "C" fn(*mut Call, *mut c_void) -> c_int;
pub(crate) type OnRange = unsafe extern "C" fn(*mut Call, *mut c_void, *const Range) -> c_int;
pub(crate) type OnDone = unsafe extern "C" fn(*mut Call, *mut c_void, *const Range, i64) -> c_int;
pub(crate) type OnWrite =
    unsafe extern "C" fn(*mut Call, *mut c_void, *const Range, *mut u64) -> c_int;

/// `struct weft_policy`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Policy {
    pub(crate) size: u32,
    pub(crate) version: u32,
    pub(crate) name: *const c_char,
    pub(crate) summary: *const c_char,
    pub(crate) values: Values,
    pub(crate) pre_open: Option<OnOpen>,
    pub(crate) post_open: Option<OnFile>,
    pub(crate) pre_close: Option<OnFile>,
    pub(crate) post_close: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) pre_read: Option<OnRange>,
    pub(crate) post_read: Option<OnDone>,
    pub(crate) pre_write: Option<OnWrite>,
    pub(crate) post_write: Option<OnDone>,
    pub(crate) pre_sync: Option<OnFile>,
    pub(crate) post_sync: Option<OnFile>,
}
