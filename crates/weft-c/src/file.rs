//! Attached files.

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;

use ::weft_layout::{CellIndex, FileOffset, Storage};
use weft_client::{Access, File, HeldLock, LockKind, LockOwner, LockRange, Locked, NewLayout};
use weft_ffi::{Failure, runtime};

use crate::arguments::{
    Owned, Versioned, bytes_of, copy_out, fill, give, handles, of, optional_text, options,
    slice_of, take, text_of,
};
use crate::attributes::{weft_attributes, written};
use crate::error::call;
use crate::request::{known, unused};
use crate::volume::weft_volume;

/// An attached file. Any thread may use it; views of it keep it attached.
pub struct weft_file(pub(crate) Owned<File>);

handles! {
    weft_file(File), "file";
}

/// In weft_attach_options.flags: the file will be read; so it is if no flag is given. A file that
/// is attached for writing can be read, too.
pub const WEFT_READ: u32 = 1;
/// In weft_attach_options.flags: the file will be written.
pub const WEFT_WRITE: u32 = 2;
/// In weft_attach_options.flags: create the file if it is not there.
pub const WEFT_CREATE: u32 = 4;
/// In weft_attach_options.flags, with WEFT_CREATE: fail with -EEXIST if it is there.
pub const WEFT_EXCLUSIVE: u32 = 8;
/// In weft_attach_options.flags: operations are cautious. Each is atomic, and all happen in one
/// order on all servers. Without it each server does its part when it arrives, which is faster.
pub const WEFT_CAUTIOUS: u32 = 16;
/// In weft_attach_options.flags: fail with -ELOOP if the path ends in a symbolic link.
pub const WEFT_NOFOLLOW: u32 = 32;

/// In weft_layout.storage: as the directory or the volume says.
pub const WEFT_STORAGE_DEFAULT: u32 = 0;
/// In weft_layout.storage: chunks are found by their place.
pub const WEFT_STORAGE_PLAIN: u32 = 1;
/// In weft_layout.storage: chunks are found by their contents, and stored once.
pub const WEFT_STORAGE_ADDRESSED: u32 = 2;

