//! Names, attributes and extended attributes.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::size_of;

use weft_client::{Changes, NewMode, Time, XattrMode};
use weft_ffi::{Failure, runtime};

use crate::arguments::{Versioned, bytes_of, copy_out, fill, of, options, slice_of, text_of};
use crate::attributes::{weft_attributes, written};
use crate::error::call;
use crate::file::{layout_of, weft_layout};
use crate::request::known;
use crate::volume::weft_volume;

/// Fills *attributes with what a path names; of a symbolic link with what it leads to. Set `size`
/// before. Returns 0, or a negative errno, as stat(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stat(
    volume: *const weft_volume,
    path: *const c_char,
    attributes: *mut weft_attributes,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        let found = runtime()?.block_on(volume.stat(path))?;
        // SAFETY: the caller's.
        unsafe { fill(attributes, &written(&found)) }?;
        Ok(0)
    })
}

/// As weft_stat(), but of a symbolic link itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_lstat(
    volume: *const weft_volume,
    path: *const c_char,
    attributes: *mut weft_attributes,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        let found = runtime()?.block_on(volume.stat_link(path))?;
        // SAFETY: the caller's.
        unsafe { fill(attributes, &written(&found)) }?;
        Ok(0)
    })
}

/// Calls `visit` for every name in a directory, in the order of the names' bytes, without "." and
/// "..", with what it names. It stops at the first call that does not return 0, and returns that.
/// The length of a file that is being written is the one last reported.
///
/// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
/// may call this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_list(
    volume: *const weft_volume,
    path: *const c_char,
    visit: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            name: *const c_char,
            attributes: *const weft_attributes,
        ) -> c_int,
    >,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        let visit = visit.ok_or_else(|| Failure::invalid("the function is NULL"))?;
        let mut listing = volume.list(path);
        loop {
            let page = runtime()?.block_on(listing.page())?;
            if page.is_empty() {
                return Ok(0);
            }
            for entry in page {
                let name = CString::new(entry.name.to_vec()).unwrap_or_default();
                let attributes = written(&entry.attributes);
                // SAFETY: the caller's function.
                let went = unsafe { visit(context, name.as_ptr(), &raw const attributes) };
                if went != 0 {
                    return Ok(went);
                }
            }
        }
    })
}

/// Makes a directory with these permission bits. Returns 0, or a negative errno, as mkdir(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mkdir(
    volume: *const weft_volume,
    path: *const c_char,
    mode: u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        runtime()?.block_on(volume.make_directory(path, NewMode::from(mode)))?;
        Ok(0)
    })
}

/// Removes an empty directory. Returns 0, or a negative errno, as rmdir(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_rmdir(volume: *const weft_volume, path: *const c_char) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        runtime()?.block_on(volume.remove_directory(path))?;
        Ok(0)
    })
}

/// Removes a name of a file. Returns 0, or a negative errno, as unlink(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_unlink(volume: *const weft_volume, path: *const c_char) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        runtime()?.block_on(volume.unlink(path))?;
        Ok(0)
    })
}

/// For weft_rename(): fail with -EEXIST if the new name is there.
pub const WEFT_RENAME_NEW: u32 = 1;
/// For weft_rename(): exchange both names.
pub const WEFT_RENAME_EXCHANGE: u32 = 2;

/// Renames a file or directory, atomically; what had the new name is gone. `flags` is 0,
/// WEFT_RENAME_NEW or WEFT_RENAME_EXCHANGE. Returns 0, or a negative errno, as rename(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_rename(
    volume: *const weft_volume,
    from: *const c_char,
    to: *const c_char,
    flags: u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let volume = unsafe { of(volume) }?;
        // SAFETY: the caller's.
        let (from, to) = unsafe { (bytes_of(from, "path")?, bytes_of(to, "new path")?) };
        let runtime = runtime()?;
        match known(flags, WEFT_RENAME_NEW | WEFT_RENAME_EXCHANGE)? {
            0 => drop(runtime.block_on(volume.rename(from, to))?),
            WEFT_RENAME_NEW => drop(runtime.block_on(volume.rename_new(from, to))?),
            WEFT_RENAME_EXCHANGE => drop(runtime.block_on(volume.exchange(from, to))?),
            _ => return Err(Failure::invalid("a name is new, or exchanged, not both")),
        }
        Ok(0)
    })
}

