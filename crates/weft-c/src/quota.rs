//! Quotas of users, groups and directory trees.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::size_of;

use weft_client::{NewBounds, Payer, Place, Quota, QuotaKind};
use weft_ffi::{Failure, runtime};

use crate::arguments::{Versioned, bytes_of, of};
use crate::error::call;
use crate::volume::weft_volume;

/// For quotas: a user.
pub const WEFT_QUOTA_USER: u32 = 1;
/// For quotas: a group.
pub const WEFT_QUOTA_GROUP: u32 = 2;
/// For quotas: a directory and what lies below it.
pub const WEFT_QUOTA_TREE: u32 = 3;

/// For quotas: no bound.
pub const WEFT_UNBOUNDED: u64 = u64::MAX;

/// A user, group or tree with what it uses and may use.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_quota {
    /// sizeof(weft_quota).
    pub size: usize,
    /// A constant WEFT_QUOTA_*.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// User or group; of a tree the directory's id.
    pub id: u64,
    /// Bytes of regular files, holes included.
    pub bytes: u64,
    /// Files, directories and other inodes.
    pub files: u64,
    /// The most bytes, or WEFT_UNBOUNDED.
    pub bytes_max: u64,
    /// The most files, or WEFT_UNBOUNDED.
    pub files_max: u64,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_quota {
    const NAME: &'static str = "weft_quota";
}

fn written(found: &Quota) -> weft_quota {
    weft_quota {
        size: size_of::<weft_quota>(),
        kind: match found.kind {
            QuotaKind::User => WEFT_QUOTA_USER,
            QuotaKind::Group => WEFT_QUOTA_GROUP,
            _ => WEFT_QUOTA_TREE,
        },
        reserved: 0,
        id: found.id,
        bytes: found.bytes,
        files: found.files,
        bytes_max: found.bytes_max.unwrap_or(WEFT_UNBOUNDED),
        files_max: found.files_max.unwrap_or(WEFT_UNBOUNDED),
    }
}

/// # Safety
/// `path` is NULL or ends with NUL.
unsafe fn payer(kind: u32, id: u32, path: *const c_char) -> Result<Payer, Failure> {
    match kind {
        WEFT_QUOTA_USER => Ok(Payer::User(id)),
        WEFT_QUOTA_GROUP => Ok(Payer::Group(id)),
        // SAFETY: the caller's.
        WEFT_QUOTA_TREE => Ok(Payer::Tree(Place::from(unsafe { bytes_of(path, "path") }?))),
        other => Err(Failure::invalid(format!(
            "{other} is no kind of quota: use a constant WEFT_QUOTA_*"
        ))),
    }
}

/// Bounds what a user, a group or a tree may use. `kind` is a constant WEFT_QUOTA_*, with `id` the
/// user or group, or `path` the directory. Either bound may be WEFT_UNBOUNDED.
///
/// Returns 0, or a negative errno: -EPERM unless the caller is root.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_quota_set(
    volume: *const weft_volume,
    kind: u32,
    id: u32,
    path: *const c_char,
    bytes_max: u64,
    files_max: u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, payer) = unsafe { (of(volume)?, payer(kind, id, path)?) };
        let bound = |most| Some((most != WEFT_UNBOUNDED).then_some(most));
        let bounds = NewBounds {
            bytes: bound(bytes_max),
            files: bound(files_max),
        };
        runtime()?.block_on(volume.set_quota(&payer, bounds))?;
        Ok(0)
    })
}

/// Ends the quota of a user, a group or a tree, named as for weft_quota_set(). Returns 0, or a
/// negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_quota_clear(
    volume: *const weft_volume,
    kind: u32,
    id: u32,
    path: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (volume, payer) = unsafe { (of(volume)?, payer(kind, id, path)?) };
        runtime()?.block_on(volume.clear_quota(&payer))?;
        Ok(0)
    })
}

/// Calls `visit` for every quota of the volume, with the path of a tree, else "". It stops at the
/// first call that does not return 0, and returns that.
///
/// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
/// may call this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_quota_list(
    volume: *const weft_volume,
    visit: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            path: *const c_char,
            quota: *const weft_quota,
        ) -> c_int,
    >,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let volume = unsafe { of(volume) }?;
        let visit = visit.ok_or_else(|| Failure::invalid("the function is NULL"))?;
        for found in runtime()?.block_on(volume.quotas())? {
            let path = CString::new(found.path.clone()).unwrap_or_default();
            let found = written(&found);
            // SAFETY: the caller's function.
            let went = unsafe { visit(context, path.as_ptr(), &raw const found) };
            if went != 0 {
                return Ok(went);
            }
        }
        Ok(0)
    })
}