/// The layout of a new file. Set `size` to sizeof(weft_layout); what is 0 or NULL is as the
/// directory or the volume says.
#[repr(C)]
pub struct weft_layout {
    /// sizeof(weft_layout).
    pub size: usize,
    /// Bytes of a basic striping unit.
    pub bsu: u64,
    /// Cells.
    pub cells: u32,
    /// Bytes of a chunk, the unit in which servers store it.
    pub chunk: u32,
    /// Ids of the servers in order; cell i is on the one with index i modulo their number.
    pub servers: *const u32,
    /// How many `servers` there are.
    pub server_count: usize,
    /// A constant WEFT_STORAGE_*.
    pub storage: u32,
    /// Only servers with at least so many replicas.
    pub replicas: u32,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_layout {
    const NAME: &'static str = "weft_layout";
}

/// How to attach a file. Set `size` to sizeof(weft_attach_options), and what you do not use to 0.
#[repr(C)]
pub struct weft_attach_options {
    /// sizeof(weft_attach_options).
    pub size: usize,
    /// Constants WEFT_READ, WEFT_WRITE and so on, combined with |.
    pub flags: u32,
    /// Permission bits of a new file, such as 0644.
    pub mode: u32,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    pub umask: u32,
    /// 0.
    pub reserved: u32,
    /// Layout of a new file; NULL: as the directory or the volume says.
    pub layout: *const weft_layout,
    /// Consistency policy of this attachment, such as "session"; NULL: that of the file.
    pub policy: *const c_char,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_attach_options {
    const NAME: &'static str = "weft_attach_options";
}

const _: () = assert!(size_of::<weft_layout>() == 48 && size_of::<weft_attach_options>() == 40);

/// # Safety
/// The layout's servers are the caller's.
pub(crate) unsafe fn layout_of(layout: *const weft_layout) -> Result<NewLayout, Failure> {
    // SAFETY: the caller's.
    let layout = unsafe { options(layout) }?;
    // SAFETY: the caller's.
    let servers = unsafe { slice_of(layout.servers, layout.server_count, "list of servers") }?;
    Ok(NewLayout {
        cells: (layout.cells > 0).then_some(layout.cells),
        bsu: (layout.bsu > 0).then_some(layout.bsu),
        chunk: (layout.chunk > 0).then_some(layout.chunk),
        servers: servers.to_vec(),
        base: None,
        storage: match layout.storage {
            WEFT_STORAGE_DEFAULT => None,
            WEFT_STORAGE_PLAIN => Some(Storage::Plain),
            WEFT_STORAGE_ADDRESSED => Some(Storage::Addressed),
            other => {
                let message = format!("{other} is no storage: use a constant WEFT_STORAGE_*");
                return Err(Failure::invalid(message));
            }
        },
        replicas: (layout.replicas > 0).then_some(layout.replicas),
        parity: None,
    })
}

/// # Safety
/// `given` is NULL or as documented.
unsafe fn access_of(
    volume: &weft_client::Volume,
    given: *const weft_attach_options,
) -> Result<Access, Failure> {
    // SAFETY: the caller's.
    let given = unsafe { options(given) }?;
    let all = WEFT_READ | WEFT_WRITE | WEFT_CREATE | WEFT_EXCLUSIVE | WEFT_CAUTIOUS | WEFT_NOFOLLOW;
    unused(given.reserved, "weft_attach_options")?;
    let flags = known(given.flags, all)?;
    let has = |flag| flags & flag != 0;
    let mut access = match (has(WEFT_READ), has(WEFT_WRITE)) {
        (_, false) => Access::read(),
        (false, true) => Access::write(),
        (true, true) => Access::read_write(),
    };
    if has(WEFT_EXCLUSIVE) && !has(WEFT_CREATE) {
        return Err(Failure::invalid("WEFT_EXCLUSIVE needs WEFT_CREATE"));
    }
    if has(WEFT_CREATE) {
        access = if has(WEFT_EXCLUSIVE) {
            access.create_new(given.mode)
        } else {
            access.create(given.mode)
        };
        access = access.umask(given.umask);
        // SAFETY: the caller's.
        access = access.layout(&unsafe { layout_of(given.layout) }?);
    }
    if has(WEFT_CAUTIOUS) {
        access = access.cautious();
    }
    if has(WEFT_NOFOLLOW) {
        access = access.no_follow();
    }
    // SAFETY: the caller's.
    if let Some(name) = unsafe { optional_text(given.policy, "policy") }? {
        let policy = volume.policies().find(name);
        access = access.policy(policy.map_err(|e| Failure::invalid(e.to_string()))?);
    }
    Ok(access)
}

/// Attaches the file at a path from the volume's root and stores it in *file: one request to the
/// metadata service, however deep the path. `given` may be NULL for reading.
///
/// Returns 0, or a negative errno, as open(2) would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_attach(
    volume: *const weft_volume,
    path: *const c_char,
    given: *const weft_attach_options,
    file: *mut *mut weft_file,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let volume = unsafe { of(volume) }?;
        // SAFETY: the caller's.
        let (path, access) = unsafe { (bytes_of(path, "path")?, access_of(volume, given)?) };
        let attached = runtime()?.block_on(volume.attach(path, access))?;
        // SAFETY: the caller's.
        unsafe { give(attached, file) }?;
        Ok(0)
    })
}

/// Writes a description of an attached file into `buffer`, with which other processes adopt it: so
/// a whole job attaches a file by one request. Send it by whatever channel the processes have, such
/// as MPI_Bcast.
///
/// Returns its length, whether or not it fits into `room` bytes, or a negative errno. The process
/// that attached the file closes it last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_hand_over(
    file: *const weft_file,
    buffer: *mut c_void,
    room: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        let handed = file.hand_over();
        if file.writable() {
            // Others will write, too: closing asks the servers what came of it.
            file.note_written();
        }
        // SAFETY: the caller's.
        let buffer = unsafe { crate::arguments::buffer_of(buffer.cast(), room) }?;
        if let Some(to) = buffer.get_mut(..handed.len()) {
            to.copy_from_slice(&handed);
        }
        Ok(handed.len() as i64)
    })
}

