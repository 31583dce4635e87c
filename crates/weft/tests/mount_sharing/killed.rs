//! Locks of a mount whose process was killed.

use std::fs;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{hear, holder, open, try_bytes};
use crate::mount_support::{Mounted, kill};

/// The service waits 20 seconds for a client to reconnect.
const GRACE: Duration = Duration::from_secs(20);
/// The wait counts from the last message of the client, which may be this long before its end.
const SILENT: Duration = Duration::from_secs(5);

#[test]
fn locks_of_a_killed_mount_are_released() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    fs::write(m.file("f"), vec![0; 1000]).unwrap();
    let mut bytes = holder(&m.path, 100, 50);
    hear(&mut bytes, "held");
    let whole = open(&m.file("g"));
    flock(&whole, FlockOperation::LockExclusive).unwrap();
    let there = open(&other.join("g"));
    let try_whole = || flock(&there, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(try_whole(), Err(Errno::AGAIN));
    let start = Instant::now();
    kill(m.process());
    // A waiting process gets the lock then; one that only tries gets it from then on.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let there = open(&other.join("g"));
            flock(&there, FlockOperation::LockShared).unwrap();
            start.elapsed()
        });
        while !try_bytes(&other, 100, 50) {
            assert!(start.elapsed() < 3 * GRACE, "bytes stay locked");
            std::thread::sleep(Duration::from_millis(200));
        }
        let (bytes, whole) = (start.elapsed(), waits.join().unwrap());
        println!("bytes are free after {bytes:?}, the file after {whole:?}");
        // The locks are not released earlier: the client could reconnect and still hold them.
        let early = bytes.min(whole);
        assert!(early + SILENT > GRACE, "{early:?}");
        assert!(whole < 3 * GRACE, "{whole:?}");
    });
    try_whole().unwrap();
    bytes.kill().unwrap();
    bytes.wait().unwrap();
}
