//! Mounts whose requests come through io_uring.

mod mount_support;

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mount_support::{Mounted, kill, wait_until, weft};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Makes the kernel offer FUSE over io_uring, which root may set; it must be as before afterwards.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// A mount with rings. The tests run one after the other, because the kernel's parameter is one.
struct Rings {
    mounted: Option<Mounted>,
    parameter: String,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Rings {
    /// `None` if this machine has no mounts, or its kernel no rings.
    fn new() -> Option<Rings> {
        let turn = TURN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let parameter = fs::read_to_string(PARAMETER).ok()?;
        if File::options().write(true).open(PARAMETER).is_err() {
            return None;
        }
        let mounted = Some(Mounted::with_options("io_uring")?);
        let rings = Rings {
            mounted,
            parameter,
            _turn: turn,
        };
        assert_eq!(
            rings.logged("io_uring=true"),
            1,
            "requests come by /dev/fuse"
        );
        Some(rings)
    }

    fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }

    /// Lines of the mount's logs that contain a text.
    fn logged(&self, text: &str) -> usize {
        let logs = fs::read_dir(self.mounted().volume.join("log"))
            .unwrap()
            .flatten();
        let mounts = logs.filter(|e| e.file_name().to_string_lossy().starts_with("mount"));
        let texts = mounts.map(|e| fs::read_to_string(e.path()).unwrap());
        texts.map(|log| log.matches(text).count()).sum()
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.mounted = None;
        let _ = fs::write(PARAMETER, &self.parameter);
    }
}

/// Bytes that tell their place.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let words = (0..=length as u64 / 8).map(|n| (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(length);
    bytes
}

#[test]
fn files_of_all_sizes_pass_through_rings_unchanged() {
    let Some(rings) = Rings::new() else { return };
    let m = rings.mounted();
    let lengths = [
        0,
        1,
        4095,
        4096,
        100_000,
        (512 << 10) - 1,
        1 << 20,
        (3 << 20) + 17,
    ];
    std::thread::scope(|scope| {
        for (seed, length) in lengths.into_iter().enumerate() {
            scope.spawn(move || {
                let content = pattern(seed as u64, length);
                let name = m.file(&format!("file {seed}"));
                let mut file = File::create_new(&name).unwrap();
                file.write_all(&content).unwrap();
                file.sync_all().unwrap();
                drop(file);
                let moved = m.file(&format!("moved {seed}"));
                fs::rename(&name, &moved).unwrap();
                assert!(fs::read(&moved).unwrap() == content, "{length} bytes");
                let mut part = vec![0; length / 2];
                let file = File::open(&moved).unwrap();
                file.read_exact_at(&mut part, (length / 3) as u64).unwrap();
                assert!(
                    part == content[length / 3..length / 3 + length / 2],
                    "{length} bytes"
                );
            });
        }
    });
    let mut names: Vec<_> = fs::read_dir(&m.path)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names.len(), lengths.len());
    // Another mount of the volume, by /dev/fuse, sees the same.
    let other = m.further("other", "");
    for (seed, length) in lengths.into_iter().enumerate() {
        let content = fs::read(other.join(format!("moved {seed}"))).unwrap();
        assert!(content == pattern(seed as u64, length), "{length} bytes");
    }
}

/// Each waits in the mount until the one before it unlocks; as many as a client may have, and more
/// than a queue begins with slots for.
#[test]
fn an_unlock_reaches_the_mount_while_many_wait_for_the_lock() {
    const WAITING: usize = 120;
    let Some(rings) = Rings::new() else { return };
    let m = rings.mounted();
    let name = m.file("lock");
    let holder = File::create(&name).unwrap();
    rustix::fs::flock(&holder, FlockOperation::LockExclusive).unwrap();
    let (asked, locked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..WAITING)
        .map(|_| {
            let (asked, locked) = (asked.clone(), locked.clone());
            let file = File::open(&name).unwrap();
            std::thread::spawn(move || {
                asked.fetch_add(1, Ordering::SeqCst);
                rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
                locked.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    wait_until("all ask for the lock", || {
        asked.load(Ordering::SeqCst) == WAITING
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(locked.load(Ordering::SeqCst), 0);
    // Other requests go on meanwhile.
    let began = Instant::now();
    fs::write(m.file("beside"), "content").unwrap();
    assert_eq!(fs::read_to_string(m.file("beside")).unwrap(), "content");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    rustix::fs::flock(&holder, FlockOperation::Unlock).unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(locked.load(Ordering::SeqCst), WAITING);
}

#[test]
fn a_killed_mount_with_rings_fails_its_calls_and_can_be_replaced() {
    let Some(rings) = Rings::new() else { return };
    let m = rings.mounted();
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(m.file("f"))
        .unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    kill(m.process());
    wait_until("the kernel has seen the end of the mount", || {
        file.rewind().is_err() || file.read(&mut [0]).is_err()
    });
    // The kernel may still know the file's attributes.
    let gone = File::open(m.file("f")).unwrap_err();
    let errno = Errno::from_io_error(&gone);
    let ended = [Some(Errno::NOTCONN), Some(Errno::CONNABORTED)];
    assert!(ended.contains(&errno), "{gone}");
    drop(file);
    m.mount("io_uring");
    assert_eq!(fs::read_to_string(m.file("f")).unwrap(), "synced");
    assert_eq!(rings.logged("io_uring=true"), 2);
}

#[test]
fn rings_that_the_kernel_does_not_offer_are_refused_before_anything_is_mounted() {
    if Path::new(PARAMETER).exists() {
        return;
    }
    let Some(m) = Mounted::new() else { return };
    let path = m.beside("second");
    let volume = m.volume.to_str().unwrap();
    let refused = weft(&[
        "--volume",
        volume,
        "mount",
        path.to_str().unwrap(),
        "-o",
        "io_uring",
    ]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && text.contains("Linux 6.14"),
        "{text}"
    );
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}
