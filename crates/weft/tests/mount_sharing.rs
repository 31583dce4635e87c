//! Operations that the servers do for a mount, and locks between mounts.

#[path = "mount_sharing/ahead.rs"]
mod ahead;
#[path = "mount_sharing/appends.rs"]
mod appends;
#[path = "mount_sharing/closes.rs"]
mod closes;
mod ends_support;
#[path = "mount_sharing/files_ahead.rs"]
mod files_ahead;
#[path = "mount_sharing/kept_files.rs"]
mod kept_files;
#[path = "mount_sharing/killed.rs"]
mod killed;
mod mount_support;
#[path = "mount_sharing/opens.rs"]
mod opens;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mount_support::{Mounted, sh, wait_until};
use rustix::fs::{
    FallocateFlags, FlockOperation, SeekFrom, copy_file_range, fallocate, flock, seek,
};
use rustix::io::Errno;

fn open(path: &Path) -> fs::File {
    fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

#[test]
fn clearing_a_range_keeps_or_extends_the_size() {
    let Some(m) = Mounted::new() else { return };
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zero = FallocateFlags::ZERO_RANGE;
    for (name, length) in [("small", 10_000_usize), ("large", 5_000_000)] {
        let file = open(&m.file(name));
        let mut expected = vec![7_u8; length];
        // The range is dirty when it is cleared.
        file.write_all_at(&expected, 0).unwrap();
        let at = length / 5;
        fallocate(&file, punch, at as u64, at as u64).unwrap();
        expected[at..2 * at].fill(0);
        assert!(fs::read(m.file(name)).unwrap() == expected, "{name}");
        file.write_all_at(b"after", at as u64 + 3).unwrap();
        expected[at + 3..at + 8].copy_from_slice(b"after");
        fallocate(
            &file,
            zero | FallocateFlags::KEEP_SIZE,
            length as u64 - 10,
            100,
        )
        .unwrap();
        expected[length - 10..].fill(0);
        assert!(fs::read(m.file(name)).unwrap() == expected, "{name}");
        assert_eq!(file.metadata().unwrap().len(), length as u64);
        fallocate(&file, zero, length as u64 - 20, 1020).unwrap();
        expected[length - 20..].fill(0);
        expected.resize(length + 1000, 0);
        assert_eq!(file.metadata().unwrap().len(), length as u64 + 1000);
        drop(file);
        assert!(fs::read(m.file(name)).unwrap() == expected, "{name}");
    }
    let file = open(&m.file("large"));
    let hole = seek(&file, SeekFrom::Hole(0)).unwrap();
    assert!((900_000..1_100_000).contains(&hole), "{hole}");
    for flag in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(fallocate(&file, flag, 0, 4096), Err(Errno::OPNOTSUPP));
    }
    drop(file);
    sh(
        &m.path,
        "fallocate -p -o 0 -l 4096 large; test \"$(head -c 4096 large | od -An -v -tx1 | tr -d ' 0\\n')\" = ''",
    );
}

#[test]
fn ranges_are_copied_between_files_and_within_one() {
    let Some(m) = Mounted::new() else { return };
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    let from = open(&m.file("from"));
    from.write_all_at(&data, 0).unwrap();
    let to = open(&m.file("to"));
    to.write_all_at(b"old", 0).unwrap();
    let copy = |from: &fs::File, mut at: u64, to: &fs::File, mut there: u64, length| {
        copy_file_range(from, Some(&mut at), to, Some(&mut there), length)
    };
    // Both files are dirty and the target is still small. Copy to an odd offset, past the end of
    // the source, and again within one file.
    assert_eq!(copy(&from, 100_000, &to, 65_537, 9_000_000), Ok(2_900_000));
    let mut expected = b"old".to_vec();
    expected.resize(65_537, 0);
    expected.extend(&data[100_000..]);
    assert!(fs::read(m.file("to")).unwrap() == expected);
    assert_eq!(copy(&from, 0, &to, 0, 50_000), Ok(50_000));
    expected[..50_000].copy_from_slice(&data[..50_000]);
    assert_eq!(copy(&from, 0, &to, 60_000, 5), Ok(5));
    expected[60_000..60_005].copy_from_slice(&data[..5]);
    assert_eq!(copy(&from, 3_000_000, &to, 0, 50_000), Ok(0));
    assert_eq!(copy(&to, 0, &to, 100_000, 200_000), Err(Errno::INVAL));
    assert_eq!(copy(&to, 0, &to, 1_000_000, 200_000), Ok(200_000));
    expected.copy_within(..200_000, 1_000_000);
    assert!(fs::read(m.file("to")).unwrap() == expected);
    drop(to);
    assert_eq!(
        fs::metadata(m.file("to")).unwrap().len(),
        expected.len() as u64
    );
    let other = m.further("other", "");
    assert!(fs::read(other.join("to")).unwrap() == expected);
    let holes = open(&m.file("holes"));
    holes.write_all_at(&[1; 4096], 8 << 20).unwrap();
    let to = open(&m.file("to2"));
    assert_eq!(copy(&holes, 0, &to, 0, 9 << 20), Ok((8 << 20) + 4096));
    assert_eq!(seek(&to, SeekFrom::Data(0)).unwrap(), 8 << 20);
    assert_eq!(to.metadata().unwrap().size(), (8 << 20) + 4096);
}

