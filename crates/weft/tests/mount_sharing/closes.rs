//! Locks are released by the close of their descriptor: when `close` has returned, they are gone.

use std::fs;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::mount_support::{Mounted, sh};

#[test]
fn a_lock_is_gone_when_its_last_descriptor_is_closed() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), vec![1; 100]).unwrap();
    for round in 0..200 {
        let (one, two) = (super::open(&m.file("f")), super::open(&m.file("f")));
        flock(&one, FlockOperation::LockExclusive).unwrap();
        let copy = one.try_clone().unwrap();
        let busy = || flock(&two, FlockOperation::NonBlockingLockExclusive) == Err(Errno::AGAIN);
        if round % 50 == 0 {
            assert!(busy(), "{round}");
            drop(copy);
            assert!(busy(), "{round}: the other descriptor is still open");
        } else {
            drop(copy);
        }
        drop(one);
        flock(&two, FlockOperation::NonBlockingLockExclusive)
            .unwrap_or_else(|e| panic!("round {round}: {e}"));
    }
    // Locks of bytes that belong to an open.
    let script = "
import fcntl, struct
def ask(file, command, kind):
    lock = struct.pack('hhqqi4x', kind, 0, 0, 10, 0)
    return struct.unpack('hhqqi4x', fcntl.fcntl(file, command, lock))[0]
OFD_GETLK, OFD_SETLK = 36, 37
for i in range(200):
    one, two = open('f', 'r+'), open('f', 'r+')
    ask(one, OFD_SETLK, fcntl.F_WRLCK)
    assert ask(two, OFD_GETLK, fcntl.F_WRLCK) == fcntl.F_WRLCK
    one.close()
    if i % 2:
        assert ask(two, OFD_GETLK, fcntl.F_WRLCK) == fcntl.F_UNLCK, i
    ask(two, OFD_SETLK, fcntl.F_WRLCK)
    two.close()
";
    fs::write(m.file("locks.py"), script).unwrap();
    sh(&m.path, "python3 locks.py");
}
