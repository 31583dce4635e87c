//! Commands beside a mount whose process is stopped: none of them waits forever.

mod mount_support;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mount_support::{Mounted, weft_ok};
use rustix::process::{Pid, Signal, kill_process};

/// A process that is stopped, until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: i32) -> Stopped {
        let pid = Pid::from_raw(pid).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// Runs a command, which may take 15 seconds. Returns whether it succeeded, and its messages.
fn soon(arguments: &[&str]) -> (bool, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(15);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("weft {arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut words = String::new();
    let mut error = child.stderr.take().unwrap();
    error.read_to_string(&mut words).unwrap();
    (child.wait().is_ok_and(|status| status.success()), words)
}

#[test]
fn unmount_and_down_report_a_stopped_mount() {
    let Some(m) = Mounted::new() else { return };
    let (path, volume) = (m.path.to_str().unwrap(), m.volume.to_str().unwrap());
    fs::write(m.file("f"), b"written").unwrap();
    let pid = m.process();
    let stopped = Stopped::new(pid);
    let named = format!("process {pid} is stopped");
    for command in [
        &["unmount", path][..],
        &["down", volume],
        &["--volume", volume, "mount", path],
        &["up", volume, "--mount", path],
    ] {
        let (done, words) = soon(command);
        assert!(!done, "weft {command:?}");
        assert!(words.contains(path), "weft {command:?}: {words}");
        let says = words.contains(&named)
            || words.contains("does not respond")
            || words.contains("weft unmount");
        assert!(says, "weft {command:?}: {words}");
    }
    let (_, words) = soon(&["unmount", path]);
    assert!(
        words.contains(&named) && words.contains("--lazy"),
        "{words}"
    );
    let began = Instant::now();
    let (_, words) = soon(&["down", volume]);
    assert!(words.contains(&named), "{words}");
    assert!(words.contains(&format!("kill -CONT {pid}")), "{words}");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "the command does not wait for the mount"
    );
    drop(stopped);
    assert_eq!(fs::read(m.file("f")).unwrap(), b"written");
    weft_ok(&["unmount", path]);
    weft_ok(&["down", volume]);
}

#[test]
fn down_refuses_a_stopped_mount_and_works_once_it_is_detached() {
    let Some(m) = Mounted::new() else { return };
    let (path, volume) = (m.path.to_str().unwrap(), m.volume.to_str().unwrap());
    m.unmount();
    weft_ok(&["up", volume, "--mount", path]);
    let pid = m.process();
    let stopped = Stopped::new(pid);
    let (done, words) = soon(&["down", volume]);
    assert!(
        !done && words.contains(&format!("process {pid} is stopped")),
        "{words}"
    );
    let (done, words) = soon(&["unmount", "--lazy", path]);
    assert!(done && words.contains("not sent"), "{words}");
    drop(stopped);
    let (done, words) = soon(&["down", volume]);
    assert!(done, "{words}");
}
