#![allow(
    unsafe_code,
    reason = "the functions of a table are those of another language"
)]
//! A loaded policy, and calls of its callbacks.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;

pub use crate::abi::Chunk;
use crate::{Kept, VERSION, Values, abi, values};

/// The most chunks of one call of `hcache_put`.
const CHUNKS_MAX: usize = 65_536;
/// The most bytes of one chunk.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// The most bytes of a reason that are kept.
const REASON_MAX: usize = 512;

/// What a callback asks of the client. Ranges are canonical bytes of the file.
pub trait Core: Sync {
    /// At most so many kept names of the chunks in a range, and how many chunks have none.
    ///
    /// # Errors
    /// Where the policy keeps no names.
    fn hcache_get(&self, range: Range<u64>, most: usize) -> Result<(Vec<Chunk>, u64), Errno>;
    /// Keeps names.
    ///
    /// # Errors
    /// Where the open keeps no names of its own; for chunks that the file cannot have.
    fn hcache_put(&self, chunks: &[Chunk]) -> Result<(), Errno>;
    /// Drops the names of a range; `None`: of all chunks.
    ///
    /// # Errors
    /// Where the policy keeps no names.
    fn hcache_clear(&self, range: Option<Range<u64>>) -> Result<(), Errno>;
    /// Drops all names of all files.
    fn hcache_invalidate(&self);
    /// Has names asked for once the callback has returned.
    fn hcache_fetch(&self, range: Range<u64>);
    /// Writes as much of a kept chunk as fits, and returns how many bytes it has.
    ///
    /// # Errors
    /// With `NOENT` if it is not kept.
    fn dcache_get(&self, name: &[u8; 32], into: &mut [u8]) -> Result<usize, Errno>;
    /// Keeps a chunk.
    ///
    /// # Errors
    /// With `INVAL` if the bytes have another name.
    fn dcache_put(&self, name: &[u8; 32], bytes: &[u8]) -> Result<(), Errno>;
    /// Has delayed writes sent once the callback has returned.
    fn commit(&self);
}

/// What is opened.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// The file's path.
    pub path: &'a str,
    /// Its number in its volume.
    pub file: u64,
    /// Bytes, as known when it was opened.
    pub length: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// For writing, too.
    pub writable: bool,
    /// This open created the file.
    pub created: bool,
    /// Its chunks have names.
    pub addressed: bool,
}

/// What an operation touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The first byte, in the order of the view.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The canonical bytes that hold all of them, where that is known.
    pub canonical: Option<Range<u64>>,
}

impl Touched {
    fn to_abi(&self) -> abi::Range {
        let canonical = self.canonical.clone().unwrap_or(0..u64::MAX);
        abi::Range {
            size: size_of::<abi::Range>() as u32,
            canonical: self.canonical.is_some().into(),
            offset: self.offset,
            bytes: self.bytes,
            start: canonical.start,
            end: canonical.end,
        }
    }
}

/// A callback that has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy {policy} has failed in {callback}: {reason}")]
pub struct Failed {
    /// The policy's name.
    pub policy: String,
    /// The callback.
    pub callback: &'static str,
    /// The closest errno of Linux.
    pub errno: i32,
    /// In the plug-in's words, or those of the errno.
    pub reason: String,
}

/// A policy of a plug-in. Lives as long as its process.
pub struct Plugin {
    table: abi::Policy,
    name: String,
    summary: String,
    values: Values,
}

// SAFETY: the interface says that the table does not change and that callbacks may come from
// several threads at once; the pointers in it are of functions and constant strings.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({})", self.name)
    }
}

/// The state of one callback's call. Authors see its first member.
#[repr(C)]
struct Call<'a> {
    seen: abi::Call,
    core: &'a dyn Core,
    reason: Mutex<Option<String>>,
}