/// Adopts a file that another process has attached and described, and stores it in *file. No
/// message. The volume must be the same one.
///
/// Returns 0, or a negative errno: -EINVAL if the bytes describe no file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_adopt(
    volume: *const weft_volume,
    handed: *const c_void,
    length: usize,
    file: *mut *mut weft_file,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let volume = unsafe { of(volume) }?;
        // SAFETY: the caller's.
        let handed = unsafe { slice_of(handed.cast(), length, "description") }?;
        let _context = runtime()?.enter();
        let adopted = volume.adopt(handed).map_err(|_| {
            Failure::invalid("these bytes do not describe a file that was handed over")
        })?;
        // SAFETY: the caller's.
        unsafe { give(adopted, file) }?;
        Ok(0)
    })
}

/// Closes a file and frees its handle, also when it fails. NULL is allowed.
///
/// What was written was acknowledged by its writes; closing reports the file's size, and writes out
/// what a policy has delayed. Returns 0, or a negative errno if some of that failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_close(file: *mut weft_file) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        if let Some(file) = unsafe { take(file) }? {
            runtime()?.block_on(file.close())?;
        }
        Ok(0)
    })
}

/// Waits until everything that was written to a file by this process survives power loss: one
/// request to each server that was written to.
///
/// Returns 0, or a negative errno. After a failure some of it is lost or may be: a later call that
/// succeeds does not make up for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_sync(file: *const weft_file) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        runtime()?.block_on(file.sync())?;
        Ok(0)
    })
}

/// Returns the size of a file in bytes, in canonical order, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_size(file: *const weft_file) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        Ok(runtime()?.block_on(file.size())? as i64)
    })
}

/// Makes a file `size` bytes long: what is beyond is gone, what is new is a hole. Returns 0, or a
/// negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_truncate(file: *const weft_file, size: u64) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        if !file.writable() {
            let message = format!("truncate {}: it is attached for reading only", file.path());
            return Err(Failure::new(libc::EBADF, message));
        }
        runtime()?.block_on(file.truncate(size))?;
        Ok(0)
    })
}

/// Makes a file at least `size` bytes long, and never shorter. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_extend(file: *const weft_file, size: u64) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        runtime()?.block_on(file.extend(size))?;
        Ok(0)
    })
}

/// Fills *attributes with what a file is now. Set its `size` before. Returns 0, or a negative
/// errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_stat(
    file: *const weft_file,
    attributes: *mut weft_attributes,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        let found = runtime()?.block_on(file.stat())?;
        // SAFETY: the caller's.
        unsafe { fill(attributes, &written(&found)) }?;
        Ok(0)
    })
}

/// Writes the name of the policy that a file is used with into `name`, "" if none: `room` - 1 bytes
/// of it at most, and a NUL. Returns the length of the whole name, or a negative errno: it was cut
/// if that is not below `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_policy(
    file: *const weft_file,
    name: *mut c_char,
    room: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let policy = unsafe { of(file) }?.policy();
        let text = policy.map_or_else(String::new, |policy| policy.to_string());
        // SAFETY: the caller's.
        unsafe { copy_out(text.as_bytes(), name, room) }
    })
}

/// Uses a file with another consistency policy from now on; NULL: without one. Local to this
/// attachment. Returns 0, or a negative errno: -EINVAL if there is no such policy, or the file
/// cannot have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_file_set_policy(
    file: *const weft_file,
    policy: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        // SAFETY: the caller's.
        let policy = match unsafe { optional_text(policy, "policy") }? {
            None => None,
            Some(name) => {
                let found = file.volume().policies().find(name);
                Some(found.map_err(|e| Failure::invalid(e.to_string()))?)
            }
        };
        let _context = runtime()?.enter();
        file.set_policy(policy)?;
        Ok(0)
    })
}

/// Copies `length` bytes, as far as `from` reaches, between files of one volume, by the servers
/// where they can. Offsets are in canonical order. Returns how many, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_copy(
    from: *const weft_file,
    from_offset: u64,
    to: *const weft_file,
    to_offset: u64,
    length: u64,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let (from, to) = unsafe { (of(from)?, of(to)?) };
        let (source, target) = (FileOffset(from_offset), FileOffset(to_offset));
        let copied = runtime()?.block_on(to.copy_range(from, source, target, length))?;
        Ok(copied as i64)
    })
}

/// Creates an empty fork in a cell of a file; it is no error if it is there. Returns 0, or a
/// negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_fork_create(
    file: *const weft_file,
    cell: u32,
    fork: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (file, fork) = unsafe { (of(file)?, text_of(fork, "fork")?) };
        runtime()?.block_on(file.create_fork(CellIndex(cell), fork))?;
        Ok(0)
    })
}

