//! Waiting for the end of a process. An ending process releases its locks one by one: the lock of a
//! node may be free while those of its disks are still held. So the next process waits until the
//! process has ended, not for a lock.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, test_kill_process};

use crate::limits::PROCESS_POLL_INTERVAL;

/// Waits until a process has ended, but no longer than `wait`. Returns whether it has.
pub(crate) fn wait_for_end(pid: Pid, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        // There is no such process, or the kernel has no process handles.
        while test_kill_process(pid).is_ok() {
            if Instant::now() > deadline {
                return false;
            }
            sleep(PROCESS_POLL_INTERVAL);
        }
        return true;
    };
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut ends, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.is_ok_and(|n| n > 0),
        }
    }
}

/// Bit of a process's flags: it is ending (`PF_EXITING`).
const EXITING: u64 = 4;

/// Whether a process has begun to end, or will as soon as it gets a processor.
pub(crate) fn is_ending(pid: Pid) -> bool {
    let read = |name| std::fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
    // Asked before the flags: the signal goes when they are set.
    let killed = read("status").is_ok_and(|status| is_killed(&status));
    // Behind the name, which may hold anything: state, then five others, flags.
    let flags = read("stat").ok().and_then(|stat| {
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(6)?.parse::<u64>().ok()
    });
    killed || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// SIGKILL in a set of signals.
const KILL: u64 = 1 << (Signal::KILL.as_raw() - 1);

/// Whether SIGKILL is pending, by the text of `/proc/PID/status`.
fn is_killed(status: &str) -> bool {
    let mut lines = status.lines();
    lines.any(|line| {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let pending = u64::from_str_radix(value.trim(), 16).unwrap_or(0);
        matches!(name, "SigPnd" | "ShdPnd") && pending & KILL != 0
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_killed_process_ends_before_it_runs_again() {
        // On one processor with the killer, so that it cannot run between the two calls.
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &cpus).unwrap();
        for _ in 0..20 {
            let mut busy = Command::new("sh");
            let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
            sleep(Duration::from_millis(5));
            let pid = Pid::from_child(&busy);
            assert!(!is_ending(pid));
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
            assert!(is_ending(pid));
            busy.wait().unwrap();
        }
    }

    #[test]
    fn waiting_ends_when_the_process_has_ended() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&cat);
        assert!(!is_ending(pid));
        assert!(!wait_for_end(pid, Duration::from_millis(20)));
        drop(cat.stdin.take());
        assert!(wait_for_end(pid, Duration::from_secs(10)));
        // The parent has not collected the exit status yet.
        assert!(is_ending(pid));
        cat.wait().unwrap();
        assert!(wait_for_end(pid, Duration::from_secs(10)));
    }
}
