//! The disk as a file, `disk`, under a path: the kernel's FUSE interface as far as a loop device
//! needs it.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::mount::MountFlags;

use super::disk::Disk;

const ROOT: u64 = 1;
const DISK: u64 = 2;
/// Bytes of the largest read or write.
const LARGEST: u32 = 1 << 20;
const HEADER: usize = 40;
const BIG_WRITES: u32 = 1 << 5;
const MAX_PAGES: u32 = 1 << 22;

/// Mounts; the thread ends with the mount.
pub fn mount(path: &Path, disk: Arc<Disk>) -> io::Result<JoinHandle<()>> {
    let kernel = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")?;
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0",
        kernel.as_raw_fd()
    );
    let (data, flags) = (CString::new(data)?, MountFlags::NODEV | MountFlags::NOSUID);
    rustix::mount::mount("weft-power", path, "fuse", flags, data.as_c_str())?;
    Ok(std::thread::spawn(move || serve(&kernel, &disk)))
}

fn serve(mut kernel: &File, disk: &Disk) {
    let mut request = vec![0; LARGEST as usize + 8192];
    loop {
        let length = match kernel.read(&mut request) {
            Ok(length) => length,
            Err(e) => match e.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR | libc::EAGAIN) => continue,
                // The mount has ended.
                _ => return,
            },
        };
        let unique = long(&request, 8);
        let (error, body) = match answer(&request[..length], disk) {
            Some(Ok(body)) => (0, body),
            Some(Err(e)) => (-e.raw_os_error().unwrap_or(libc::EIO), Vec::new()),
            None => continue,
        };
        let mut head = Vec::with_capacity(16);
        put(&mut head, &[16 + body.len() as u32, error.cast_unsigned()]);
        head.extend(unique.to_le_bytes());
        // The request was interrupted, or the mount has ended: no reply is expected.
        let _ = kernel.write_vectored(&[IoSlice::new(&head), IoSlice::new(&body)]);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_le_bytes());
    }
}

fn attributes(out: &mut Vec<u8>, node: u64, disk: &Disk) {
    let (mode, size) = if node == ROOT {
        (0o040_700, 0)
    } else {
        (0o100_600, disk.bytes())
    };
    for field in [node, size, size / 512, 0, 0, 0] {
        out.extend(field.to_le_bytes());
    }
    put(out, &[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]);
}

/// The answer's body; `None` where the kernel expects none.
fn answer(request: &[u8], disk: &Disk) -> Option<io::Result<Vec<u8>>> {
    let (code, node, body) = (word(request, 4), long(request, 16), &request[HEADER..]);
    let mut out = Vec::new();
    let refused = |errno| Some(Err(io::Error::from_raw_os_error(errno)));
    match code {
        // LOOKUP
        1 => {
            if node != ROOT || body != b"disk\0" {
                return refused(libc::ENOENT);
            }
            for field in [DISK, 0, 3600, 3600, 0] {
                out.extend(u64::to_le_bytes(field));
            }
            attributes(&mut out, DISK, disk);
        }
        // FORGET, INTERRUPT, BATCH_FORGET
        2 | 36 | 42 => return None,
        // GETATTR
        3 => {
            put(&mut out, &[3600, 0, 0, 0]);
            attributes(&mut out, node, disk);
        }
        // OPEN
        14 => out.resize(16, 0),
        // READ
        15 => return Some(disk.read(long(body, 8), word(body, 16) as usize)),
        // WRITE
        16 => {
            let length = word(body, 16);
            if let Err(error) = disk.write(long(body, 8), &body[40..40 + length as usize]) {
                return Some(Err(error));
            }
            put(&mut out, &[length, 0]);
        }
        // STATFS
        17 => out.resize(80, 0),
        // RELEASE, FLUSH, DESTROY
        18 | 25 | 38 => {}
        // FSYNC
        20 => return Some(disk.flush().map(|()| out)),
        // INIT
        26 => {
            let flags = word(body, 12) & (BIG_WRITES | MAX_PAGES);
            put(
                &mut out,
                &[
                    7,
                    31,
                    word(body, 8),
                    flags,
                    48 << 16 | 64,
                    LARGEST,
                    1,
                    LARGEST / 4096,
                ],
            );
            out.resize(64, 0);
        }
        _ => return refused(libc::ENOSYS),
    }
    Some(Ok(out))
}
