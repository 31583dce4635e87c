//! Locks of mounts that die. Slow, because what is tested is how long somebody waits: `suites/nightly.sh` runs it.

mod mount_support;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mount_support::{Mounted, kill};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long the service waits for a mount that is away; see `docs/semantics.md`.
const GRACE: Duration = Duration::from_secs(20);

/// A process that holds a lock of the whole file by fcntl.
fn holder(directory: &std::path::Path) -> Child {
    let script = "import fcntl,sys\nf=open('g','r+')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint('held',flush=True)\n\
                  sys.stdin.readline()";
    let mut command = Command::new("python3");
    command.args(["-c", script]).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut heard = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut heard).unwrap();
    assert_eq!(&heard, b"held\n");
    child
}

#[test]
#[ignore = "it waits for half a minute"]
fn locks_of_a_mount_that_was_killed_end_when_it_has_been_waited_for() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    for name in ["f", "g"] {
        fs::write(m.file(name), vec![0; 1000]).unwrap();
    }
    let held = fs::File::open(m.file("f")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut bytes = holder(&m.path);
    let wanted = fs::File::open(other.join("f")).unwrap();
    kill(m.process());
    let died = Instant::now();
    // Somebody may have died with the lock's work half done: it is not given away at once.
    assert_eq!(
        flock(&wanted, FlockOperation::NonBlockingLockExclusive),
        Err(Errno::AGAIN)
    );
    let mut waits = Command::new("timeout")
        .args(["60", "flock", "-n", "f", "true"])
        .current_dir(&other)
        .spawn()
        .unwrap();
    assert!(!waits.wait().unwrap().success());
    // Who waits gets it without asking again.
    flock(&wanted, FlockOperation::LockExclusive).unwrap();
    let waited = died.elapsed();
    println!("free after {waited:?}");
    assert!(
        waited > GRACE / 2 && waited < GRACE + Duration::from_secs(5),
        "{waited:?}"
    );
    bytes.kill().unwrap();
    bytes.wait().unwrap();
    let _still_held_by_nobody = holder(&other).kill();
}