#[test]
fn a_file_locked_in_one_mount_is_locked_in_the_other() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let (one, two) = (open(&m.file("f")), open(&other.join("f")));
    flock(&one, FlockOperation::LockExclusive).unwrap();
    let refused = flock(&two, FlockOperation::NonBlockingLockShared);
    assert_eq!(refused, Err(Errno::AGAIN));
    sh(&other, "! flock -n f true");
    flock(&one, FlockOperation::LockShared).unwrap();
    flock(&two, FlockOperation::NonBlockingLockShared).unwrap();
    // The last close of a description releases the lock.
    drop(one);
    let deadline = Instant::now() + Duration::from_secs(10);
    while flock(&two, FlockOperation::NonBlockingLockExclusive).is_err() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    flock(&two, FlockOperation::Unlock).unwrap();
    sh(&m.path, "flock -n f true");
    // A killed process releases it, too.
    let script = "import fcntl,sys\nf=open('f')\nfcntl.flock(f,fcntl.LOCK_EX)\nprint('held',flush=True)\nsys.stdin.readline()";
    let mut command = Command::new("python3");
    command.args(["-c", script]).current_dir(&m.path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut killed = command.spawn().unwrap();
    hear(&mut killed, "held");
    let refused = flock(&two, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(refused, Err(Errno::AGAIN));
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the lock of the killed process is released", || {
        flock(&two, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
}

#[test]
fn under_a_lock_each_mount_sees_the_writes_of_the_other() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let count = "set -e; exec 9<>f; for i in $(seq 40); do flock 9; n=$(cat f); printf %06d $((10#${n:-0} + 1)) \
                 | dd of=f conv=notrunc status=none; flock -u 9; done";
    let spawn = |directory: &Path| -> Child {
        let mut command = Command::new("bash");
        command
            .args(["-c", count])
            .current_dir(directory)
            .spawn()
            .unwrap()
    };
    for mut child in [spawn(&m.path), spawn(&other)] {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(fs::read_to_string(m.file("f")).unwrap(), "000080");
    // With descriptors that stay open, in a file stored with its metadata.
    let (one, two) = (open(&m.file("g")), open(&other.join("g")));
    for round in 0..20_u8 {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        flock(writer, FlockOperation::LockExclusive).unwrap();
        writer.write_all_at(&[round; 5000], 0).unwrap();
        flock(writer, FlockOperation::Unlock).unwrap();
        flock(reader, FlockOperation::LockShared).unwrap();
        let mut seen = [99; 5000];
        reader.read_exact_at(&mut seen, 0).unwrap();
        assert!(seen == [round; 5000], "round {round}: {}", seen[0]);
        flock(reader, FlockOperation::Unlock).unwrap();
    }
}

/// A process that locks bytes `start..start + length` until its input ends, and reports that it
/// has.
fn holder(directory: &Path, start: u32, length: u32) -> Child {
    let script = format!(
        "import fcntl,sys\nf=open('f','r+')\ng=open('f')\nfcntl.lockf(f,fcntl.LOCK_EX,{length},{start})\n\
         print('held',flush=True)\nsys.stdin.readline()\ng.close()\nprint('closed',flush=True)\nsys.stdin.readline()"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn hear(child: &mut Child, word: &str) {
    use std::io::Read;
    let mut heard = vec![0; word.len() + 1];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut heard)
        .unwrap();
    assert_eq!(String::from_utf8(heard).unwrap().trim(), word);
}

fn try_bytes(directory: &Path, start: u32, length: u32) -> bool {
    let script = format!(
        "import fcntl,sys\nf=open('f','r+')\ntry: fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,{length},{start})\n\
         except BlockingIOError: print('no')\nelse: print('yes')"
    );
    let path = directory.join(".try.py");
    fs::write(&path, script).unwrap();
    sh(directory, "python3 .try.py").trim() == "yes"
}

#[test]
fn bytes_are_locked_between_mounts_until_any_descriptor_is_closed() {
    use std::io::Write;
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    fs::write(m.file("f"), vec![0; 1000]).unwrap();
    let mut first = holder(&m.path, 100, 50);
    hear(&mut first, "held");
    assert!(!try_bytes(&other, 140, 20));
    assert!(
        !try_bytes(&m.path, 140, 20),
        "the bytes are locked in the same mount, too"
    );
    assert!(try_bytes(&other, 150, 0));
    // A waiting process is interrupted by a signal, and does not get the lock later.
    let mut waits = holder(&other, 120, 1);
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    waits.kill().unwrap();
    waits.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(3));
    let mut waits = holder(&other, 130, 1);
    std::thread::sleep(Duration::from_millis(300));
    // As POSIX requires, closing another descriptor of the file, even a read-only one, releases the
    // lock.
    first.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    hear(&mut first, "closed");
    hear(&mut waits, "held");
    assert!(try_bytes(&m.path, 100, 25));
    assert!(!try_bytes(&m.path, 130, 1));
    // A killed process releases it, too.
    waits.kill().unwrap();
    waits.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !try_bytes(&m.path, 130, 1) {
        assert!(Instant::now() < deadline);
    }
    drop(first.stdin.take());
    first.wait().unwrap();
}

#[test]
fn changes_of_another_mount_are_seen_despite_long_cache_timeouts() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let (here, there) = (|name: &str| m.file(name), |name: &str| other.join(name));
    fs::write(here("kept"), "1").unwrap();
    fs::write(here("moved"), "2").unwrap();
    fs::create_dir(here("d")).unwrap();
    let everything = |path: &Path| {
        let kept = fs::metadata(path.join("kept")).unwrap();
        let attributes = (kept.len(), kept.mode() & 0o7777, kept.uid(), kept.nlink());
        let names = ["moved", "new", "d/new"].map(|name| path.join(name).exists());
        (
            attributes,
            names,
            fs::metadata(path.join("d")).unwrap().len(),
        )
    };
    fs::set_permissions(here("kept"), fs::Permissions::from_mode(0o644)).unwrap();
    let before = ((1, 0o644, 0, 1), [true, false, false], 0);
    assert_eq!(everything(&m.path), before);
    fs::write(there("kept"), "longer").unwrap();
    fs::set_permissions(there("kept"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(there("kept"), Some(7), None).unwrap();
    fs::hard_link(there("kept"), there("again")).unwrap();
    fs::rename(there("moved"), there("new")).unwrap();
    fs::write(there("d/new"), "").unwrap();
    // Half the minute for which the kernel may cache attributes.
    let after = ((6, 0o600, 7, 2), [false, true, true], 1);
    wait_until("all changes are seen", || everything(&m.path) == after);
    fs::remove_file(there("d/new")).unwrap();
    wait_until("the name is gone", || !here("d/new").exists());
    // Size and time of a file that stays open on the other mount are seen, too, once they reach the
    // servers.
    for name in ["kept", "large"] {
        let file = open(&there(name));
        let (mut size, mut time) = (0, std::time::UNIX_EPOCH);
        for length in [10, 100, 200_000] {
            file.write_all_at(&vec![1; length], size).unwrap();
            file.sync_all().unwrap();
            size += length as u64;
            wait_until("the new size and time are seen", || {
                fs::metadata(here(name))
                    .is_ok_and(|now| now.len() == size && now.modified().unwrap() > time)
            });
            time = fs::metadata(here(name)).unwrap().modified().unwrap();
        }
    }
}

#[test]
fn a_name_created_elsewhere_in_a_directory_of_this_mount_is_visible_at_once() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    for i in 0..10 {
        let directory = m.file(&format!("d{i}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("own"), "own").unwrap();
        assert!(!directory.join("made").exists());
        fs::write(other.join(format!("d{i}/made")), "made").unwrap();
        assert_eq!(fs::read(directory.join("made")).unwrap(), b"made", "{i}");
        fs::write(other.join(format!("d{i}/second")), "").unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
    }
}

#[test]
fn close_to_open_holds_for_files_that_keep_their_size_and_their_time() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let mounts = [m.path.clone(), other];
    let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    for size in [100, 100_000] {
        let name = format!("f{size}");
        fs::write(mounts[0].join(&name), vec![0; size]).unwrap();
        for turn in 1..40_u8 {
            let [writer, reader] = [turn, turn + 1].map(|i| mounts[i as usize % 2].join(&name));
            let file = open(&writer);
            file.write_all_at(&vec![turn; size], 0).unwrap();
            file.set_modified(time).unwrap();
            drop(file);
            for path in [&reader, &writer, &reader] {
                let bytes = fs::read(path).unwrap();
                assert!(
                    bytes == vec![turn; size],
                    "{size}: turn {turn}, byte {}",
                    bytes[0]
                );
            }
        }
    }
}

#[test]
fn a_mount_drops_its_caches_after_an_outage_of_the_service() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let names: Vec<_> = (0..20).map(|i| format!("f{i}")).collect();
    let all = |there| names.iter().all(|name| m.file(name).exists() == there);
    assert!(all(false));
    mount_support::kill(m.nodes()[0]);
    mount_support::weft_ok(&["up", m.volume.to_str().unwrap()]);
    for name in &names {
        fs::write(other.join(name), "").unwrap();
    }
    wait_until("the names are seen", || all(true));
}

#[test]
fn a_refused_down_names_all_mounts_and_unmounts_none() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let volume = m.volume.to_str().unwrap();
    // The one that `weft up` has made would be unmounted with the volume.
    let own = m.beside("own");
    mount_support::weft_ok(&["up", volume, "--mount", own.to_str().unwrap()]);
    let refused = mount_support::weft(&["down", volume]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{said}");
    for path in [&m.path, &other] {
        assert!(
            said.contains(&format!("`weft unmount {}`", path.display())),
            "{said}"
        );
        fs::write(path.join("still"), "mounted").unwrap();
    }
    assert_eq!(fs::read(own.join("still")).unwrap(), b"mounted");
}
