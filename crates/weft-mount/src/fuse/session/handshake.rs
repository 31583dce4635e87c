//! The first request: both sides state their capabilities.

use std::io;
use std::sync::Arc;

use zerocopy::{FromBytes, IntoBytes};

use crate::fuse::device::abi::{InitIn, InitOut, MAJOR, MINOR, MINOR_OLDEST, init, opcode};
use crate::fuse::device::{Answer, Buffers, Device, Incoming, Reader};
use crate::fuse::mount::MountError;
use crate::limits::{BACKGROUND_REQUESTS_MAX, REQUEST_PAGES_MAX};

/// The outcome of the handshake with the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Negotiated {
    /// The kernel's minor version.
    pub minor: u32,
    /// Bytes of the largest request.
    pub max_write: u32,
    /// Bytes that the kernel reads ahead, before the mount raises it.
    pub max_readahead: u32,
    /// The capabilities in use.
    pub flags: u64,
    /// The number of the kernel's first request.
    pub(super) first_request: u64,
}

/// The capabilities that the mount uses if the kernel offers them.
///
/// Not `WRITEBACK_CACHE`: with it the kernel trusts only itself about a file's size and times, so
/// data that other clients append stays invisible. Not `AUTO_INVAL_DATA`: an open checks whether
/// the file has changed, and drops its pages then. Not `EXPLICIT_INVAL_DATA`: a program that learns
/// that a file is longer must not find the page in which it ended before, with zeros behind the old
/// end. No file is opened with `NOFLUSH`, not even for reading: a close must report whose locks
/// end.
const WANTED: u64 = init::ASYNC_READ
    | init::POSIX_LOCKS
    | init::FLOCK_LOCKS
    | init::ATOMIC_O_TRUNC
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::DO_READDIRPLUS
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::POSIX_ACL
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP
    | init::OVER_IO_URING;

impl Negotiated {
    /// Whether requests come through rings.
    pub(super) fn over_io_uring(&self) -> bool {
        self.flags & init::OVER_IO_URING != 0
    }

    /// Bytes of the largest request or answer, without headers.
    pub(super) fn payload_max(&self) -> usize {
        // The kernel's `FUSE_MIN_READ_BUFFER`.
        (self.max_write as usize).max(8192)
    }

    /// Whether programs can make shared mappings of a file that is open for direct I/O: from Linux
    /// 6.6 on.
    pub(super) fn maps_past_pages(&self) -> bool {
        self.flags & init::DIRECT_IO_ALLOW_MMAP != 0
    }
}

const PAGE: u32 = 4096;

/// Bytes of a reader's buffer: the data of the largest write, or the longest extended attribute.
fn buffer_length(pages: u32) -> usize {
    (pages * PAGE) as usize + 2 * PAGE as usize
}

/// Pages of the largest request that the kernel makes; root may raise the kernel's limit.
fn kernel_pages_max() -> u32 {
    std::fs::read_to_string("/proc/sys/fs/fuse/max_pages_limit")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(256)
        .clamp(32, REQUEST_PAGES_MAX)
}

pub(super) fn buffers() -> Buffers {
    Buffers::new(buffer_length(kernel_pages_max()))
}

/// Answers the kernel's first request. `rings`: requests may come through rings.
pub(super) fn handshake(
    device: &Arc<Device>,
    buffers: &Buffers,
    rings: bool,
) -> Result<Negotiated, MountError> {
    let mut reader = Reader::new(buffers);
    loop {
        let gone = || {
            MountError::Device(io::Error::other(
                "the volume was unmounted during the handshake",
            ))
        };
        let request = device.receive(&mut reader)?.ok_or_else(gone)?;
        let unique = request.header.unique;
        let reply = Answer::by_device(device.clone(), unique);
        if request.header.opcode != opcode::INIT {
            reply.refuse(libc::EIO);
            continue;
        }
        let (wants, flags2) = read(&request).ok_or_else(|| {
            MountError::Device(io::Error::other("the kernel's INIT request is too short"))
        })?;
        if wants.major > MAJOR {
            // The kernel repeats the request in the version that the reply names.
            let answer = InitOut {
                major: MAJOR,
                minor: MINOR,
                ..InitOut::default()
            };
            reply.reply(&[answer.as_bytes()]);
            continue;
        }
        if wants.major < MAJOR || wants.minor < MINOR_OLDEST {
            reply.refuse(libc::EPROTO);
            return Err(MountError::Version {
                major: wants.major,
                minor: wants.minor,
            });
        }
        let mut offered = u64::from(wants.flags) | u64::from(flags2) << 32;
        if !rings {
            offered &= !init::OVER_IO_URING;
        }
        let (answer, negotiated) = answer(&wants, offered, kernel_pages_max());
        reply.reply(&[answer.as_bytes()]);
        return Ok(Negotiated {
            first_request: unique,
            ..negotiated
        });
    }
}

fn read(request: &Incoming) -> Option<(InitIn, u32)> {
    let (wants, rest) = request.argument::<InitIn>()?;
    let extended = u64::from(wants.flags) & init::INIT_EXT != 0;
    let flags2 = u32::read_from_prefix(rest).map_or(0, |(flags, _)| flags);
    Some((wants, if extended { flags2 } else { 0 }))
}

fn answer(wants: &InitIn, offered: u64, pages: u32) -> (InitOut, Negotiated) {
    let flags = WANTED & offered;
    let pages = if flags & init::MAX_PAGES == 0 {
        32
    } else {
        pages
    };
    let answer = InitOut {
        major: MAJOR,
        minor: wants.minor.min(MINOR),
        max_readahead: wants.max_readahead,
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: BACKGROUND_REQUESTS_MAX,
        congestion_threshold: BACKGROUND_REQUESTS_MAX / 4 * 3,
        max_write: pages * PAGE,
        time_gran: 1,
        max_pages: pages as u16,
        ..InitOut::default()
    };
    let negotiated = Negotiated {
        minor: answer.minor,
        max_write: answer.max_write,
        max_readahead: answer.max_readahead,
        flags,
        first_request: 0,
    };
    (answer, negotiated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_capabilities_that_the_kernel_offers_are_used() {
        let wants = InitIn {
            major: 7,
            minor: 31,
            max_readahead: 131_072,
            flags: (init::ASYNC_READ | init::BIG_WRITES) as u32,
        };
        let (answer, negotiated) = answer(&wants, wants.flags.into(), 256);
        assert_eq!(negotiated.flags, init::ASYNC_READ | init::BIG_WRITES);
        assert_eq!((answer.minor, answer.max_write), (31, 128 << 10));
        assert!(!negotiated.maps_past_pages());
    }

    #[test]
    fn requests_may_be_as_large_as_the_kernel_allows() {
        let wants = InitIn {
            major: 7,
            minor: 45,
            max_readahead: 131_072,
            flags: u32::MAX,
        };
        let (answer, negotiated) = answer(&wants, u64::MAX, 256);
        assert_eq!(
            (answer.minor, answer.max_write, answer.max_pages),
            (MINOR, 1 << 20, 256)
        );
        assert_eq!(negotiated.flags, WANTED);
        assert!(negotiated.maps_past_pages());
        assert_eq!(
            negotiated.flags & (1 << 16),
            0,
            "the kernel's writeback cache is not used"
        );
    }
}
