#![allow(unsafe_code)] // Discarding is a request to the device by ioctl.
//! A raw block device, or a regular file of fixed size in its place, as a disk of a store.
//!
//! The label is in the first block, the data begins at the first mebibyte; nothing grows.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::ioctl::Setter;

use super::{FolderFile, IoThreads, open_direct};
use crate::error::StoreError;
use crate::pool::{BLOCK, Buffer, Slice};
use crate::storage::{BlockingTask, BoxFuture, FileKind, Storage, StorageFile};

/// Offset of the data.
const DATA_AT: u64 = 1 << 20;
/// Bytes at the front that must be zero on a new device.
const FRONT: usize = 64 << 10;
/// The request that discards a range of a block device (linux/fs.h).
const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);
const LABEL: &str = "label";
const MAGIC: &[u8] = b"WfD";

/// A block device that no other process has open.
pub struct DeviceStorage {
    path: PathBuf,
    file: Arc<File>,
    size: u64,
    io_threads: IoThreads,
}

impl DeviceStorage {
    /// Opens a device, or a regular file of at least 2 MiB.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it open, or it is mounted.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let shown = path.display().to_string();
        let fail = |doing: &'static str| {
            let shown = shown.clone();
            move |e: io::Error| StoreError::io(doing, &shown, &e)
        };
        let kind = std::fs::metadata(path).map_err(fail("look at"))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if kind.file_type().is_block_device() {
            // With it the kernel refuses a mounted device.
            options.custom_flags(OFlags::EXCL.bits().cast_signed());
        }
        let mut file = match options.open(path) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                return Err(StoreError::Locked { path: shown });
            }
            other => other.map_err(fail("open"))?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(StoreError::Locked { path: shown }),
            Err(e) => return Err(StoreError::io("lock", &shown, &e.into())),
        }
        let size = file.seek(SeekFrom::End(0)).map_err(fail("measure"))?;
        if size < 2 * DATA_AT {
            let reason = format!("{size} bytes are too few: a device needs 2 MiB");
            return Err(StoreError::Disk {
                path: shown,
                reason,
            });
        }
        let io_threads = IoThreads::start(super::IoBackend::Automatic, &shown)?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            size: (size - DATA_AT) / BLOCK as u64 * BLOCK as u64,
            io_threads,
        })
    }

    fn front(&self) -> io::Result<Vec<u8>> {
        let mut front = vec![0; FRONT];
        self.file.read_exact_at(&mut front, 0)?;
        Ok(front)
    }
}

impl Storage for DeviceStorage {
    fn open(&self, name: &str, kind: FileKind) -> io::Result<Arc<dyn StorageFile>> {
        if name == LABEL {
            return Ok(Arc::new(Label(Arc::clone(&self.file))));
        }
        Ok(Arc::new(FolderFile {
            file: Arc::new(open_direct(&self.path)?),
            kind,
            base: DATA_AT,
            length: AtomicU64::new(self.size),
            fixed: true,
            io_threads: self.io_threads.clone(),
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let front = self.front()?;
        let mut names = vec!["data".to_owned()];
        if front.starts_with(MAGIC) {
            names.push(LABEL.to_owned());
        } else if front.iter().any(|b| *b != 0) {
            names.push("something that is not a disk of a store".to_owned());
        }
        Ok(names)
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn available(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn grows(&self) -> bool {
        false
    }

    fn run(&self, work: BlockingTask) -> BoxFuture<()> {
        self.io_threads.run(work)
    }
}

/// Discards bytes of a device; punches a hole into a file in its place.
pub(super) fn discard(file: &File, at: u64, length: u64) -> io::Result<()> {
    if !file.metadata()?.file_type().is_block_device() {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        return Ok(rustix::fs::fallocate(file, flags, at, length)?);
    }
    // SAFETY: BLKDISCARD reads two 64-bit numbers, start and length in bytes, from the address it
    // is given, and nothing else.
    let range = unsafe { Setter::<BLKDISCARD, [u64; 2]>::new([at, length]) };
    // SAFETY: `range` is this request's argument; the caller owns the device and refers to none of
    // these bytes.
    Ok(unsafe { rustix::ioctl::ioctl(file, range) }?)
}

/// The first block of a device.
struct Label(Arc<File>);

fn never<T: Send + 'static>() -> BoxFuture<io::Result<T>> {
    Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
}

impl StorageFile for Label {
    fn read_at(&self, _: u64, _: Vec<Buffer>) -> BoxFuture<io::Result<Vec<Buffer>>> {
        never()
    }

    fn write_at(&self, _: u64, _: Vec<Slice>) -> BoxFuture<io::Result<()>> {
        never()
    }

    fn sync(&self) -> BoxFuture<io::Result<()>> {
        Box::pin(std::future::ready(self.0.sync_all()))
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn fill(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(BLOCK as u64)
    }

    /// Writes the whole block: a label is written once, after a truncation to nothing.
    fn write_buffered(&self, _: u64, bytes: &[u8]) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        let held = bytes.len().min(BLOCK);
        block[..held].copy_from_slice(&bytes[..held]);
        self.0.write_all_at(&block, 0)
    }

    fn read_buffered(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = BLOCK.saturating_sub(at as usize);
        let mut bytes = vec![0; length.min(left)];
        self.0.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(BLOCK as u64)
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