/// Gives a file one more name. Returns 0, or a negative errno, as link(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_link(
    volume: *const weft_volume,
    file: *const c_char,
    name: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let volume = unsafe { of(volume) }?;
        // SAFETY: the caller's.
        let (file, name) = unsafe { (bytes_of(file, "path")?, bytes_of(name, "new path")?) };
        runtime()?.block_on(volume.link(file, name))?;
        Ok(0)
    })
}

/// Makes a symbolic link that leads to `target`. Returns 0, or a negative errno, as symlink(2)
/// would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_symlink(
    volume: *const weft_volume,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let volume = unsafe { of(volume) }?;
        // SAFETY: the caller's.
        let (target, path) = unsafe { (bytes_of(target, "target")?, bytes_of(path, "path")?) };
        runtime()?.block_on(volume.make_link(path, target))?;
        Ok(0)
    })
}

/// Writes where a symbolic link leads into `target`: `room` - 1 bytes of it at most, and a NUL.
/// Returns the length of the whole, or a negative errno: it was cut if that is not below `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_readlink(
    volume: *const weft_volume,
    path: *const c_char,
    target: *mut c_char,
    room: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        let found = runtime()?.block_on(volume.read_link(path))?;
        // SAFETY: the caller's.
        unsafe { copy_out(&found, target, room) }
    })
}

/// Makes the file at a path `length` bytes long. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_truncate(
    volume: *const weft_volume,
    path: *const c_char,
    length: u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        runtime()?.block_on(volume.truncate(path, length))?;
        Ok(0)
    })
}

/// In weft_changes.fields: change `mode`.
pub const WEFT_SET_MODE: u32 = 1;
/// In weft_changes.fields: change `uid`.
pub const WEFT_SET_UID: u32 = 2;
/// In weft_changes.fields: change `gid`.
pub const WEFT_SET_GID: u32 = 4;
/// In weft_changes.fields: change `accessed`.
pub const WEFT_SET_ACCESSED: u32 = 8;
/// In weft_changes.fields: change `modified`.
pub const WEFT_SET_MODIFIED: u32 = 16;
/// In weft_changes.fields: change the layout that a directory gives to new files.
pub const WEFT_SET_LAYOUT: u32 = 32;
/// In weft_changes.fields: change the consistency policy.
pub const WEFT_SET_POLICY: u32 = 64;

/// In weft_changes.accessed and weft_changes.modified: the time of the metadata service.
pub const WEFT_TIME_NOW: i64 = i64::MIN;

/// Changes of attributes. Set `size` to sizeof(weft_changes), and what you do not use to 0.
#[repr(C)]
pub struct weft_changes {
    /// sizeof(weft_changes).
    pub size: usize,
    /// What to change: constants WEFT_SET_*, combined with |.
    pub fields: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access, nanoseconds since 1970, or WEFT_TIME_NOW.
    pub accessed: i64,
    /// Last modification, likewise.
    pub modified: i64,
    /// Layout for new files of a directory.
    pub layout: *const weft_layout,
    /// Name of a consistency policy; NULL: none from now on.
    pub policy: *const c_char,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_changes {
    const NAME: &'static str = "weft_changes";
}

const _: () = assert!(size_of::<weft_changes>() == 56);

/// Changes attributes of what a path names. Returns 0, or a negative errno, as chmod(2), chown(2)
/// and utimensat(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_set_attributes(
    volume: *const weft_volume,
    path: *const c_char,
    changes: *const weft_changes,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        if changes.is_null() {
            return Err(Failure::invalid("the weft_changes is NULL"));
        }
        // SAFETY: the caller's.
        let changes = unsafe { options(changes) }?;
        let all = WEFT_SET_POLICY * 2 - 1;
        let fields = known(changes.fields, all)?;
        let has = |field| fields & field != 0;
        let time = |nanos| match nanos {
            WEFT_TIME_NOW => Time::Now,
            nanos => Time::Nanos(nanos),
        };
        let mut wanted = Changes {
            mode: has(WEFT_SET_MODE).then_some(changes.mode),
            uid: has(WEFT_SET_UID).then_some(changes.uid),
            gid: has(WEFT_SET_GID).then_some(changes.gid),
            accessed: has(WEFT_SET_ACCESSED).then(|| time(changes.accessed)),
            modified: has(WEFT_SET_MODIFIED).then(|| time(changes.modified)),
            ..Changes::default()
        };
        if has(WEFT_SET_LAYOUT) {
            // SAFETY: the caller's.
            wanted.layout = Some(unsafe { layout_of(changes.layout) }?);
        }
        if has(WEFT_SET_POLICY) {
            // SAFETY: the caller's.
            let name = unsafe { crate::arguments::optional_text(changes.policy, "policy") }?;
            let find = |name| volume.policies().find(name);
            let found = name.map(find).transpose();
            wanted.policy = Some(found.map_err(|e| Failure::invalid(e.to_string()))?);
        }
        runtime()?.block_on(volume.set_attributes(path, &wanted))?;
        Ok(0)
    })
}

