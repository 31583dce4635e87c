//! Waiting for the end of a process. One that is ending lets go of its locks one by one: a node's own may be free while
//! those of its disks are still held, so whoever comes next waits for the process, not for a lock.

use std::io::ErrorKind;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Waits until a process has ended, or for so long; whether it has.
pub(crate) fn wait_for_end(pid: Pid, wait: Duration) -> bool {
    // Without such a handle there is no such process, or a kernel that has none: nothing to wait for.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let timeout = Timespec::try_from(wait).ok();
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    loop {
        match poll(&mut ends, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.is_ok_and(|n| n > 0),
        }
    }
}

/// Whether a process has begun to end: its memory is gone, and with it the way to its program.
pub(crate) fn is_ending(pid: Pid) -> bool {
    let program = format!("/proc/{}/exe", pid.as_raw_nonzero());
    std::fs::read_link(program).is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_waited_for_until_it_has_ended() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&cat);
        assert!(!is_ending(pid));
        assert!(!wait_for_end(pid, Duration::from_millis(20)));
        drop(cat.stdin.take());
        assert!(wait_for_end(pid, Duration::from_secs(10)));
        // Nobody has asked for its result yet.
        assert!(is_ending(pid));
        cat.wait().unwrap();
        assert!(wait_for_end(pid, Duration::from_secs(10)));
    }
}
