//! An open file shows changes by another mount, another descriptor or a view.

mod mount_support;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use mount_support::{Mounted, sh, wait_until, weft_ok};

/// The bytes that a descriptor reads from an offset on.
fn rest(file: &fs::File, offset: u64) -> Vec<u8> {
    let mut bytes = vec![99; 200_000];
    let count = file.read_at(&mut bytes, offset).unwrap();
    bytes.truncate(count);
    bytes
}

fn append(path: &Path, what: &[u8]) {
    use std::io::Write;
    let mut file = fs::File::options().append(true).open(path).unwrap();
    file.write_all(what).unwrap();
}

#[test]
fn an_open_small_file_shows_exactly_what_another_mount_appends() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    fs::write(m.file("f"), "once\n").unwrap();
    let (follows, beside) = (
        fs::File::open(m.file("f")).unwrap(),
        fs::File::open(m.file("f")).unwrap(),
    );
    assert_eq!(rest(&follows, 0), b"once\n");
    let mut expected = b"once\n".to_vec();
    // The file stays small at first, then gets cells.
    for more in ["more\n".to_owned(), "m".repeat(40_000), "last\n".to_owned()] {
        append(&other.join("f"), more.as_bytes());
        let before = expected.len();
        expected.extend(more.as_bytes());
        wait_until("the appended bytes are visible", || {
            let size = follows.metadata().unwrap().size();
            let mut seen = rest(&follows, 0);
            if (seen.len() as u64) < size {
                // The kernel drops a size that a notification overtakes: one read may end at the
                // old end of the file.
                seen = rest(&follows, 0);
            }
            let other = seen.iter().zip(&expected).position(|(a, b)| a != b);
            assert!(
                other.is_none() && seen.len() <= expected.len(),
                "{} bytes instead of {}, different from {other:?} on: {:?}",
                seen.len(),
                expected.len(),
                other.map(|at| &seen[at..seen.len().min(at + 20)]),
            );
            assert!(seen.len() as u64 >= size, "the reported size is {size}");
            seen.len() == expected.len()
        });
        assert!(rest(&follows, before as u64) == more.as_bytes());
        assert!(rest(&beside, 0) == expected);
        // A new open sees all of it at once.
        assert!(fs::read(m.file("f")).unwrap() == expected);
    }
}

#[test]
fn opening_a_file_that_another_mount_extended_reads_all_of_it() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    for round in 0..60 {
        let (here, there) = (
            m.file(&format!("f{round}")),
            other.join(format!("f{round}")),
        );
        fs::write(&here, "four").unwrap();
        let open = fs::File::open(&here).unwrap();
        assert_eq!(rest(&open, 0), b"four");
        append(&there, &vec![b'm'; 40_000]);
        // The notification may arrive before, between and after these.
        rest(&open, 0);
        assert_eq!(fs::read(&here).unwrap().len(), 40_004, "{round}");
        rest(&open, 2);
        assert_eq!(fs::read(&here).unwrap().len(), 40_004, "{round}");
    }
}

#[test]
fn an_open_small_file_shows_a_truncate_by_its_path() {
    let Some(m) = Mounted::new() else { return };
    let path = m.file("f");
    let truncate = |size| {
        let script = format!("import os; os.truncate('f', {size})");
        sh(&m.path, &format!("python3 -c \"{script}\""));
    };
    for (written, sizes) in [(100, [9000, 50, 80]), (100, [20_000, 50, 80])] {
        fs::write(&path, vec![7; written]).unwrap();
        let open = fs::File::open(&path).unwrap();
        assert!(rest(&open, 0) == vec![7; written]);
        let mut expected = vec![7; written];
        for size in sizes {
            truncate(size);
            expected.resize(size, 0);
            assert_eq!(open.metadata().unwrap().size(), size as u64);
            assert!(rest(&open, 0) == expected, "{size}");
        }
        // A write does not bring truncated bytes back either.
        let writes = fs::File::options().write(true).open(&path).unwrap();
        truncate(10);
        writes.write_all_at(b"end", 12).unwrap();
        expected.resize(10, 0);
        expected.extend(b"\0\0end");
        assert!(rest(&open, 0) == expected);
        drop(writes);
        assert!(fs::read(&path).unwrap() == expected);
        fs::remove_file(&path).unwrap();
    }
}

