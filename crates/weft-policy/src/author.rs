#![allow(
    unsafe_code,
    reason = "an author's methods are called through the functions of the table"
)]
//! The Rust side for authors of plug-ins: a trait in place of the table of `weft_policy.h`.
//!
//! A plug-in is a `cdylib` that implements [`Policy`] and exports it with [`export_policy!`]. What
//! panics in it ends as an error of the operation.

use std::any::Any;
use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

pub use rustix::io::Errno;

pub use crate::abi::Chunk;
use crate::{Open, Touched, VERSION, Values, abi, values};

/// What a callback returns: an error with the words that explain it.
pub type Outcome<T = ()> = Result<T, (Errno, String)>;

/// A policy. A value is one open of a file.
pub trait Policy: Sized + Send + Sync + 'static {
    /// The name, as that of the library's file without `.so`.
    const NAME: &'static CStr;
    /// What it promises, in a line.
    const SUMMARY: &'static CStr;
    /// Its values, unless an open changes them.
    const VALUES: Values;

    /// Before a file is used through an open.
    ///
    /// # Errors
    /// The open fails with it; as does an operation with the error of its callback.
    fn pre_open(call: &mut Call<'_>, open: &Open<'_>, values: &mut Values) -> Outcome<Self>;

    /// After the open.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn post_open(&self, _call: &mut Call<'_>) -> Outcome {
        Ok(())
    }

    /// Before the close; the value is dropped after it.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn pre_close(&self, _call: &mut Call<'_>) -> Outcome {
        Ok(())
    }

    /// Before a read.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn pre_read(&self, _call: &mut Call<'_>, _touched: &Touched) -> Outcome {
        Ok(())
    }

    /// After a read of so many bytes, or with a negative errno.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn post_read(&self, _call: &mut Call<'_>, _touched: &Touched, _bytes: i64) -> Outcome {
        Ok(())
    }

    /// Before a write. For how long at most it waits in the client; `delay` is that of the values.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn pre_write(
        &self,
        _call: &mut Call<'_>,
        _touched: &Touched,
        delay: Option<Duration>,
    ) -> Outcome<Option<Duration>> {
        Ok(delay)
    }

    /// After a write of so many bytes, or with a negative errno.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn post_write(&self, _call: &mut Call<'_>, _touched: &Touched, _bytes: i64) -> Outcome {
        Ok(())
    }

    /// Before a sync.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn pre_sync(&self, _call: &mut Call<'_>) -> Outcome {
        Ok(())
    }

    /// After a sync.
    ///
    /// # Errors
    /// As [`Policy::pre_open`].
    fn post_sync(&self, _call: &mut Call<'_>) -> Outcome {
        Ok(())
    }
}

/// The call of one callback: what it can ask of the client.
pub struct Call<'a> {
    raw: *mut abi::Call,
    core: &'a abi::Core,
    lives: PhantomData<&'a mut abi::Call>,
}

fn checked(result: i64) -> Result<u64, Errno> {
    let failed = || Errno::from_raw_os_error(result.unsigned_abs() as i32);
    u64::try_from(result).map_err(|_| failed())
}

