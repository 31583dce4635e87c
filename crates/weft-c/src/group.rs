//! Groups, and collective calls.

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;
use std::sync::Arc;
use std::time::Duration;

use weft_client::{Collected, Group, Missing, Overlaps};
use weft_ffi::{Failure, Loans, data_of_transfer, runtime};
use weft_proto::limits::{GROUP_NAME_MAX, MEMBERS_MAX, WAIT_MAX};

use crate::arguments::{
    Owned, Versioned, buffer_of, give, handles, of, options, set, take, text_of,
};
use crate::error::call;
use crate::request::{WRITE_FLAGS, transfer_of, unused, weft_request};
use crate::view::{lends, weft_view};

/// A member's place in a group of processes or threads that make collective calls.
///
/// All members call collectives of a group in the same order, shared pointers with a group
/// included. A collective that fails counts, so that members stay in step. One thread at a time
/// uses a member.
pub struct weft_group(pub(crate) Owned<Group>);

handles! {
    weft_group(Group), "group";
}

/// In weft_group_options.missing: a collective fails for all if a member does not come.
pub const WEFT_MISSING_FAIL: u32 = 0;
/// In weft_group_options.missing: it is done without members that do not come.
pub const WEFT_MISSING_GO_ON: u32 = 1;
/// In weft_group_options.overlaps: a collective write is refused if members write the same bytes.
pub const WEFT_OVERLAPS_REFUSE: u32 = 0;
/// In weft_group_options.overlaps: the bytes of the member with the highest number stay.
pub const WEFT_OVERLAPS_MEMBER_ORDER: u32 = 1;

/// How a group works. Set `size` to sizeof(weft_group_options), and what you do not use to 0. All
/// members say the same.
#[repr(C)]
pub struct weft_group_options {
    /// sizeof(weft_group_options).
    pub size: usize,
    /// Number of the next collective; the one after it has the next number.
    pub sequence: u64,
    /// Milliseconds that a server waits after the first member's arrival, at most an hour; 0: 30 s.
    pub wait_ms: u32,
    /// A constant WEFT_MISSING_*.
    pub missing: u32,
    /// A constant WEFT_OVERLAPS_*.
    pub overlaps: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_group_options {
    const NAME: &'static str = "weft_group_options";
}

const _: () = assert!(size_of::<weft_group_options>() == 32);

/// The arguments of a collective. Where they are refused, the collective counts nevertheless: this
/// member stays in step.
fn or_skip<T>(group: &Group, arguments: Result<T, Failure>) -> Result<T, Failure> {
    arguments.inspect_err(|_| group.skip())
}

/// Makes member `member` (from 0) of a group of `members` and stores it in *group. No message:
/// members agree on the id by whatever channel they have.
///
/// `id` is 1 to 64 bytes that no other group uses at the same time, such as the job's id and a
/// number. There are at most 1024 members. `given` may be NULL.
///
/// Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_group_create(
    id: *const c_char,
    members: u32,
    member: u32,
    given: *const weft_group_options,
    group: *mut *mut weft_group,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let (id, given) = unsafe { (text_of(id, "group's id")?, options(given)?) };
        unused(given.reserved, "weft_group_options")?;
        if !(1..=GROUP_NAME_MAX).contains(&id.len()) {
            let message = format!(
                "a group's id has 1 to {GROUP_NAME_MAX} bytes, not {}",
                id.len()
            );
            return Err(Failure::invalid(message));
        }
        if member >= members || members > MEMBERS_MAX {
            return Err(Failure::invalid(format!(
                "there is no member {member} of {members}: a group has 1 to {MEMBERS_MAX}, numbered from 0"
            )));
        }
        if given.wait_ms > WAIT_MAX {
            return Err(Failure::invalid(format!(
                "a wait of {} ms is too long: an hour at most",
                given.wait_ms
            )));
        }
        let mut made = Group::new(id, members, member).sequence(given.sequence);
        if given.wait_ms > 0 {
            made = made.wait(Duration::from_millis(given.wait_ms.into()));
        }
        made = made.missing(match given.missing {
            WEFT_MISSING_FAIL => Missing::Fail,
            WEFT_MISSING_GO_ON => Missing::GoOn,
            _ => {
                return Err(Failure::invalid(
                    "missing must be a constant WEFT_MISSING_*",
                ));
            }
        });
        made = made.overlaps(match given.overlaps {
            WEFT_OVERLAPS_REFUSE => Overlaps::Refuse,
            WEFT_OVERLAPS_MEMBER_ORDER => Overlaps::MemberOrder,
            _ => {
                return Err(Failure::invalid(
                    "overlaps must be a constant WEFT_OVERLAPS_*",
                ));
            }
        });
        // SAFETY: the caller's.
        unsafe { give(made, group) }?;
        Ok(0)
    })
}

