//! What a C program passes: handles, texts, structures that know their size, and places for
//! results.

use std::ffi::{CStr, c_char};
use std::mem::{MaybeUninit, size_of};
use std::ptr;
use weft_ffi::{Failure, Process};

/// What a handle of the interface points to.
pub(crate) struct Owned<T> {
    process: Process,
    value: T,
}

/// Makes structures handles. They are written out where they are declared, so that the header's
/// generator sees them.
macro_rules! handles {
    ($($name:ident($value:ty), $what:literal;)*) => {$(
        impl crate::arguments::Handle for $name {
            type Value = $value;
            const WHAT: &'static str = $what;
            fn wrap(owned: crate::arguments::Owned<$value>) -> Self {
                $name(owned)
            }
            fn owned(&self) -> &crate::arguments::Owned<$value> {
                &self.0
            }
            fn unwrap(self) -> $value {
                self.0.into_value()
            }
        }
    )*};
}
pub(crate) use handles;

impl<T> Owned<T> {
    pub(crate) fn into_value(self) -> T {
        self.value
    }
}

/// A handle that a C program holds a pointer to.
pub(crate) trait Handle: Sized {
    /// What it stands for.
    type Value;
    /// What messages call it.
    const WHAT: &'static str;

    /// As the program sees it.
    fn wrap(owned: Owned<Self::Value>) -> Self;
    /// What is behind it.
    fn owned(&self) -> &Owned<Self::Value>;
    /// The end of the handle.
    fn unwrap(self) -> Self::Value;
}

/// Stores a new handle where the caller wants it.
///
/// # Safety
/// `out` is NULL or points to memory for a pointer.
pub(crate) unsafe fn give<H: Handle>(value: H::Value, out: *mut *mut H) -> Result<(), Failure> {
    let process = Process::current();
    let handle = Box::new(H::wrap(Owned { process, value }));
    // SAFETY: the caller's.
    unsafe { set(out, Box::into_raw(handle), H::WHAT) }
}

/// What a handle stands for.
///
/// # Safety
/// `handle` is NULL or was made by [`give`] and not taken back; it stays so while it is used.
pub(crate) unsafe fn of<'a, H: Handle + 'a>(handle: *const H) -> Result<&'a H::Value, Failure> {
    // SAFETY: the caller's.
    let handle = unsafe { handle.as_ref() };
    let Some(handle) = handle else {
        return Err(Failure::invalid(format!("the {} is NULL", H::WHAT)));
    };
    let owned = handle.owned();
    if owned.process != Process::current() {
        return Err(foreign(H::WHAT));
    }
    Ok(&owned.value)
}

fn foreign(what: &str) -> Failure {
    let message = format!(
        "this {what} was made before a fork, by the parent: connect in this process, and make another one"
    );
    Failure::new(libc::EBADF, message)
}

/// Ends a handle; `None` of NULL. One of another process is left alone.
///
/// # Safety
/// As [`of`]; the handle is not used any more.
pub(crate) unsafe fn take<H: Handle>(handle: *mut H) -> Result<Option<H::Value>, Failure> {
    // SAFETY: the caller's.
    match unsafe { handle.as_ref() } {
        None => Ok(None),
        Some(found) if found.owned().process != Process::current() => Err(foreign(H::WHAT)),
        // SAFETY: `give` made it from a box, and the caller gives it up.
        Some(_) => Ok(Some(unsafe { Box::from_raw(handle) }.unwrap())),
    }
}

/// Stores a result.
///
/// # Safety
/// `out` is NULL or points to memory for a `T`.
pub(crate) unsafe fn set<T>(out: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        let message = format!("there is no place to store the {what}: the pointer is NULL");
        return Err(Failure::invalid(message));
    }
    // SAFETY: the caller's.
    unsafe { out.write(value) };
    Ok(())
}

/// The bytes of a text that ends with NUL.
///
/// # Safety
/// `text` is NULL or such a text, which stays while it is used.
pub(crate) unsafe fn bytes_of<'a>(text: *const c_char, what: &str) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("the {what} is NULL")));
    }
    // SAFETY: the caller's.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A text in UTF-8.
///
/// # Safety
/// As [`bytes_of`].
pub(crate) unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's.
    let bytes = unsafe { bytes_of(text, what) }?;
    std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("the {what} is not UTF-8")))
}

/// A text in UTF-8 that may be absent.
///
/// # Safety
/// As [`bytes_of`].
pub(crate) unsafe fn optional_text<'a>(
    text: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's.
    unsafe { text_of(text, what) }.map(Some)
}