impl Plugin {
    pub(crate) fn new(table: abi::Policy, name: String, summary: String, values: Values) -> Plugin {
        Plugin {
            table,
            name,
            summary,
            values,
        }
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it promises, in a line.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Its values, unless an open changes them.
    pub fn values(&self) -> Values {
        self.values
    }

    /// Begins an open: `pre_open`. Returns the values for it.
    ///
    /// # Errors
    /// As the plug-in says, and for values that are not legal.
    pub fn open(
        &'static self,
        core: &dyn Core,
        open: &Open<'_>,
    ) -> Result<(Values, Opened), Failed> {
        let mut opened = Opened {
            plugin: self,
            handle: std::ptr::null_mut(),
        };
        let mut offered = self.values;
        if !open.addressed {
            offered.names = Kept::None;
        }
        let Some(pre_open) = self.table.pre_open else {
            return Ok((offered, opened));
        };
        // A path has no NUL.
        let path = CString::new(open.path).unwrap_or_default();
        let seen = abi::Open {
            size: size_of::<abi::Open>() as u32,
            writable: open.writable.into(),
            created: open.created.into(),
            addressed: open.addressed.into(),
            file: open.file,
            length: open.length,
            chunk: open.chunk,
            path: path.as_ptr(),
        };
        let mut values = offered.to_abi();
        let mut handle = std::ptr::null_mut();
        let done = self.call("pre_open", core, |call| {
            // SAFETY: a function of a checked table; all pointers are valid until it returns.
            unsafe { pre_open(call, &raw const seen, &raw mut values, &raw mut handle) }
        });
        if let Err(failed) = done {
            // It has left no handle that it wants back.
            std::mem::forget(opened);
            return Err(failed);
        }
        opened.handle = handle;
        let values = Values::of_abi(&values).and_then(|values| {
            if values.needs_names() && !open.addressed {
                return Err("names are kept of addressed files only".to_owned());
            }
            Ok(values)
        });
        match values {
            Ok(values) => Ok((values, opened)),
            Err(reason) => Err(self.failed("pre_open", Errno::INVAL, reason)),
        }
    }

    fn failed(&self, callback: &'static str, errno: Errno, reason: String) -> Failed {
        Failed {
            policy: self.name.clone(),
            callback,
            errno: errno.raw_os_error(),
            reason,
        }
    }

    fn call(
        &self,
        callback: &'static str,
        core: &dyn Core,
        function: impl FnOnce(*mut abi::Call) -> c_int,
    ) -> Result<(), Failed> {
        let mut call = Call {
            seen: abi::Call {
                core: &raw const CORE,
            },
            core,
            reason: Mutex::new(None),
        };
        let result = function((&raw mut call).cast());
        if result == 0 {
            return Ok(());
        }
        // The kernel takes ENOSYS for a call that does not exist, and does not call again; those
        // from 512 on are its own.
        let errno = match result.checked_neg() {
            Some(errno @ 1..512) if errno != Errno::NOSYS.raw_os_error() => {
                Errno::from_raw_os_error(errno)
            }
            _ => Errno::INVAL,
        };
        let reason = call.reason.into_inner();
        let reason = reason.unwrap_or_else(|| match result {
            ..0 if -result == errno.raw_os_error() => std::io::Error::from(errno).to_string(),
            _ => format!("it returned {result}, which is neither 0 nor the negative of an errno that programs get"),
        });
        Err(self.failed(callback, errno, reason))
    }
}

/// An open that a plug-in knows of. Dropped, it ends: `post_close`.
#[derive(Debug)]
pub struct Opened {
    plugin: &'static Plugin,
    handle: *mut c_void,
}

// SAFETY: the interface says that callbacks with one handle may come from several threads at once.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Opened {
    fn on_file(
        &self,
        callback: &'static str,
        function: Option<abi::OnFile>,
        core: &dyn Core,
    ) -> Result<(), Failed> {
        let Some(function) = function else {
            return Ok(());
        };
        self.plugin.call(callback, core, |call| {
            // SAFETY: a function of a checked table, the handle that it gave out, and a call that
            // lives until it returns.
            unsafe { function(call, self.handle) }
        })
    }

    fn on_done(
        &self,
        callback: &'static str,
        function: Option<abi::OnDone>,
        core: &dyn Core,
        touched: &Touched,
        bytes: i64,
    ) -> Result<(), Failed> {
        let Some(function) = function else {
            return Ok(());
        };
        let range = touched.to_abi();
        self.plugin.call(callback, core, |call| {
            // SAFETY: as in `on_file`; the range lives until it returns.
            unsafe { function(call, self.handle, &raw const range, bytes) }
        })
    }

