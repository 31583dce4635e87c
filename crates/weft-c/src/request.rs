//! Requests: which bytes of a view one call moves, and where they lie in memory.

use std::mem::size_of;

use weft_client::Transfer;
use weft_ffi::Failure;
use weft_layout::{Pattern, ViewOffset};

use crate::arguments::{Versioned, of, options};
use crate::pattern::weft_pattern;

/// In weft_request.flags, and for writes: the bytes survive power loss when the call returns, not
/// only the death of any process.
pub const WEFT_SYNCED: u32 = 1;
/// In weft_request.flags, and for weft_write_list(): a write may touch a byte of the file more than
/// once; what is named last stays.
pub const WEFT_LAST_WINS: u32 = 2;

/// Which bytes of a view one call moves, and where they lie in memory. Set `size` to
/// sizeof(weft_request), and what you do not use to 0.
///
/// The bytes of both patterns are numbered in the order in which each names them; byte n of the one
/// is byte n of the other. However many bytes and runs there are, a call sends one request to each
/// server that holds any of them.
#[repr(C)]
pub struct weft_request {
    /// sizeof(weft_request).
    pub size: usize,
    /// Where the pattern begins in the view, in bytes.
    pub offset: u64,
    /// Which bytes of the view; NULL: as many consecutive ones as the buffer has.
    pub pattern: *const weft_pattern,
    /// Where they lie in memory; NULL: one after the other.
    pub memory: *const weft_pattern,
    /// Where the pattern in memory begins in the buffer, in bytes: for those that go backwards.
    pub memory_offset: u64,
    /// WEFT_SYNCED, WEFT_LAST_WINS, or both; of reads 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_request {
    const NAME: &'static str = "weft_request";
}

const _: () = assert!(size_of::<weft_request>() == 48);

/// A field that is kept for later versions.
pub(crate) fn unused(field: u32, structure: &str) -> Result<(), Failure> {
    if field == 0 {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "the field `reserved` of a {structure} must be 0"
    )))
}

/// The flags of a call.
pub(crate) fn known(flags: u32, allowed: u32) -> Result<u32, Failure> {
    if flags & !allowed == 0 {
        return Ok(flags);
    }
    let message = format!("flags {:#x} have no meaning here", flags & !allowed);
    Err(Failure::invalid(message))
}

/// Flags of a request to write.
pub(crate) const WRITE_FLAGS: u32 = WEFT_SYNCED | WEFT_LAST_WINS;

/// A transfer as the client knows it, for a buffer of this length, if it has no other flags.
///
/// # Safety
/// `request` points to a request whose patterns are NULL or valid.
pub(crate) unsafe fn transfer_of(
    request: *const weft_request,
    length: usize,
    flags: u32,
) -> Result<Transfer, Failure> {
    if request.is_null() {
        return Err(Failure::invalid("the request is NULL"));
    }
    // SAFETY: the caller's.
    let request = unsafe { options(request) }?;
    let pattern = if request.pattern.is_null() {
        Pattern::bytes(length as u64)
    } else {
        // SAFETY: the caller's.
        unsafe { of(request.pattern) }?.clone()
    };
    let mut transfer = Transfer::of(pattern).at(ViewOffset(request.offset));
    if !request.memory.is_null() {
        // SAFETY: the caller's.
        let memory = unsafe { of(request.memory) }?.clone();
        transfer = transfer.in_memory_from(request.memory_offset, memory);
    } else if request.memory_offset != 0 {
        return Err(Failure::invalid("memory_offset needs a pattern in memory"));
    }
    unused(request.reserved, "weft_request")?;
    let flags = known(request.flags, flags)?;
    if flags & WEFT_SYNCED != 0 {
        transfer = transfer.synced();
    }
    if flags & WEFT_LAST_WINS != 0 {
        transfer = transfer.last_wins();
    }
    Ok(transfer)
}