/// An array of the caller's, which may be NULL if it is empty.
///
/// # Safety
/// `first` points to `count` elements that stay while they are used, or `count` is 0.
pub(crate) unsafe fn slice_of<'a, T>(
    first: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Failure::invalid(format!("the {what} is NULL")));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("the {what} is too long")));
    }
    // SAFETY: the caller's.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Memory of the caller's to be filled.
///
/// # Safety
/// `first` points to `length` bytes that nothing else uses meanwhile, or `length` is 0.
pub(crate) unsafe fn buffer_of<'a>(first: *mut u8, length: usize) -> Result<&'a mut [u8], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    if first.is_null() {
        return Err(Failure::invalid("the buffer is NULL"));
    }
    if length > isize::MAX as usize {
        return Err(Failure::invalid("the buffer is too long"));
    }
    // SAFETY: the caller's.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, length) })
}

/// A structure of the interface, which grows at its end from version to version.
///
/// # Safety
/// It is `repr(C)`, its first field is its size in bytes as `usize`, and all its fields may be
/// zero.
pub(crate) unsafe trait Versioned: Sized {
    /// What messages call it.
    const NAME: &'static str;
}

/// The size that a structure says it has.
///
/// # Safety
/// `given` points to one.
unsafe fn size_given<T: Versioned>(given: *const T) -> Result<usize, Failure> {
    // SAFETY: the caller's; the size is the first field.
    let size = unsafe { given.cast::<usize>().read() };
    if size < size_of::<usize>() {
        let name = T::NAME;
        let message = format!("the size of a {name} is {size}: set it to sizeof({name})");
        return Err(Failure::invalid(message));
    }
    Ok(size)
}

/// A structure of options; all zeros for NULL, and for fields that the caller does not know.
///
/// # Safety
/// `given` is NULL or points to as many bytes as it says.
pub(crate) unsafe fn options<T: Versioned>(given: *const T) -> Result<T, Failure> {
    let mut options = MaybeUninit::<T>::zeroed();
    if given.is_null() {
        // SAFETY: all its fields may be zero.
        return Ok(unsafe { options.assume_init() });
    }
    // SAFETY: the caller's.
    let size = unsafe { size_given(given) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: both have that many bytes.
    unsafe { ptr::copy_nonoverlapping(given.cast::<u8>(), options.as_mut_ptr().cast(), known) };
    // SAFETY: the structure has `size` bytes.
    let newer = unsafe { std::slice::from_raw_parts(given.cast::<u8>().add(known), size - known) };
    if newer.iter().any(|byte| *byte != 0) {
        let message = format!(
            "a {} has fields that this libweft does not know: it is older than the program",
            T::NAME
        );
        return Err(Failure::new(libc::E2BIG, message));
    }
    // SAFETY: its bytes are zeros, or the caller's.
    Ok(unsafe { options.assume_init() })
}

/// Fills a structure of results, as far as the caller knows its fields; `size` stays.
///
/// # Safety
/// `out` is NULL or points to as many bytes as it says.
pub(crate) unsafe fn fill<T: Versioned>(out: *mut T, value: &T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::invalid(format!("the {} is NULL", T::NAME)));
    }
    // SAFETY: the caller's.
    let size = unsafe { size_given(out) }?;
    let (from, to) = (ptr::from_ref(value).cast::<u8>(), out.cast::<u8>());
    let first = size_of::<usize>();
    let known = size.min(size_of::<T>());
    // SAFETY: both have that many bytes, and what the caller's has beyond them is zeroed.
    unsafe {
        ptr::copy_nonoverlapping(from.add(first), to.add(first), known - first);
        ptr::write_bytes(to.add(known), 0, size - known);
    }
    Ok(())
}

/// Copies a text with its NUL to the caller's memory; returns its length without it, whether or not
/// it fits.
///
/// # Safety
/// `out` points to `room` bytes, or `room` is 0.
pub(crate) unsafe fn copy_out(bytes: &[u8], out: *mut c_char, room: usize) -> Result<i64, Failure> {
    if room > 0 {
        if out.is_null() {
            return Err(Failure::invalid("the buffer is NULL"));
        }
        let fits = bytes.len().min(room - 1);
        // SAFETY: the caller's.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), fits);
            out.add(fits).write(0);
        }
    }
    Ok(bytes.len() as i64)
}