    /// After the open.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn post_open(&self, core: &dyn Core) -> Result<(), Failed> {
        self.on_file("post_open", self.plugin.table.post_open, core)
    }

    /// Before the close.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn pre_close(&self, core: &dyn Core) -> Result<(), Failed> {
        self.on_file("pre_close", self.plugin.table.pre_close, core)
    }

    /// Before a read.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn pre_read(&self, core: &dyn Core, touched: &Touched) -> Result<(), Failed> {
        let Some(function) = self.plugin.table.pre_read else {
            return Ok(());
        };
        let range = touched.to_abi();
        self.plugin.call("pre_read", core, |call| {
            // SAFETY: as in `on_file`; the range lives until it returns.
            unsafe { function(call, self.handle, &raw const range) }
        })
    }

    /// After a read of so many bytes, or of none because of an error.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn post_read(&self, core: &dyn Core, touched: &Touched, bytes: i64) -> Result<(), Failed> {
        let function = self.plugin.table.post_read;
        self.on_done("post_read", function, core, touched, bytes)
    }

    /// Before a write, which waits for at most `delay`. Returns for how long it is to wait.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn pre_write(
        &self,
        core: &dyn Core,
        touched: &Touched,
        delay: Option<Duration>,
    ) -> Result<Option<Duration>, Failed> {
        let Some(function) = self.plugin.table.pre_write else {
            return Ok(delay);
        };
        let range = touched.to_abi();
        let mut milliseconds = values::milliseconds(delay);
        self.plugin.call("pre_write", core, |call| {
            // SAFETY: as in `on_file`; range and delay live until it returns.
            unsafe { function(call, self.handle, &raw const range, &raw mut milliseconds) }
        })?;
        Ok((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
    }

    /// After a write of so many bytes, or with a negative errno.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn post_write(&self, core: &dyn Core, touched: &Touched, bytes: i64) -> Result<(), Failed> {
        let function = self.plugin.table.post_write;
        self.on_done("post_write", function, core, touched, bytes)
    }

    /// Before a sync.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn pre_sync(&self, core: &dyn Core) -> Result<(), Failed> {
        self.on_file("pre_sync", self.plugin.table.pre_sync, core)
    }

    /// After a sync.
    ///
    /// # Errors
    /// As the plug-in says.
    pub fn post_sync(&self, core: &dyn Core) -> Result<(), Failed> {
        self.on_file("post_sync", self.plugin.table.post_sync, core)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(post_close) = self.plugin.table.post_close {
            // SAFETY: a function of a checked table, and the handle that it gave out, for the last
            // time.
            unsafe { post_close(self.handle) }
        }
    }
}

/// The functions that callbacks get.
static CORE: abi::Core = abi::Core {
    size: size_of::<abi::Core>() as u32,
    version: VERSION,
    hcache_get,
    hcache_put,
    hcache_clear,
    hcache_clear_range,
    hcache_invalidate,
    hcache_fetch,
    dcache_get,
    dcache_put,
    commit,
    because,
};

