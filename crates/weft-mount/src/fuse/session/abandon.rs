//! When to abandon the request of an interrupted program, and what happens to its result.
//!
//! The kernel reports the first signal that the program gets, whichever it is, and lets it wait on;
//! on a local file system the program would neither notice the signal nor fail. So a request is
//! abandoned only for a program that is being killed, by that signal or a later one. What the
//! request has started still runs to its end, because other programs must see its effects.

use std::sync::OnceLock;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use zerocopy::FromBytes;

use crate::fs::FileSystem;
use crate::fuse::device::abi::{Dirent, EntryOut, OpenOut, opcode};
use crate::fuse::requests::Reply;
use crate::limits::{KILL_POLL_INTERVAL, KILLED_GRACE, UNKNOWN_PROGRAM_TIMEOUT};

/// The fate of an interrupted program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Running,
    Killed,
    Unknown,
}

/// Waits until a request of this thread is to be abandoned; for ever if it is not.
pub(super) async fn abandoned(interrupted: oneshot::Receiver<()>, number: u32, thread: u32) {
    // A sender that is dropped unused has fired already, or never will.
    if interrupted.await.is_err() {
        return std::future::pending().await;
    }
    // Only an interrupt ends a wait for a lock.
    if number == opcode::SETLKW {
        return;
    }
    let began = Instant::now();
    loop {
        match fate(thread) {
            Fate::Killed => return sleep(KILLED_GRACE).await,
            Fate::Unknown if began.elapsed() > UNKNOWN_PROGRAM_TIMEOUT => return,
            Fate::Unknown | Fate::Running => sleep(KILL_POLL_INTERVAL).await,
        }
    }
}

/// Whether an abandoned request runs to its end: all but requests for locks, which are cancelled.
pub(super) fn runs_to_its_end(number: u32) -> bool {
    !matches!(number, opcode::GETLK | opcode::SETLK | opcode::SETLKW)
}

fn fate(thread: u32) -> Fate {
    /// Thread numbers are of this process's PID namespace; `/proc` may show another's.
    static SAME_NAMESPACE: OnceLock<bool> = OnceLock::new();
    let same_namespace = SAME_NAMESPACE.get_or_init(|| {
        let link = std::fs::read_link("/proc/self");
        link.is_ok_and(|link| link.as_os_str() == std::process::id().to_string().as_str())
    });
    if !same_namespace || thread == 0 {
        return Fate::Unknown;
    }
    match std::fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => parse(&status),
        Err(_) => Fate::Unknown,
    }
}

/// The kernel marks all threads of a program that is about to end with SIGKILL, whichever signal
/// ends it.
fn parse(status: &str) -> Fate {
    const KILL: u64 = 1 << (libc::SIGKILL - 1);
    let pending = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    match (pending("SigPnd:"), pending("ShdPnd:")) {
        (Some(thread), Some(shared)) if (thread | shared) & KILL != 0 => Fate::Killed,
        (Some(_), Some(_)) => Fate::Running,
        _ => Fate::Unknown,
    }
}

/// Undoes what the reply of an abandoned request hands out: the kernel would have to forget its
/// nodes and release its opens.
pub(super) async fn undo(fs: &FileSystem, number: u32, reply: &Reply) {
    let Reply::Packed(bytes) = reply else {
        return;
    };
    let forget = |bytes: &[u8]| {
        if let Ok((entry, _)) = EntryOut::read_from_prefix(bytes)
            && entry.nodeid != 0
        {
            fs.forget(entry.nodeid, 1);
        }
    };
    let opened = |bytes: &[u8]| {
        let opened = OpenOut::read_from_prefix(bytes).ok();
        opened.map(|(opened, _)| opened.fh)
    };
    match number {
        opcode::LOOKUP | opcode::MKNOD | opcode::MKDIR | opcode::SYMLINK | opcode::LINK => {
            forget(bytes);
        }
        opcode::CREATE => {
            if let Some(handle) = bytes.get(size_of::<EntryOut>()..).and_then(opened) {
                fs.release(handle).await;
            }
            forget(bytes);
        }
        opcode::OPEN => {
            if let Some(handle) = opened(bytes) {
                fs.release(handle).await;
            }
        }
        opcode::OPENDIR => {
            if let Some(handle) = opened(bytes) {
                fs.release_directory(handle);
            }
        }
        opcode::READDIRPLUS => {
            let mut rest = &bytes[..];
            while let Some(length) = listed(rest) {
                forget(rest);
                rest = rest.get(length..).unwrap_or_default();
            }
        }
        _ => {}
    }
}

/// The length of the first entry of a listing.
fn listed(bytes: &[u8]) -> Option<usize> {
    let (dirent, _) = Dirent::read_from_prefix(bytes.get(size_of::<EntryOut>()..)?).ok()?;
    let head = size_of::<EntryOut>() + size_of::<Dirent>();
    Some((head + dirent.namelen as usize).next_multiple_of(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_with_a_pending_kill_is_killed() {
        let status = |thread: &str, shared: &str| {
            parse(&format!(
                "Name:\tcat\nSigPnd:\t{thread}\nShdPnd:\t{shared}\n"
            ))
        };
        let (none, alarm, kill) = ("0000000000000000", "0000000000002000", "0000000000000100");
        assert_eq!(status(none, none), Fate::Running);
        assert_eq!(status(none, alarm), Fate::Running);
        assert_eq!(status(kill, none), Fate::Killed);
        assert_eq!(status(alarm, kill), Fate::Killed);
        assert_eq!(parse("Name:\tcat\n"), Fate::Unknown);
    }

    #[test]
    fn a_thread_that_cannot_be_inspected_does_not_count_as_killed() {
        assert_eq!(fate(0), Fate::Unknown);
        assert_eq!(fate(u32::MAX), Fate::Unknown);
        assert_eq!(fate(std::process::id()), Fate::Running);
    }
}
