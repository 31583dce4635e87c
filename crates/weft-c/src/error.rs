//! Failures: a negative errno for the program, and a message of the calling thread for people.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use weft_ffi::{Failure, guarded};

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// What a function of the interface returns: 0 or a count, or a negative errno.
pub(crate) trait Returned {
    /// The failure with this errno.
    fn failed(errno: i32) -> Self;
}

impl Returned for c_int {
    fn failed(errno: i32) -> c_int {
        -errno
    }
}

impl Returned for i64 {
    fn failed(errno: i32) -> i64 {
        -i64::from(errno)
    }
}

/// Runs the body of a function of the interface: a failure becomes its errno and the message of
/// this thread, and so does a panic, which must not unwind into C. `errno` is left alone.
pub(crate) fn call<T: Returned>(body: impl FnOnce() -> Result<T, Failure>) -> T {
    // SAFETY: the place is this thread's own, and stays.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    let outcome = guarded(body);
    let returned = outcome.unwrap_or_else(|failure| {
        let text = failure.message().replace('\0', "\\0");
        MESSAGE.set(CString::new(text).unwrap_or_default());
        T::failed(failure.errno())
    });
    // SAFETY: as above.
    unsafe { errno.write(before) };
    returned
}

/// Says why the last call of this thread that failed did so: what was attempted, on what, what went
/// wrong, and what can be done about it.
///
/// The text is UTF-8 without a line break at its end. It is empty if no call of this thread has
/// failed yet. It belongs to the library and is valid until the next call of this thread that
/// fails. Successful calls do not change it.
#[unsafe(no_mangle)]
pub extern "C" fn weft_error_message() -> *const c_char {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

/// Returns the version of the library, such as "0.1.0". The text belongs to the library.
#[unsafe(no_mangle)]
pub extern "C" fn weft_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
