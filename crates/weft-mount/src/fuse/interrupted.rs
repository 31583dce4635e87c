//! Requests whose program was interrupted: when to give one up, and what then becomes of it.
//!
//! The kernel tells of the first signal that its program gets, whatever it is, and lets it wait on;
//! what is local would neither hear of it nor fail. So a request is given up only for a program
//! that is killed, by whichever signal came later. What it has begun is carried to its end all the
//! same: whoever is left must see what was done.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use zerocopy::FromBytes;

use super::abi::{Dirent, EntryOut, OpenOut, opcode};
use super::operations::Answer;
use crate::fs::FileSystem;

/// How often it is looked whether an interrupted program was killed.
const LOOK: Duration = Duration::from_millis(100);
/// How long a request of a program that was killed may go on.
const LINGER: Duration = Duration::from_millis(400);
/// How long a request may go on whose program cannot be looked at: longer than calls wait for a
/// service that is away.
const UNKNOWN: Duration = Duration::from_secs(20);

/// What becomes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    GoesOn,
    Killed,
    Unknown,
}

/// Waits until a request of this thread is to be given up; for ever if that need not be.
pub(super) async fn given_up(interrupted: oneshot::Receiver<()>, number: u32, thread: u32) {
    // A sender that is gone without a word has been used already, or never will be.
    if interrupted.await.is_err() {
        return std::future::pending().await;
    }
    // A wait for a lock ends by nothing else.
    if number == opcode::SETLKW {
        return;
    }
    let began = Instant::now();
    loop {
        match fate(thread) {
            Fate::Killed => return sleep(LINGER).await,
            Fate::Unknown if began.elapsed() > UNKNOWN => return,
            Fate::Unknown | Fate::GoesOn => sleep(LOOK).await,
        }
    }
}

/// Whether what nobody waits for any more is carried to its end: all but locks, which are asked for
/// no longer.
pub(super) fn goes_on(number: u32) -> bool {
    !matches!(number, opcode::GETLK | opcode::SETLK | opcode::SETLKW)
}

fn fate(thread: u32) -> Fate {
    /// Thread numbers are those of this process's own namespace, and `/proc` may be of another.
    static OWN: OnceLock<bool> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let link = std::fs::read_link("/proc/self");
        link.is_ok_and(|link| link.as_os_str() == std::process::id().to_string().as_str())
    });
    if !own || thread == 0 {
        return Fate::Unknown;
    }
    match std::fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => parse(&status),
        Err(_) => Fate::Unknown,
    }
}

/// The kernel marks all threads of a program that is going to end with SIGKILL, whichever signal
/// ends it.
fn parse(status: &str) -> Fate {
    const KILL: u64 = 1 << (libc::SIGKILL - 1);
    let pending = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    match (pending("SigPnd:"), pending("ShdPnd:")) {
        (Some(own), Some(shared)) if (own | shared) & KILL != 0 => Fate::Killed,
        (Some(_), Some(_)) => Fate::GoesOn,
        _ => Fate::Unknown,
    }
}

/// Takes back what an answer gives out that nobody got: nodes that the kernel would forget, and
/// opens that it would release.
pub(super) async fn take_back(fs: &FileSystem, number: u32, answer: &Answer) {
    let Answer::Packed(bytes) = answer else {
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
    fn who_has_a_kill_pending_is_killed_and_nobody_else() {
        let status = |own: &str, shared: &str| {
            parse(&format!("Name:\tcat\nSigPnd:\t{own}\nShdPnd:\t{shared}\n"))
        };
        let (none, alarm, kill) = ("0000000000000000", "0000000000002000", "0000000000000100");
        assert_eq!(status(none, none), Fate::GoesOn);
        assert_eq!(status(none, alarm), Fate::GoesOn);
        assert_eq!(status(kill, none), Fate::Killed);
        assert_eq!(status(alarm, kill), Fate::Killed);
        assert_eq!(parse("Name:\tcat\n"), Fate::Unknown);
    }

    #[test]
    fn a_thread_that_cannot_be_looked_at_is_not_taken_for_killed() {
        assert_eq!(fate(0), Fate::Unknown);
        assert_eq!(fate(u32::MAX), Fate::Unknown);
        assert_eq!(fate(std::process::id()), Fate::GoesOn);
    }
}
