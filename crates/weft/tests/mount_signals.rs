//! Programs that get signals while they wait for an unresponsive volume.

mod mount_support;

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mount_support::{Mounted, sh, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Stops processes, or continues them.
fn stop(pids: &[i32], still: bool) {
    for pid in pids {
        let signal = if still { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_raw(*pid).unwrap(), signal).unwrap();
    }
}

/// Whether a process is in a call that a mount has not answered yet, if the kernel shows it.
fn waits_for_the_mount(child: &Child) -> bool {
    let place = fs::read_to_string(format!("/proc/{}/wchan", child.id()));
    place.is_ok_and(|place| place.contains("request_wait_answer"))
}

/// Gets a signal every 50 milliseconds, like programs with timers, and expects no call to fail
/// because of it.
const PROGRAM: &str = "
import os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
print('ready', flush=True)
sys.stdin.readline()
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
what = sys.argv[1]
if what == 'chmod': os.chmod('f', 0o604)
elif what == 'stat': assert os.stat('d/there').st_size == 7
elif what == 'rename': os.rename('old', 'new')
elif what == 'append':
    file = os.open('log', os.O_WRONLY | os.O_APPEND)
    assert os.write(file, b'whole line') == 10
    os.close(file)
signal.setitimer(signal.ITIMER_REAL, 0)
";

#[test]
fn handled_signals_do_not_fail_calls_that_wait_for_the_volume() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    for what in ["chmod", "stat", "rename", "append"] {
        let there = other.join(what);
        fs::create_dir_all(there.join("d")).unwrap();
        fs::write(there.join("d/there"), "content").unwrap();
        for name in ["f", "old", "log"] {
            fs::write(there.join(name), "").unwrap();
        }
    }
    let mut programs = Vec::new();
    for what in ["chmod", "stat", "rename", "append"] {
        let mut command = Command::new("python3");
        command
            .args(["-c", PROGRAM, what])
            .current_dir(m.file(what));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0; 6];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut ready)
            .unwrap();
        programs.push((what, child));
    }
    let nodes = m.nodes();
    stop(&nodes, true);
    for (_, child) in &mut programs {
        drop(child.stdin.take());
    }
    std::thread::sleep(Duration::from_secs(2));
    stop(&nodes, false);
    for (what, mut child) in programs {
        assert!(child.wait().unwrap().success(), "{what}");
    }
    // The result is visible here, too.
    let mode = fs::metadata(m.file("chmod/f")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o604);
    assert!(m.file("rename/new").exists() && !m.file("rename/old").exists());
    assert_eq!(fs::read(m.file("append/log")).unwrap(), b"whole line");
}

#[test]
fn calls_of_a_killed_program_complete_and_leave_nothing_open() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let programs = [
        "chmod 604 f",
        "cat f",
        "sh -c 'exec 3>>f; sleep 100'",
        "touch new",
    ];
    for (number, _) in programs.iter().enumerate() {
        let there = other.join(number.to_string());
        fs::create_dir(&there).unwrap();
        fs::write(there.join("f"), "").unwrap();
    }
    // Otherwise they would be looked up first, until the notification of them arrives.
    std::thread::sleep(Duration::from_millis(500));
    let mode = |path: &Path| fs::metadata(path.join("0/f")).map(|now| now.mode() & 0o777);
    assert_eq!(mode(&m.path).unwrap(), 0o644);
    let mut children = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let mut command = Command::new("sh");
        let script = format!("read -r _; exec {program}");
        command
            .args(["-c", &script])
            .current_dir(m.file(&number.to_string()));
        children.push(command.stdin(Stdio::piped()).spawn().unwrap());
    }
    let nodes = m.nodes();
    std::thread::sleep(Duration::from_millis(200));
    stop(&nodes, true);
    for child in &mut children {
        drop(child.stdin.take());
    }
    // On a busy machine a program takes a while to reach its call.
    let deadline = Instant::now() + Duration::from_secs(3);
    while !children.iter().all(waits_for_the_mount) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    stop(&nodes, false);
    // Whether chmod reached its change depends on the machine. In either case both mounts show the
    // same mode.
    std::thread::sleep(Duration::from_secs(1));
    wait_until("both mounts show one mode", || {
        match (mode(&m.path), mode(&other)) {
            (Ok(here), Ok(there)) => here == there,
            _ => false,
        }
    });
    for number in 1..programs.len() {
        // Only for files that are not open.
        let set = format!("setfattr -n user.weft.layout -v cells=3 {number}/f");
        sh(&m.path, &set);
    }
}