/// Removes a fork of a cell with its bytes. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_fork_remove(
    file: *const weft_file,
    cell: u32,
    fork: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (file, fork) = unsafe { (of(file)?, text_of(fork, "fork")?) };
        runtime()?.block_on(file.remove_fork(CellIndex(cell), fork))?;
        Ok(0)
    })
}

/// Calls `visit` for every fork of every cell of a file, in ascending order, with its cell, its
/// name and its size in bytes. It stops at the first call that does not return 0, and returns that.
///
/// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
/// may call this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_fork_list(
    file: *const weft_file,
    visit: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            cell: u32,
            fork: *const c_char,
            size: u64,
        ) -> c_int,
    >,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        let visit = visit.ok_or_else(|| Failure::invalid("the function is NULL"))?;
        for fork in runtime()?.block_on(file.forks())? {
            let name = std::ffi::CString::new(fork.fork.clone()).unwrap_or_default();
            // SAFETY: the caller's function.
            let went = unsafe { visit(context, fork.cell, name.as_ptr(), fork.length) };
            if went != 0 {
                return Ok(went);
            }
        }
        Ok(0)
    })
}

/// For weft_lock(): a lock that others may share.
pub const WEFT_LOCK_SHARED: u32 = 1;
/// For weft_lock(): a lock that excludes all others.
pub const WEFT_LOCK_EXCLUSIVE: u32 = 2;
/// For weft_lock(): wait until the lock can be granted.
pub const WEFT_LOCK_WAIT: u32 = 4;

/// Locks `length` bytes of a file from `offset` on, between all clients of the volume; 0 for
/// `length`: to the end, whatever it will be. `how` is WEFT_LOCK_SHARED or WEFT_LOCK_EXCLUSIVE,
/// with | WEFT_LOCK_WAIT to wait.
///
/// `owner` is any number that tells the holders of a process apart. Locks are advice: data can be
/// accessed without. Programs on mounts that use fcntl(2) see them.
///
/// Returns 0, or a negative errno: -EAGAIN if a lock is in the way, -EDEADLK, -ENOLCK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_lock(
    file: *const weft_file,
    offset: u64,
    length: u64,
    how: u32,
    owner: u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        let kind = match how & !WEFT_LOCK_WAIT {
            WEFT_LOCK_SHARED => LockKind::Shared,
            WEFT_LOCK_EXCLUSIVE => LockKind::Exclusive,
            _ => return Err(Failure::invalid("a lock is shared or exclusive")),
        };
        let wait = how & WEFT_LOCK_WAIT != 0;
        let locked = file.lock(kind, range_of(offset, length)?, owner_of(owner), wait);
        match runtime()?.block_on(locked)? {
            Locked::Granted => Ok(0),
            Locked::Held(holder) => Err(held(file, holder)),
            Locked::Deadlock => Err(Failure::new(
                libc::EDEADLK,
                format!("lock {}: its holder waits for this owner", file.path()),
            )),
            Locked::TooMany => Err(Failure::new(
                libc::ENOLCK,
                format!("lock {}: too many locks are held", file.path()),
            )),
        }
    })
}

/// Releases what an owner has locked of `length` bytes from `offset` on; it is no error if nothing
/// is. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_unlock(
    file: *const weft_file,
    offset: u64,
    length: u64,
    owner: u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let file = unsafe { of(file) }?;
        let released = file.unlock(range_of(offset, length)?, owner_of(owner));
        runtime()?.block_on(released)?;
        Ok(0)
    })
}

fn range_of(start: u64, length: u64) -> Result<LockRange, Failure> {
    let last = match length {
        0 => i64::MAX as u64,
        length => start
            .checked_add(length - 1)
            .filter(|last| i64::try_from(*last).is_ok())
            .ok_or_else(|| Failure::invalid("the range to lock is past the largest offset"))?,
    };
    Ok(LockRange::Bytes { start, last })
}

fn owner_of(number: u64) -> LockOwner {
    LockOwner {
        number,
        pid: std::process::id(),
    }
}

fn held(file: &File, holder: Option<HeldLock>) -> Failure {
    let by = holder.map_or_else(String::new, |lock| format!(" by process {}", lock.pid));
    Failure::new(
        libc::EAGAIN,
        format!("lock {}: it is locked{by}", file.path()),
    )
}
