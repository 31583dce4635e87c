#![allow(unsafe_code)] // It calls the C interface as a C program does.
//! What a call costs through the C interface, beside the same call from Rust: in one process, in
//! turn.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use tokio::runtime::Runtime;
use weft as _; // links the functions below
use weft_client::{Access, OpenView};
use weft_layout::ViewOffset;

use crate::volume::{Running, Setting};
use crate::{median, show};

/// Bytes of each call, and calls of a run.
const CASES: [(usize, u64); 3] = [(4 << 10, 4000), (64 << 10, 2000), (1 << 20, 300)];

#[repr(C)]
struct ConnectOptions {
    size: usize,
    folder: *const c_char,
    others: [usize; 6],
}

unsafe extern "C" {
    fn weft_connect(given: *const ConnectOptions, volume: *mut *mut c_void) -> c_int;
    fn weft_disconnect(volume: *mut c_void);
    fn weft_attach(
        volume: *const c_void,
        path: *const c_char,
        given: *const AttachOptions,
        file: *mut *mut c_void,
    ) -> c_int;
    fn weft_file_close(file: *mut c_void) -> c_int;
    fn weft_view_file(file: *const c_void, fork: *const c_char, view: *mut *mut c_void) -> c_int;
    fn weft_view_close(view: *mut c_void);
    fn weft_read_at(view: *const c_void, buffer: *mut u8, length: usize, offset: u64) -> i64;
    fn weft_write_at(
        view: *const c_void,
        buffer: *const u8,
        length: usize,
        offset: u64,
        flags: u32,
    ) -> i64;
    fn weft_error_message() -> *const c_char;
}

#[repr(C)]
struct AttachOptions {
    size: usize,
    flags: u32,
    others: [u32; 3],
}

/// `WEFT_READ | WEFT_WRITE`.
const READ_WRITE: u32 = 3;

/// A view through the C interface.
struct C {
    volume: *mut c_void,
    file: *mut c_void,
    view: *mut c_void,
}

fn done(result: i64) -> Result<i64> {
    if result < 0 {
        // SAFETY: the text is the library's, and is copied at once.
        let said = unsafe { CStr::from_ptr(weft_error_message()) };
        bail!("{}", said.to_string_lossy());
    }
    Ok(result)
}

impl C {
    fn open(folder: &str) -> Result<C> {
        let (folder, path) = (CString::new(folder)?, CString::new("/file")?);
        let connect = ConnectOptions {
            size: size_of::<ConnectOptions>(),
            folder: folder.as_ptr(),
            others: [0; 6],
        };
        let attach = AttachOptions {
            size: size_of::<AttachOptions>(),
            flags: READ_WRITE,
            others: [0; 3],
        };
        let mut c = C {
            volume: ptr::null_mut(),
            file: ptr::null_mut(),
            view: ptr::null_mut(),
        };
        // SAFETY: as the header asks.
        unsafe {
            done(weft_connect(&raw const connect, &raw mut c.volume).into())?;
            let (options, file) = (&raw const attach, &raw mut c.file);
            done(weft_attach(c.volume, path.as_ptr(), options, file).into())?;
            done(weft_view_file(c.file, ptr::null(), &raw mut c.view).into())?;
        }
        Ok(c)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (first, length) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: as the header asks.
        let moved = done(unsafe { weft_read_at(self.view, first, length, offset) })?;
        ensure!(u64::try_from(moved)? == length as u64, "{moved} bytes");
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        // SAFETY: as the header asks.
        done(unsafe { weft_write_at(self.view, data.as_ptr(), data.len(), offset, 0) })?;
        Ok(())
    }
}

impl Drop for C {
    fn drop(&mut self) {
        // SAFETY: they are not used any more; a file that cannot be closed was measured.
        unsafe {
            weft_view_close(self.view);
            let _ = weft_file_close(self.file);
            weft_disconnect(self.volume);
        }
    }
}

/// A view from Rust, on a runtime like the library's own.
struct Rust {
    runtime: Runtime,
    view: OpenView,
}

impl Rust {
    fn open(running: &Running) -> Result<Rust> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let view = runtime.block_on(async {
            let volume = running.connect().await?;
            let access = Access::read_write().create(0o644);
            let file = volume.attach("/file", access).await?;
            anyhow::Ok(file.canonical()?.zeroed())
        })?;
        Ok(Rust { runtime, view })
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.view.read_at(ViewOffset(offset), buffer);
        self.runtime.block_on(read)?;
        Ok(())
    }

    /// A program in Rust hands its bytes over; one in C has them already, as has this one.
    fn write(&self, offset: u64, data: &Bytes) -> Result<()> {
        let write = self.view.write_at(ViewOffset(offset), data.clone());
        self.runtime.block_on(write)?;
        Ok(())
    }
}

pub(crate) fn run(setting: &Setting) -> Result<()> {
    let running = setting.volume(4, "640 MiB")?;
    let rust = Rust::open(&running)?;
    let c = C::open(&running.folder())?;
    for (bytes, calls) in CASES {
        let mut buffer = vec![1; bytes];
        let data = Bytes::from(vec![7; bytes]);
        // Both sides once, so that no run is the first to touch memory.
        each(calls, bytes, |at| rust.write(at, &data))?;
        each(calls, bytes, |at| c.write(at, &data))?;
        let (mut reads, mut writes) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for _ in 0..setting.runs {
            reads[0].push(each(calls, bytes, |at| rust.read(at, &mut buffer))?);
            reads[1].push(each(calls, bytes, |at| c.read(at, &mut buffer))?);
            writes[0].push(each(calls, bytes, |at| rust.write(at, &data))?);
            writes[1].push(each(calls, bytes, |at| c.write(at, &data))?);
        }
        for (what, [from_rust, from_c]) in [("read", reads), ("write", writes)] {
            let what = format!("{what} of {} KiB", bytes >> 10);
            show(&format!("rust: {what}"), "us", &from_rust);
            show(&format!("c: {what}"), "us", &from_c);
            let more = median(from_c) - median(from_rust);
            println!("{:<44} {more:>+9.1} us", "c costs more by (aim < 5)");
        }
    }
    Ok(())
}

/// Microseconds of each of these calls, one after the other through the file.
fn each(calls: u64, bytes: usize, mut call: impl FnMut(u64) -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    for number in 0..calls {
        call(number % 256 * bytes as u64)?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / calls as f64)
}
