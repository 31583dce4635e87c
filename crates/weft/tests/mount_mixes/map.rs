//! A shared map of a file that several threads write at once.

#![allow(unsafe_code)] // maps of files

use std::fs::File;
use std::os::fd::AsRawFd;

/// A shared map of the first `length` bytes of a file, to read and write. The file must not shrink
/// below what is accessed.
pub struct Map {
    start: *mut u8,
    length: usize,
}

// SAFETY: every access is a volatile access of a single byte; concurrent changes of other bytes are
// intended.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub fn of(file: &File, length: usize) -> Map {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        // SAFETY: a new map at a place of the kernel's choice, of an open file.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        let error = std::io::Error::last_os_error();
        assert!(start != libc::MAP_FAILED, "{error}");
        let start = start.cast();
        Map { start, length }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.length);
        // SAFETY: within the map.
        unsafe { self.start.add(offset) }
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        for (place, byte) in (offset..).zip(bytes) {
            // SAFETY: within the map, and no reference to its bytes exists.
            unsafe { self.at(place).write_volatile(*byte) };
        }
    }

    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        let places = offset..offset + length;
        // SAFETY: as in `write`.
        places
            .map(|place| unsafe { self.at(place).read_volatile() })
            .collect()
    }

    /// Writes the pages back that have bytes of this range.
    pub fn sync(&self, offset: usize, length: usize) {
        let first = offset / 4096 * 4096;
        let end = (offset + length).next_multiple_of(4096).min(self.length);
        // SAFETY: whole pages of the map.
        let done = unsafe { libc::msync(self.at(first).cast(), end - first, libc::MS_SYNC) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the map as it was made; no reference into it is left.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