/// Frees a group's member. NULL is allowed. Operations that were posted with it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_group_free(group: *mut weft_group) {
    // SAFETY: the caller's.
    let _ = call(|| unsafe { take(group) }.map(|_| 0_i32));
}

/// Stores how many members were missing.
///
/// # Safety
/// `missing` is NULL or points to memory for it.
unsafe fn outcome(collected: &Collected, missing: *mut u32) -> Result<i64, Failure> {
    if !missing.is_null() {
        // SAFETY: the caller's.
        unsafe {
            set(
                missing,
                collected.missing.len() as u32,
                "number of missing members",
            )
        }?;
    }
    Ok(collected.bytes as i64)
}

/// Reads the bytes of this member's request while the other members read theirs: one request of
/// each member to each server, which reads its part of the file once for all.
///
/// Stores in *missing, unless it is NULL, how many members it was done without; always 0 with
/// WEFT_MISSING_FAIL. Returns how many bytes were moved for this member, or a negative errno: of
/// weft_read_request(), or -ETIMEDOUT naming the members that did not come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_collective_read(
    view: *const weft_view,
    group: *const weft_group,
    request: *const weft_request,
    buffer: *mut c_void,
    length: usize,
    missing: *mut u32,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let (view, group) = unsafe { (of(view)?, of(group)?) };
        // SAFETY: the caller's.
        let transfer = or_skip(group, unsafe { transfer_of(request, length, 0) })?;
        // SAFETY: the caller's.
        let buffer = or_skip(group, unsafe { buffer_of(buffer.cast(), length) })?;
        let collective = view.collective(group);
        let collected = runtime()?.block_on(collective.read(&transfer, buffer))?;
        // SAFETY: the caller's.
        unsafe { outcome(&collected, missing) }
    })
}

/// Writes the bytes of this member's request while the other members write theirs: one request of
/// each member to each server, which writes its part of the file in the order of the disk.
///
/// It returns when the bytes of all members are written: they survive the death of any process, and
/// with WEFT_SYNCED power loss. `missing` and what is returned are as of weft_collective_read().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_collective_write(
    view: *const weft_view,
    group: *const weft_group,
    request: *const weft_request,
    buffer: *const c_void,
    length: usize,
    missing: *mut u32,
) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let (view, group) = unsafe { (of(view)?, of(group)?) };
        // SAFETY: the caller's.
        let transfer = unsafe { transfer_of(request, length, WRITE_FLAGS) };
        let mut transfer = or_skip(group, transfer)?;
        let loans = Arc::new(Loans::default());
        let (memory, lend) = (buffer.cast(), lends(view));
        // SAFETY: the caller's; this returns after every loan has ended.
        let data = unsafe { data_of_transfer(&mut transfer, memory, length, lend, &loans) };
        let data = or_skip(group, data)?;
        let collective = view.collective(group);
        let collected = runtime()?.block_on(collective.write(&transfer, data));
        loans.wait();
        // SAFETY: the caller's.
        unsafe { outcome(&collected?, missing) }
    })
}
