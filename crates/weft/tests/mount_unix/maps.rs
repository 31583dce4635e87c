//! Private maps: writes to them stay private.

#![allow(unsafe_code)] // maps of files

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::mount_support::Mounted;

/// A private map of the first `length` bytes of a file.
struct Private {
    start: *mut libc::c_void,
    length: usize,
}

impl Private {
    fn of(file: &File, length: usize) -> Private {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new map at a place of the kernel's choice, of an open file.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        assert!(
            start != libc::MAP_FAILED,
            "{}",
            std::io::Error::last_os_error()
        );
        Private { start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `length` bytes were mapped, the file is not truncated, and only this value has
        // the map.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.length) }
    }

    fn sync(&self) {
        // SAFETY: the map as it was made.
        let done = unsafe { libc::msync(self.start, self.length, libc::MS_SYNC) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: the map as it was made; no reference into it is left.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

fn stay_private(options: &str) {
    const PAGE: usize = 4096;
    let Some(m) = Mounted::with_options(options) else {
        return;
    };
    let other = m.further("other", "");
    // One file is stored with its metadata, one in cells.
    for (name, pages) in [("small", 2), ("large", 500)] {
        let path = m.file(name);
        let mut expected: Vec<u8> = (0..pages * PAGE).map(|i| (i * 7 % 251) as u8).collect();
        fs::write(&path, &expected).unwrap();
        let before = fs::metadata(&path).unwrap();
        // A read-only descriptor allows writes to the map.
        let file = File::open(&path).unwrap();
        let (mut one, mut two) = (
            Private::of(&file, expected.len()),
            Private::of(&file, expected.len()),
        );
        assert!(one.bytes() == expected, "{name}");
        one.bytes()[10..20].fill(b'x');
        one.bytes()[(pages - 1) * PAGE..].fill(b'y');
        one.sync();
        assert!(two.bytes() == expected, "{name}: another map shows it");
        for there in [&path, &other.join(name)] {
            assert!(
                fs::read(there).unwrap() == expected,
                "{name}: the file shows it"
            );
        }
        let mut mine = expected.clone();
        mine[10..20].fill(b'x');
        mine[(pages - 1) * PAGE..].fill(b'y');
        assert!(one.bytes() == mine, "{name}");
        // Pages written in the map do not show writes to the file; for other pages POSIX
        // leaves it open.
        let writer = File::options().write(true).open(&path).unwrap();
        writer.write_all_at(&vec![b'z'; expected.len()], 0).unwrap();
        writer.sync_all().unwrap();
        expected.fill(b'z');
        assert!(one.bytes()[..PAGE] == mine[..PAGE], "{name}");
        assert!(
            one.bytes()[(pages - 1) * PAGE..] == mine[(pages - 1) * PAGE..],
            "{name}"
        );
        let written = fs::metadata(&path).unwrap();
        assert!(written.mtime_nsec() != before.mtime_nsec() || written.mtime() != before.mtime());
        drop((one, two, file, writer));
        assert!(
            fs::read(&path).unwrap() == expected,
            "{name}: the end of the map wrote it"
        );
        // A new map shows the current content.
        let file = File::open(&path).unwrap();
        assert!(
            Private::of(&file, expected.len()).bytes() == expected,
            "{name}"
        );
    }
}

#[test]
fn writes_to_a_private_map_stay_private() {
    stay_private("");
}

#[test]
fn writes_to_a_private_map_of_a_strict_mount_stay_private() {
    stay_private("strict");
}
