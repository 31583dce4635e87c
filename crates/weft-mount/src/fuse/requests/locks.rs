//! Requests for locks.

use rustix::io::Errno;
use weft_client::{HeldLock, LockKind, LockOwner, LockRange};

use super::reply::{Reply, Result, argument};
use crate::fs::{FileSystem, FsError, LockWait};
use crate::fuse::device::Incoming;
use crate::fuse::device::abi::{self, FileLock, LkIn, opcode};

/// The kernel's largest offset: a lock up to it covers the file to its end, however long it grows.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// Carries out GETLK, SETLK and SETLKW.
pub(super) async fn lock(fs: &FileSystem, request: &Incoming) -> Result {
    let (ask, _) = argument::<LkIn>(request)?;
    let kind = kind(ask.lk.kind)?;
    let range = range(&ask);
    let owner = LockOwner {
        number: ask.owner,
        pid: ask.lk.pid,
    };
    if request.header.opcode == opcode::GETLK {
        let blocker = fs.test_lock(ask.fh, kind, range, owner).await?;
        return Ok(Reply::of(&reported(&ask.lk, blocker)));
    }
    let wait = if request.header.opcode == opcode::SETLKW {
        LockWait::UntilGranted
    } else {
        LockWait::No
    };
    fs.lock(ask.fh, kind, range, owner, wait).await?;
    Ok(Reply::Done)
}

fn kind(kind: u32) -> Result<LockKind> {
    match kind.cast_signed() {
        libc::F_RDLCK => Ok(LockKind::Shared),
        libc::F_WRLCK => Ok(LockKind::Exclusive),
        libc::F_UNLCK => Ok(LockKind::Unlock),
        _ => Err(FsError::refused(
            "the kind of lock is unknown",
            Errno::INVAL,
        )),
    }
}

fn range(ask: &LkIn) -> LockRange {
    if ask.lk_flags & abi::LK_FLOCK != 0 {
        return LockRange::Whole;
    }
    let last = match ask.lk.end {
        OFFSET_MAX.. => u64::MAX,
        last => last,
    };
    LockRange::Bytes {
        start: ask.lk.start,
        last,
    }
}

fn reported(asked: &FileLock, blocker: Option<HeldLock>) -> FileLock {
    let Some(blocker) = blocker else {
        return FileLock {
            kind: libc::F_UNLCK.cast_unsigned(),
            ..*asked
        };
    };
    let kind = match blocker.kind() {
        LockKind::Exclusive => libc::F_WRLCK,
        _ => libc::F_RDLCK,
    };
    FileLock {
        start: blocker.start.min(OFFSET_MAX),
        end: blocker.last.min(OFFSET_MAX),
        kind: kind.cast_unsigned(),
        pid: blocker.pid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(start: u64, end: u64, lk_flags: u32) -> LkIn {
        let lk = FileLock {
            start,
            end,
            ..FileLock::default()
        };
        LkIn {
            lk,
            lk_flags,
            ..LkIn::default()
        }
    }

    #[test]
    fn a_lock_to_the_end_is_unbounded_and_is_reported_with_the_kernels_largest_offset() {
        let bytes = |start, last| LockRange::Bytes { start, last };
        assert_eq!(range(&ask(5, 9, 0)), bytes(5, 9));
        assert_eq!(range(&ask(5, OFFSET_MAX, 0)), bytes(5, u64::MAX));
        assert_eq!(range(&ask(0, OFFSET_MAX, abi::LK_FLOCK)), LockRange::Whole);
        let held = HeldLock {
            kind: LockKind::Exclusive as i32,
            start: 5,
            last: u64::MAX,
            pid: 7,
            ..HeldLock::default()
        };
        let back = reported(&FileLock::default(), Some(held));
        assert_eq!((back.start, back.end, back.pid), (5, OFFSET_MAX, 7));
        assert_eq!(back.kind.cast_signed(), libc::F_WRLCK);
        assert_eq!(
            reported(&FileLock::default(), None).kind.cast_signed(),
            libc::F_UNLCK
        );
    }
}