/// In one program, at once: after some milliseconds the service would have notified the mount.
#[test]
fn read_ahead_does_not_outlive_a_truncate_by_path() {
    const PROGRAM: &str = "
import os, time
SIZE, PART = 16 << 20, 128 << 10
for flags in (os.O_RDONLY, os.O_RDONLY | os.O_DIRECT):
    with open('f', 'wb') as f: f.write(b'7' * SIZE)
    f = os.open('f', flags)
    for at in range(0, 3 << 20, PART):
        assert os.pread(f, PART, at) == b'7' * PART
    time.sleep(0.2)
    os.truncate('f', 0)
    os.truncate('f', SIZE)
    for at in range(3 << 20, SIZE, PART):
        assert os.pread(f, PART, at) == bytes(PART), (flags, at)
    os.close(f)
";
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("program.py"), PROGRAM).unwrap();
    sh(&m.path, "python3 program.py");
}

/// In one program, at once: a little later the kernel would have been notified anyway.
#[test]
fn an_open_small_file_shows_writes_through_a_view() {
    const PROGRAM: &str = "
import os
with open('f', 'wb') as f: f.write(b'o' * 100)
f = os.open('f', os.O_RDONLY)
assert os.pread(f, 100, 0) == b'o' * 100
for round in range(100):
    new = b'%03d' % round
    view = os.open('.weft/views/f/cell=0', os.O_WRONLY)
    os.write(view, new)
    if round % 2:
        os.fsync(view)
        assert os.pread(f, 100, 0) == new + b'o' * 97, round
    os.close(view)
    assert os.pread(f, 100, 0) == new + b'o' * 97, round
os.close(f)
";
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("program.py"), PROGRAM).unwrap();
    sh(&m.path, "python3 program.py");
}

/// Length of a file with cells: more than is stored with the metadata.
const LARGE: usize = 40_000;

/// Reads from the file `f` by the command line.
fn read_beside(m: &Mounted, offset: u64, length: usize) -> String {
    let (volume, length, offset) = (
        m.volume.to_str().unwrap(),
        length.to_string(),
        offset.to_string(),
    );
    weft_ok(&[
        "--volume", volume, "read", "/f", &length, "--offset", &offset,
    ])
}

/// Writes to the file `f` by the command line.
fn write_beside(m: &Mounted, offset: u64, what: &str) {
    let weft = format!(
        "{} --volume {}",
        env!("CARGO_BIN_EXE_weft"),
        m.volume.display()
    );
    sh(
        &m.path,
        &format!(
            "printf '{what}' | {weft} write /f {} --offset {offset}",
            what.len()
        ),
    );
}

#[test]
fn a_strict_mount_and_the_command_line_see_each_others_writes_at_once() {
    let Some(m) = Mounted::with_options("strict") else {
        return;
    };
    for size in [100, LARGE] {
        fs::write(m.file("f"), vec![b'.'; size]).unwrap();
        let file = fs::File::options()
            .read(true)
            .write(true)
            .open(m.file("f"))
            .unwrap();
        for round in 0..5_u64 {
            let (ours, theirs) = (format!("o{round}"), format!("t{round}"));
            file.write_all_at(ours.as_bytes(), 4 * round).unwrap();
            assert_eq!(read_beside(&m, 4 * round, 2), ours, "{size}");
            write_beside(&m, 4 * round + 2, &theirs);
            let mut seen = [0; 4];
            file.read_exact_at(&mut seen, 4 * round).unwrap();
            assert_eq!(seen, format!("{ours}{theirs}").as_bytes(), "{size}");
        }
    }
}

#[test]
fn a_mount_and_the_command_line_can_write_a_file_that_the_other_has_open() {
    let Some(m) = Mounted::new() else { return };
    for size in [100, LARGE] {
        fs::write(m.file("f"), vec![b'.'; size]).unwrap();
        let held = fs::File::options()
            .read(true)
            .write(true)
            .open(m.file("f"))
            .unwrap();
        assert!(rest(&held, 0) == vec![b'.'; size]);
        write_beside(&m, 10, "theirs");
        assert_eq!(
            &fs::read(m.file("f")).unwrap()[8..18],
            b"..theirs..",
            "{size}: opened anew"
        );
        held.write_all_at(b"ours", 20).unwrap();
        held.sync_all().unwrap();
        assert_eq!(read_beside(&m, 8, 18), "..theirs....ours..", "{size}");
        wait_until(
            "the open file shows the bytes written by the command line",
            || &rest(&held, 0)[8..26] == b"..theirs....ours..",
        );
    }
}