/// Answers a plug-in.
///
/// # Safety
/// `call` is that of a callback that has not returned.
unsafe fn answer(
    call: *mut abi::Call,
    function: impl FnOnce(&Call<'_>) -> Result<i64, Errno>,
) -> i64 {
    if call.is_null() {
        return -i64::from(Errno::FAULT.raw_os_error());
    }
    // SAFETY: every call is made by `Plugin::call`, as the first member of a `Call`.
    let call = unsafe { &*call.cast::<Call<'_>>() };
    // A panic must not unwind through a plug-in's frames.
    match catch_unwind(AssertUnwindSafe(|| function(call))) {
        Ok(Ok(value)) => value,
        Ok(Err(errno)) => -i64::from(errno.raw_os_error()),
        Err(_) => -i64::from(Errno::IO.raw_os_error()),
    }
}

fn range(start: u64, length: u64) -> Range<u64> {
    start..start.saturating_add(length)
}

unsafe extern "C" fn hcache_get(
    call: *mut abi::Call,
    start: u64,
    length: u64,
    chunks: *mut Chunk,
    count: *mut usize,
) -> i64 {
    // SAFETY: the call's; `count` is one of the author's variables, and `chunks` has room for so
    // many.
    unsafe {
        answer(call, |call| {
            let most = count.as_mut().map_or(0, |count| *count);
            let most = if chunks.is_null() { 0 } else { most };
            let (found, missing) = call.core.hcache_get(range(start, length), most)?;
            let found = &found[..found.len().min(most)];
            if !found.is_empty() {
                std::ptr::copy_nonoverlapping(found.as_ptr(), chunks, found.len());
            }
            if let Some(count) = count.as_mut() {
                *count = found.len();
            }
            Ok(missing.cast_signed())
        })
    }
}

unsafe extern "C" fn hcache_put(call: *mut abi::Call, chunks: *const Chunk, count: usize) -> c_int {
    // SAFETY: the call's; `chunks` are so many.
    let done = unsafe {
        answer(call, |call| {
            if count > CHUNKS_MAX || chunks.is_null() && count > 0 {
                return Err(Errno::INVAL);
            }
            let chunks = if count == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(chunks, count)
            };
            call.core.hcache_put(chunks).map(|()| 0)
        })
    };
    done as c_int
}

unsafe extern "C" fn hcache_clear(call: *mut abi::Call) -> c_int {
    // SAFETY: the call's.
    (unsafe { answer(call, |call| call.core.hcache_clear(None).map(|()| 0)) }) as c_int
}

unsafe extern "C" fn hcache_clear_range(call: *mut abi::Call, start: u64, length: u64) -> c_int {
    // SAFETY: the call's.
    let done = unsafe {
        answer(call, |call| {
            let range = Some(range(start, length));
            call.core.hcache_clear(range).map(|()| 0)
        })
    };
    done as c_int
}

unsafe extern "C" fn hcache_invalidate(call: *mut abi::Call) -> c_int {
    // SAFETY: the call's.
    let done = unsafe {
        answer(call, |call| {
            call.core.hcache_invalidate();
            Ok(0)
        })
    };
    done as c_int
}

unsafe extern "C" fn hcache_fetch(call: *mut abi::Call, start: u64, length: u64) -> c_int {
    // SAFETY: the call's.
    let done = unsafe {
        answer(call, |call| {
            call.core.hcache_fetch(range(start, length));
            Ok(0)
        })
    };
    done as c_int
}

unsafe extern "C" fn dcache_get(
    call: *mut abi::Call,
    name: *const u8,
    buffer: *mut c_void,
    size: usize,
) -> i64 {
    // SAFETY: the call's; `name` has 32 bytes, and `buffer` so many.
    unsafe {
        answer(call, |call| {
            let name = name.cast::<[u8; 32]>().as_ref().ok_or(Errno::FAULT)?;
            let into = if buffer.is_null() || size == 0 {
                &mut []
            } else {
                std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size.min(CHUNK_BYTES_MAX))
            };
            call.core
                .dcache_get(name, into)
                .map(|bytes| (bytes as u64).cast_signed())
        })
    }
}

unsafe extern "C" fn dcache_put(
    call: *mut abi::Call,
    name: *const u8,
    bytes: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the call's; `name` has 32 bytes, and `bytes` so many.
    let done = unsafe {
        answer(call, |call| {
            let name = name.cast::<[u8; 32]>().as_ref().ok_or(Errno::FAULT)?;
            if bytes.is_null() || size > CHUNK_BYTES_MAX {
                return Err(Errno::INVAL);
            }
            let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), size);
            call.core.dcache_put(name, bytes).map(|()| 0)
        })
    };
    done as c_int
}

unsafe extern "C" fn commit(call: *mut abi::Call) -> c_int {
    // SAFETY: the call's.
    let done = unsafe {
        answer(call, |call| {
            call.core.commit();
            Ok(0)
        })
    };
    done as c_int
}

unsafe extern "C" fn because(call: *mut abi::Call, reason: *const c_char) -> c_int {
    // SAFETY: the call's; `reason` ends with a NUL.
    let done = unsafe {
        answer(call, |call| {
            if reason.is_null() {
                return Err(Errno::FAULT);
            }
            *call.reason.lock() = Some(text(CStr::from_ptr(reason)));
            Ok(0)
        })
    };
    done as c_int
}

/// Text of a plug-in, in one line and not too long.
pub(crate) fn text(bytes: &CStr) -> String {
    let text = bytes.to_string_lossy();
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(REASON_MAX).collect()
}
