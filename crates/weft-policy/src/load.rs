#![allow(
    unsafe_code,
    reason = "a library runs code when it is loaded, and its table is that of another language"
)]
//! Loads a library and checks its table.

use std::ffi::{CStr, OsStr, c_char};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::plugin::{Plugin, text};
use crate::{VERSION, Values, abi, elf};

/// The most libraries that one process loads: each stays until its end, replaced or not.
pub const LIBRARIES_MAX: u32 = 256;
/// The largest library.
const LIBRARY_BYTES_MAX: u64 = 256 << 20;

static LOADED: AtomicU32 = AtomicU32::new(0);

/// Why a library is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum LoadError {
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("it is no shared library that can be loaded here: {0}")]
    NotLoadable(String),
    #[error("it has {found} bytes of {needed}: it is damaged, or still being copied")]
    Partial { found: u64, needed: u64 },
    #[error(
        "it has no function `weft_policy`: it is no policy, or its entry point is not exported"
    )]
    NoEntryPoint,
    #[error("its function `weft_policy` returned no table: it says that it cannot be used here")]
    NoTable,
    #[error(
        "it is of version {found} of the interface, and this client of version {VERSION}: build it with this client's weft_policy.h"
    )]
    Version { found: u32 },
    #[error("its table has {found} bytes, fewer than the {needed} of any legal one")]
    Short { found: u32, needed: usize },
    #[error("its policy is called {found:?}, and its file says {expected:?}")]
    Name { found: String, expected: String },
    #[error("its values are not legal: {0}")]
    Values(String),
    #[error("this process has loaded {LIBRARIES_MAX} policies; restart it to load more")]
    TooMany,
}

/// Loads a private copy of a library. Its constructors run.
pub(crate) fn load(file: File, expected: &str) -> Result<&'static Plugin, LoadError> {
    if LOADED.load(Ordering::Relaxed) >= LIBRARIES_MAX {
        return Err(LoadError::TooMany);
    }
    let copy = private_copy(file)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd()));
    // SAFETY: the folder's owner has put it there to be run in this process.
    let library = unsafe { Library::open(Some(path.as_os_str()), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|e| {
        let said = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
        LoadError::NotLoadable(said)
    })?;
    // The path is taken as long as the process lives.
    let _ = copy.into_raw_fd();
    LOADED.fetch_add(1, Ordering::Relaxed);
    // Never unloaded: whatever becomes of it, threads and destructors of it may be in use.
    let library = ManuallyDrop::new(library);
    // SAFETY: `weft_policy` has this type in every version of the interface.
    let entry =
        unsafe { library.get::<unsafe extern "C" fn() -> *const abi::Policy>(b"weft_policy\0") };
    let entry = entry.map_err(|_| LoadError::NoEntryPoint)?;
    // SAFETY: it takes nothing, and returns a table that stays, or NULL.
    let table = unsafe { entry() };
    // SAFETY: as the entry point says.
    unsafe { checked(table, expected) }.map(|plugin| &*Box::leak(Box::new(plugin)))
}

/// Copies a library into memory, so that what later happens to the file does not touch code that
/// runs. The descriptor stays open: the loader takes equal paths for equal libraries, and another
/// library must not have the same number.
fn private_copy(file: File) -> Result<File, LoadError> {
    let unreadable = |error: io::Error| LoadError::Unreadable(error.to_string());
    let mut bytes = Vec::new();
    let read = file.take(LIBRARY_BYTES_MAX + 1).read_to_end(&mut bytes);
    let found = read.map_err(unreadable)? as u64;
    if found > LIBRARY_BYTES_MAX {
        let most = LIBRARY_BYTES_MAX >> 20;
        return Err(LoadError::Unreadable(format!(
            "it is larger than {most} MiB"
        )));
    }
    let Some(needed) = elf::needed(&bytes) else {
        return Err(LoadError::NotLoadable("it is no ELF file".to_owned()));
    };
    if needed > found {
        return Err(LoadError::Partial { found, needed });
    }
    let copy = memfd_create("weft-policy", MemfdFlags::CLOEXEC);
    let mut copy = File::from(copy.map_err(|e| unreadable(e.into()))?);
    copy.write_all(&bytes).map_err(unreadable)?;
    Ok(copy)
}

/// Takes over a table.
///
/// # Safety
/// `table` is what `weft_policy` returned: NULL, or a table with its true size first.
unsafe fn checked(table: *const abi::Policy, expected: &str) -> Result<Plugin, LoadError> {
    if table.is_null() {
        return Err(LoadError::NoTable);
    }
    // SAFETY: size and version lead every table of every version.
    let (size, version) = unsafe {
        (
            (&raw const (*table).size).read(),
            (&raw const (*table).version).read(),
        )
    };
    if version != VERSION {
        return Err(LoadError::Version { found: version });
    }
    let needed = offset_of!(abi::Policy, pre_open);
    if (size as usize) < needed {
        return Err(LoadError::Short {
            found: size,
            needed,
        });
    }
    let mut own = MaybeUninit::<abi::Policy>::zeroed();
    let known = (size as usize).min(size_of::<abi::Policy>());
    // SAFETY: the table has `size` bytes; members beyond them are zeros, which are legal values of
    // all of them: no function, no text.
    let table = unsafe {
        std::ptr::copy_nonoverlapping(table.cast::<u8>(), own.as_mut_ptr().cast::<u8>(), known);
        own.assume_init()
    };
    if table.values.size as usize != size_of::<abi::Values>() {
        let found = table.values.size;
        return Err(LoadError::Values(format!("their size is {found}")));
    }
    // SAFETY: strings of a table end with a NUL, and stay.
    let (name, summary) = unsafe { (said(table.name), said(table.summary)) };
    if name != expected {
        return Err(LoadError::Name {
            found: name,
            expected: expected.to_owned(),
        });
    }
    let values = Values::of_abi(&table.values).map_err(LoadError::Values)?;
    Ok(Plugin::new(table, name, summary, values))
}

/// # Safety
/// `text` is NULL or ends with a NUL.
unsafe fn said(said: *const c_char) -> String {
    if said.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    text(unsafe { CStr::from_ptr(said) })
}

/// Whether this can be the name of a policy: it is a file's name and an attribute's value.
pub(crate) fn is_name(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(legal)
}

/// The policy's name that a file's name stands for.
pub(crate) fn name_of(file: &OsStr) -> Option<&str> {
    let name = file.to_str()?.strip_suffix(".so")?;
    is_name(name).then_some(name)
}