impl Call<'_> {
    /// Kept names of the chunks that canonical bytes touch, at most so many, and how many chunks
    /// have none.
    ///
    /// # Errors
    /// With `NOTSUP` where the policy keeps no names.
    pub fn hcache_get(
        &mut self,
        range: Range<u64>,
        most: usize,
    ) -> Result<(Vec<Chunk>, u64), Errno> {
        let mut chunks = vec![Chunk::default(); most];
        let mut count = most;
        let (start, length) = of(&range);
        // SAFETY: the call is that of this callback; there is room for `count` chunks.
        let missing = unsafe {
            (self.core.hcache_get)(self.raw, start, length, chunks.as_mut_ptr(), &raw mut count)
        };
        let missing = checked(missing)?;
        chunks.truncate(count);
        Ok((chunks, missing))
    }

    /// Keeps names.
    ///
    /// # Errors
    /// With `NOTSUP` where the policy keeps no names of its own.
    pub fn hcache_put(&mut self, chunks: &[Chunk]) -> Result<(), Errno> {
        // SAFETY: the call is that of this callback.
        let done = unsafe { (self.core.hcache_put)(self.raw, chunks.as_ptr(), chunks.len()) };
        checked(done.into()).map(drop)
    }

    /// Drops names; `None`: all of the file.
    ///
    /// # Errors
    /// With `NOTSUP` where the policy keeps no names.
    pub fn hcache_clear(&mut self, range: Option<Range<u64>>) -> Result<(), Errno> {
        // SAFETY: the call is that of this callback.
        let done = unsafe {
            match range {
                None => (self.core.hcache_clear)(self.raw),
                Some(range) => {
                    let (start, length) = of(&range);
                    (self.core.hcache_clear_range)(self.raw, start, length)
                }
            }
        };
        checked(done.into()).map(drop)
    }

    /// Drops all names of all files.
    pub fn hcache_invalidate(&mut self) {
        // SAFETY: the call is that of this callback.
        unsafe { (self.core.hcache_invalidate)(self.raw) };
    }

    /// Has names asked for once the callback has returned.
    pub fn hcache_fetch(&mut self, range: Range<u64>) {
        let (start, length) = of(&range);
        // SAFETY: the call is that of this callback.
        unsafe { (self.core.hcache_fetch)(self.raw, start, length) };
    }

    /// Reads as much of a kept chunk as fits; how many bytes it has.
    ///
    /// # Errors
    /// With `NOENT` if it is not kept.
    pub fn dcache_get(&mut self, name: &[u8; 32], into: &mut [u8]) -> Result<u64, Errno> {
        let (buffer, size) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: the call is that of this callback; the buffer has that size.
        checked(unsafe { (self.core.dcache_get)(self.raw, name.as_ptr(), buffer, size) })
    }

    /// Keeps a chunk.
    ///
    /// # Errors
    /// With `INVAL` if the bytes have another name.
    pub fn dcache_put(&mut self, name: &[u8; 32], bytes: &[u8]) -> Result<(), Errno> {
        let (buffer, size) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the call is that of this callback; the buffer has that size.
        let done = unsafe { (self.core.dcache_put)(self.raw, name.as_ptr(), buffer, size) };
        checked(done.into()).map(drop)
    }

    /// Has writes that wait sent once the callback has returned.
    pub fn commit(&mut self) {
        // SAFETY: the call is that of this callback.
        unsafe { (self.core.commit)(self.raw) };
    }

    fn because(&mut self, reason: &str) {
        let reason = CString::new(reason.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the call is that of this callback; the text ends with a NUL.
        unsafe { (self.core.because)(self.raw, reason.as_ptr()) };
    }
}

fn of(range: &Range<u64>) -> (u64, u64) {
    (range.start, range.end.saturating_sub(range.start))
}

/// Exports a type that implements [`author::Policy`](crate::author::Policy) as the library's
/// policy.
#[macro_export]
macro_rules! export_policy {
    ($policy:ty) => {
        #[unsafe(no_mangle)]
        extern "C" fn weft_policy() -> *const ::std::ffi::c_void {
            static TABLE: $crate::author::Table = $crate::author::Table::new();
            TABLE.of::<$policy>()
        }
    };
}

/// The table of a plug-in; of [`export_policy!`].
#[doc(hidden)]
pub struct Table(OnceLock<Constant>);

struct Constant(abi::Policy);
// SAFETY: it holds functions and constant strings.
unsafe impl Send for Constant {}
// SAFETY: as above.
unsafe impl Sync for Constant {}

impl Table {
    #[doc(hidden)]
    #[must_use]
    #[allow(
        clippy::new_without_default,
        reason = "a static of the macro needs a constant"
    )]
    pub const fn new() -> Table {
        Table(OnceLock::new())
    }

    #[doc(hidden)]
    pub fn of<P: Policy>(&'static self) -> *const c_void {
        let table = self.0.get_or_init(|| {
            Constant(abi::Policy {
                size: size_of::<abi::Policy>() as u32,
                version: VERSION,
                name: P::NAME.as_ptr(),
                summary: P::SUMMARY.as_ptr(),
                values: P::VALUES.to_abi(),
                pre_open: Some(pre_open::<P>),
                post_open: Some(post_open::<P>),
                pre_close: Some(pre_close::<P>),
                post_close: Some(post_close::<P>),
                pre_read: Some(pre_read::<P>),
                post_read: Some(post_read::<P>),
                pre_write: Some(pre_write::<P>),
                post_write: Some(post_write::<P>),
                pre_sync: Some(pre_sync::<P>),
                post_sync: Some(post_sync::<P>),
            })
        });
        (&raw const table.0).cast()
    }
}