/// Writes the value of an extended attribute, such as "user.note", into `value`, if it fits into
/// `room` bytes. Returns its length in either case, or a negative errno: -ENODATA if it is not
/// there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_xattr_get(
    volume: *const weft_volume,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    room: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        // SAFETY: the caller's.
        let name = unsafe { text_of(name, "attribute's name") }?;
        let found = runtime()?.block_on(volume.get_xattr(path, name))?;
        // SAFETY: the caller's.
        let value = unsafe { crate::arguments::buffer_of(value.cast(), room) }?;
        if let Some(to) = value.get_mut(..found.len()) {
            to.copy_from_slice(&found);
        }
        Ok(found.len() as i64)
    })
}

/// For weft_xattr_set(): fail with -EEXIST if the attribute is there.
pub const WEFT_XATTR_CREATE: u32 = 1;
/// For weft_xattr_set(): fail with -ENODATA if the attribute is not there.
pub const WEFT_XATTR_REPLACE: u32 = 2;

/// Sets an extended attribute to `length` bytes. `flags` is 0, WEFT_XATTR_CREATE or
/// WEFT_XATTR_REPLACE. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_xattr_set(
    volume: *const weft_volume,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    length: usize,
    flags: u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        // SAFETY: the caller's.
        let name = unsafe { text_of(name, "attribute's name") }?;
        // SAFETY: the caller's.
        let value = unsafe { slice_of(value.cast::<u8>(), length, "value") }?;
        let mode = match known(flags, WEFT_XATTR_CREATE | WEFT_XATTR_REPLACE)? {
            0 => XattrMode::Either,
            WEFT_XATTR_CREATE => XattrMode::Create,
            WEFT_XATTR_REPLACE => XattrMode::Replace,
            _ => {
                return Err(Failure::invalid(
                    "an attribute is created or replaced, not both",
                ));
            }
        };
        runtime()?.block_on(volume.set_xattr_with(path, name, value, mode))?;
        Ok(0)
    })
}

/// Removes an extended attribute. Returns 0, or a negative errno: -ENODATA if it is not there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_xattr_remove(
    volume: *const weft_volume,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        // SAFETY: the caller's.
        let name = unsafe { text_of(name, "attribute's name") }?;
        runtime()?.block_on(volume.remove_xattr(path, name))?;
        Ok(0)
    })
}

/// Writes the names of all extended attributes into `names`, each with a NUL behind it, if they fit
/// into `room` bytes. Returns their bytes in either case, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_xattr_list(
    volume: *const weft_volume,
    path: *const c_char,
    names: *mut c_char,
    room: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let (volume, path) = unsafe { (of(volume)?, bytes_of(path, "path")?) };
        let found = runtime()?.block_on(volume.list_xattr(path))?;
        let mut all = Vec::new();
        for name in found {
            all.extend_from_slice(&name);
            all.push(0);
        }
        // SAFETY: the caller's.
        let names = unsafe { crate::arguments::buffer_of(names.cast(), room) }?;
        if let Some(to) = names.get_mut(..all.len()) {
            to.copy_from_slice(&all);
        }
        Ok(all.len() as i64)
    })
}
