//! Appends of programs that open, append and close, as a shell's `>>` does.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};

use super::ends_support::Ends;
use super::mount_support::{Mounted, sh};

fn append(path: &Path, what: &[u8]) {
    let mut file = fs::File::options().append(true).open(path).unwrap();
    file.write_all(what).unwrap();
}

/// The kernel reports a close after the program has continued, so the next open arrives first.
#[test]
fn an_append_right_after_a_close_goes_to_the_end() {
    let Some(m) = Mounted::new() else { return };
    for round in 0..400_usize {
        let length = [10, 9_000, 17_000, 600_000][round % 4];
        let path = m.file(&format!("f{round}"));
        fs::write(&path, vec![b'o'; length]).unwrap();
        append(&path, b"appended");
        let mut expected = vec![b'o'; length];
        expected.extend_from_slice(b"appended");
        assert!(
            fs::read(&path).unwrap() == expected,
            "round {round}, {length} bytes"
        );
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn processes_that_open_for_each_append_lose_nothing() {
    const RECORDS: usize = 200;
    let Some(m) = Mounted::new() else { return };
    for before in [0, 1_000, 20_000] {
        let path = m.file(&format!("log{before}"));
        fs::write(&path, vec![b'o'; before]).unwrap();
        // Separate processes, as of a shell.
        let script = format!(
            "for p in 1 2 3; do (for i in $(seq {RECORDS}); do printf '%d.%07d\\n' $p $i >> log{before}; done) & done; wait"
        );
        sh(&m.path, &script);
        let data = fs::read(&path).unwrap();
        assert!(
            data[..before].iter().all(|b| *b == b'o'),
            "{before}: the earlier contents are gone"
        );
        let mut lines: Vec<&str> = std::str::from_utf8(&data[before..])
            .unwrap()
            .lines()
            .collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(
            (lines.len(), data.len()),
            (3 * RECORDS, before + 3 * RECORDS * 10)
        );
    }
}

/// A truncate moves the offset of the next append back, for small files and for those with cells.
#[test]
fn an_append_after_a_truncate_goes_to_the_new_end() {
    let Some(m) = Mounted::new() else { return };
    for (length, kept) in [(100, 0), (9_000, 40), (600_000, 0), (600_000, 70_000)] {
        let path = m.file(&format!("f{length}.{kept}"));
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(&vec![b'o'; length]).unwrap();
        file.set_len(kept).unwrap();
        file.write_all(b"new").unwrap();
        let mut expected = vec![b'o'; kept as usize];
        expected.extend_from_slice(b"new");
        assert!(fs::read(&path).unwrap() == expected, "{length}, {kept}");
        drop(file);
        append(&path, b"er");
        expected.extend_from_slice(b"er");
        assert!(fs::read(&path).unwrap() == expected, "{length}, {kept}");
    }
}

/// A close does not restore bytes beyond a truncation, when a small file moves to its cells.
#[test]
fn closing_a_truncated_file_does_not_extend_it_again() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let path = m.file("f");
    let file = fs::File::create(&path).unwrap();
    file.write_all_at(&[b'o'; 10_000], 0).unwrap();
    file.set_len(100).unwrap();
    let keep = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, keep, 0, 10).unwrap();
    drop(file);
    let mut expected = vec![0; 10];
    expected.extend_from_slice(&[b'o'; 90]);
    // Close does not wait.
    for _ in 0..20 {
        for path in [&path, &other.join("f")] {
            assert_eq!(fs::metadata(path).unwrap().len(), 100);
            assert_eq!(fs::read(path).unwrap(), expected);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Preallocation by one mount does not truncate unseen writes of the other.
#[test]
fn preallocation_loses_no_concurrent_writes() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let create = |path: &Path| {
        fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap()
    };
    let (ours, theirs) = (create(&m.file("f")), create(&other.join("f")));
    ours.write_all_at(&vec![b'o'; 100_000], 0).unwrap();
    ours.sync_all().unwrap();
    let mut expected = vec![b'o'; 100_000];
    for round in 0..200_u64 {
        let end = expected.len() as u64;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.write_all_at(b"theirs", end + 20).unwrap();
                theirs.sync_data().unwrap();
            });
            fallocate(&ours, FallocateFlags::empty(), end, 10 + round % 15).unwrap();
        });
        expected.resize(expected.len() + 20, 0);
        expected.extend_from_slice(b"theirs");
    }
    drop((ours, theirs));
    for path in [m.file("f"), other.join("f")] {
        assert!(fs::read(path).unwrap() == expected);
    }
}

/// Opens and closes by others do not affect an appending process.
#[test]
fn concurrent_opens_and_closes_lose_no_appends() {
    let Some(m) = Mounted::new() else { return };
    for round in 0..60 {
        let path = m.file(&format!("f{round}"));
        fs::write(&path, [b'o'; 1000]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..5 {
                    drop(fs::File::options().write(true).open(&path).unwrap());
                }
            });
            for _ in 0..5 {
                append(&path, b"NEW");
            }
        });
        let data = fs::read(&path).unwrap();
        assert_eq!(
            (&data[..1000], &data[1000..]),
            (&[b'o'; 1000][..], &b"NEWNEWNEWNEWNEW"[..]),
            "round {round}"
        );
    }
}

/// Each append is contiguous, also with concurrent appends.
#[test]
fn appends_of_two_mounts_are_atomic() {
    const PIECE: usize = 1_000_000;
    const EACH: usize = 6;
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let path = m.file("shared");
    fs::write(&path, b"").unwrap();
    let writers: Vec<_> = (0..4_u8)
        .map(|writer| {
            let of = if writer % 2 == 0 { &m.path } else { &other };
            let path = of.join("shared");
            std::thread::spawn(move || {
                let mut file = fs::File::options().append(true).open(path).unwrap();
                let piece = vec![writer + 1; PIECE];
                (0..EACH).for_each(|_| file.write_all(&piece).unwrap());
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let data = fs::read(&path).unwrap();
    assert_eq!(data.len(), 4 * EACH * PIECE);
    let mut counts = [0; 5];
    for piece in data.chunks(PIECE) {
        assert!(
            piece.iter().all(|byte| *byte == piece[0]),
            "an append was torn"
        );
        counts[usize::from(piece[0])] += 1;
    }
    assert_eq!(counts, [0, EACH, EACH, EACH, EACH]);
}

/// One mount writes; on another a descriptor stays open while others open and close the file.
#[test]
fn a_growing_file_never_seems_to_shrink_on_another_mount() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let (path, seen) = (m.file("growing"), other.join("growing"));
    fs::write(&path, vec![1; 300_000]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(&done);
            let mut file = fs::File::options().append(true).open(&path).unwrap();
            for _ in 0..400 {
                file.write_all(&[1; 3000]).unwrap();
                std::thread::sleep(Duration::from_millis(8));
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let file = fs::File::open(&seen).unwrap();
                file.read_at(&mut [0; 100], 0).unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let file = fs::File::open(&seen).unwrap();
        let mut buffer = vec![0; 2_000_000];
        let mut known = 0;
        while !done.load(Ordering::SeqCst) {
            let size = file.metadata().unwrap().len() as usize;
            assert!(size >= known, "the size was {known} and is {size}");
            known = size;
            let read = file.read_at(&mut buffer, 0).unwrap();
            assert!(read >= known, "{read} bytes of {known}");
            // Data on its way to another server may still be zeros, as for any write in progress.
            known = read;
            let last = file
                .read_at(&mut buffer[..1000], known as u64 - 1000)
                .unwrap();
            assert_eq!(last, 1000);
        }
    });
}