/// Runs an author's method; its error or panic becomes the callback's.
///
/// # Safety
/// `call` is that of the callback that runs.
unsafe fn run(call: *mut abi::Call, method: impl FnOnce(&mut Call<'_>) -> Outcome) -> c_int {
    // SAFETY: the client passes a call that lives until the callback returns.
    let core = unsafe { &*(*call).core };
    let mut call = Call {
        raw: call,
        core,
        lives: PhantomData,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| method(&mut call)));
    let (errno, reason) = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(failed)) => failed,
        Err(panic) => (Errno::IO, format!("it panicked: {}", said(&*panic))),
    };
    call.because(&reason);
    -errno.raw_os_error()
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("with a value that is no text")
}

/// # Safety
/// `handle` is what [`pre_open`] left, and `post_close` has not had it.
unsafe fn file<'a, P: Policy>(handle: *mut c_void) -> &'a P {
    // SAFETY: it is a box of `P`.
    unsafe { &*handle.cast::<P>() }
}

fn touched(range: &abi::Range) -> Touched {
    Touched {
        offset: range.offset,
        bytes: range.bytes,
        canonical: (range.canonical != 0).then_some(range.start..range.end),
    }
}

unsafe extern "C" fn pre_open<P: Policy>(
    call: *mut abi::Call,
    open: *const abi::Open,
    values: *mut abi::Values,
    handle: *mut *mut c_void,
) -> c_int {
    // SAFETY: the client passes pointers that are valid until this returns.
    unsafe {
        run(call, |call| {
            let open = &*open;
            let path = CStr::from_ptr(open.path).to_string_lossy();
            let open = Open {
                path: &path,
                file: open.file,
                length: open.length,
                chunk: open.chunk,
                writable: open.writable != 0,
                created: open.created != 0,
                addressed: open.addressed != 0,
            };
            let asked = Values::of_abi(&*values).map_err(|wrong| (Errno::INVAL, wrong))?;
            let mut chosen = asked;
            let file = P::pre_open(call, &open, &mut chosen)?;
            if chosen != asked {
                *values = chosen.to_abi();
            }
            *handle = Box::into_raw(Box::new(file)).cast();
            Ok(())
        })
    }
}

unsafe extern "C" fn post_open<P: Policy>(call: *mut abi::Call, handle: *mut c_void) -> c_int {
    // SAFETY: the client's call and this open's handle.
    unsafe { run(call, |call| file::<P>(handle).post_open(call)) }
}

unsafe extern "C" fn pre_close<P: Policy>(call: *mut abi::Call, handle: *mut c_void) -> c_int {
    // SAFETY: as above.
    unsafe { run(call, |call| file::<P>(handle).pre_close(call)) }
}

unsafe extern "C" fn post_close<P: Policy>(handle: *mut c_void) {
    // SAFETY: this open's handle, for the last time.
    let file = unsafe { Box::from_raw(handle.cast::<P>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(file)));
}

unsafe extern "C" fn pre_read<P: Policy>(
    call: *mut abi::Call,
    handle: *mut c_void,
    range: *const abi::Range,
) -> c_int {
    // SAFETY: the client's call and range, and this open's handle.
    unsafe {
        run(call, |call| {
            file::<P>(handle).pre_read(call, &touched(&*range))
        })
    }
}

unsafe extern "C" fn post_read<P: Policy>(
    call: *mut abi::Call,
    handle: *mut c_void,
    range: *const abi::Range,
    bytes: i64,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        run(call, |call| {
            file::<P>(handle).post_read(call, &touched(&*range), bytes)
        })
    }
}

unsafe extern "C" fn pre_write<P: Policy>(
    call: *mut abi::Call,
    handle: *mut c_void,
    range: *const abi::Range,
    delay: *mut u64,
) -> c_int {
    // SAFETY: as above, and the client's delay.
    unsafe {
        run(call, |call| {
            let asked = (*delay > 0).then(|| Duration::from_millis(*delay));
            let chosen = file::<P>(handle).pre_write(call, &touched(&*range), asked)?;
            *delay = values::milliseconds(chosen);
            Ok(())
        })
    }
}

unsafe extern "C" fn post_write<P: Policy>(
    call: *mut abi::Call,
    handle: *mut c_void,
    range: *const abi::Range,
    bytes: i64,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        run(call, |call| {
            file::<P>(handle).post_write(call, &touched(&*range), bytes)
        })
    }
}

unsafe extern "C" fn pre_sync<P: Policy>(call: *mut abi::Call, handle: *mut c_void) -> c_int {
    // SAFETY: the client's call and this open's handle.
    unsafe { run(call, |call| file::<P>(handle).pre_sync(call)) }
}

unsafe extern "C" fn post_sync<P: Policy>(call: *mut abi::Call, handle: *mut c_void) -> c_int {
    // SAFETY: as above.
    unsafe { run(call, |call| file::<P>(handle).post_sync(call)) }
}
