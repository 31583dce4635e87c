//! Memory of Python, by the buffer protocol.
//!
//! The protocol's functions are in the stable ABI since Python 3.11 only. Every Python from 3.9 on
//! has them, with this structure: the stable ABI took it over as it was. So they are declared here.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use weft_layout::{OFFSET_MAX, ViewOffset};

/// `Py_buffer` of `object.h`.
#[repr(C)]
struct PyBuffer {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

const SIMPLE: c_int = 0;
const WRITABLE: c_int = 1;
/// `PyBUF_STRIDES`: shape and strides.
const STRIDES: c_int = 0x18;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut PyBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut PyBuffer);
}

/// Exported memory of a Python object, until it is dropped. The object can neither move nor free it
/// meanwhile.
pub(crate) struct Buffer(Box<PyBuffer>);

// SAFETY: the memory stays where it is until the buffer is released, which takes the interpreter's
// lock, on any thread.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads the description.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The bytes of an object, one after the other, to be read.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        Buffer::get(object, SIMPLE)
    }

    /// The bytes of an object, one after the other, to be filled.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        Buffer::get(object, WRITABLE)
    }

    /// Memory whose elements need not lie one after the other: a request says where they are.
    pub(crate) fn strided(object: &Bound<'_, PyAny>, fill: bool) -> PyResult<Buffer> {
        Buffer::get(object, STRIDES | if fill { WRITABLE } else { SIMPLE })
    }

    fn get(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Buffer> {
        let mut view = Box::new(PyBuffer {
            buf: ptr::null_mut(),
            obj: ptr::null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: ptr::null_mut(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
        });
        // SAFETY: the object is alive, and the structure is that of the interpreter.
        let got = unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) };
        if got != 0 {
            return Err(PyErr::take(object.py()).unwrap_or_else(|| {
                PyBufferError::new_err("the object does not export its memory")
            }));
        }
        Ok(Buffer(view))
    }

    /// Bytes of the elements together.
    pub(crate) fn length(&self) -> usize {
        self.0.len.unsigned_abs()
    }

    /// The first byte of all elements' memory, how many bytes there are up to the end of the last
    /// element, and where the first element lies in them.
    pub(crate) fn extent(&self) -> PyResult<(*mut u8, usize, usize)> {
        let first = self.0.buf.cast::<u8>();
        if self.0.strides.is_null() || self.0.shape.is_null() {
            return Ok((first, self.length(), 0));
        }
        let dimensions = self.0.ndim.unsigned_abs() as usize;
        // SAFETY: the exporter promises as many of both.
        let (shape, strides) = unsafe {
            (
                std::slice::from_raw_parts(self.0.shape, dimensions),
                std::slice::from_raw_parts(self.0.strides, dimensions),
            )
        };
        if shape.contains(&0) {
            return Ok((first, 0, 0));
        }
        let (mut before, mut after) = (0_isize, self.0.itemsize);
        for (count, stride) in shape.iter().zip(strides) {
            let reach = (count - 1).checked_mul(*stride);
            let reach = reach.ok_or_else(|| PyValueError::new_err("the array is too large"))?;
            before += reach.min(0);
            after += reach.max(0);
        }
        // SAFETY: all of it is the exporter's memory.
        let lowest = unsafe { first.offset(before) };
        Ok((
            lowest,
            (after - before).unsigned_abs(),
            before.unsigned_abs(),
        ))
    }

    /// The memory as a slice of numbers of another type.
    pub(crate) fn as_slice<T: Copy>(&self) -> PyResult<&[T]> {
        let size = size_of::<T>();
        let first = self.0.buf.cast::<T>();
        if !self.length().is_multiple_of(size) || !first.is_aligned() {
            let message = format!("the buffer must have whole numbers of {size} bytes");
            return Err(PyValueError::new_err(message));
        }
        if self.length() == 0 {
            return Ok(&[]);
        }
        // SAFETY: aligned, exported, and any bytes are numbers of the integer types used here.
        Ok(unsafe { std::slice::from_raw_parts(first, self.length() / size) })
    }

    /// The memory to be filled, one byte after the other.
    pub(crate) fn start(&self) -> *mut u8 {
        self.0.buf.cast()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: it was filled by `PyObject_GetBuffer`, and is released once.
            unsafe { PyBuffer_Release(&raw mut *self.0) };
        });
    }
}

/// An offset of a file or a view.
pub(crate) fn offset_of(offset: u64) -> PyResult<ViewOffset> {
    if offset > OFFSET_MAX {
        let message = format!("offset {offset} is past the largest one");
        return Err(PyValueError::new_err(message));
    }
    Ok(ViewOffset(offset))
}

/// The bytes of a path: text of the file system's encoding, bytes, or what has `__fspath__`.
pub(crate) fn path_bytes(path: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let os = path.py().import("os")?;
    let encoded = os.call_method1("fsencode", (path,))?;
    let bytes: &[u8] = encoded.extract()?;
    if CStr::from_bytes_until_nul(bytes).is_ok() {
        return Err(PyValueError::new_err("embedded null byte in the path"));
    }
    Ok(bytes.to_vec())
}
