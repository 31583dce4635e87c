//! A folder of a real file system.
//!
//! The data file bypasses the page cache, by io_uring, or by threads if io_uring is forbidden; it
//! uses the page cache if direct I/O is refused (tmpfs). The log is written by plain `write`, which
//! takes microseconds: only a sync waits for the disk.

mod device;
mod ring;
mod workers;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::error::StoreError;
use crate::limits::{THREADS, THREADS_WITHOUT_RING};
use crate::pool::{Buffer, Slice};
use crate::storage::{BlockingTask, BoxFuture, FileKind, Storage, StorageFile};
use ring::Rings;
use workers::Workers;

pub use device::DeviceStorage;
pub(crate) use ring::submit_together;

/// Slices per call (`IOV_MAX`).
const PARTS_MAX: usize = 1024;
const LOCK: &str = "lock";

/// How a [`FolderStorage`] does I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoBackend {
    /// io_uring if the kernel allows it, else threads.
    Automatic,
    /// Threads, even if io_uring is available.
    Threads,
}

/// The files of one folder, which no other process has open.
pub struct FolderStorage {
    path: PathBuf,
    /// Open all the time: a sync must not fail for lack of a descriptor.
    folder: File,
    _lock: File,
    io_threads: IoThreads,
}

/// The rings and threads that carry out the operations of a disk.
#[derive(Clone)]
struct IoThreads {
    rings: Option<Arc<Rings>>,
    workers: Arc<Workers>,
}

impl IoThreads {
    fn start(reach: IoBackend, shown: &str) -> Result<Self, StoreError> {
        let rings = match reach {
            IoBackend::Threads => None,
            IoBackend::Automatic => match Rings::start() {
                Ok(rings) => Some(Arc::new(rings)),
                Err(error) => {
                    tracing::warn!(%error, "io_uring is not available; threads do the I/O");
                    None
                }
            },
        };
        let threads = if rings.is_some() {
            THREADS
        } else {
            THREADS_WITHOUT_RING
        };
        let workers =
            Workers::start(threads).map_err(|e| StoreError::io("start threads for", shown, &e))?;
        Ok(Self {
            rings,
            workers: Arc::new(workers),
        })
    }

    fn run(&self, work: BlockingTask) -> BoxFuture<()> {
        let done = self.workers.run(work);
        Box::pin(async move {
            // The worker drops its sender only after the work.
            let _ = done.await;
        })
    }
}

/// Options to read and write a file; a new one is private to its owner whatever the umask, because
/// it holds the bytes of files that other users may not read.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600);
    options
}

/// Opens a file for direct I/O if the file system allows it.
fn open_direct(path: &Path) -> io::Result<File> {
    let options = private_options();
    let direct = OFlags::DIRECT.bits().cast_signed();
    match options.clone().custom_flags(direct).open(path) {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            tracing::warn!(path = %path.display(), "direct I/O is refused; using the page cache");
            let file = options.open(path)?;
            // The store has its own cache; the kernel's read-ahead would only fill a second one.
            rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
            Ok(file)
        }
        other => other,
    }
}

impl FolderStorage {
    /// Opens a folder; creates it if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process, or this one, has it open.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, IoBackend::Automatic)
    }

    /// As [`FolderStorage::open`], with this backend.
    pub fn open_with(path: &Path, reach: IoBackend) -> Result<Self, StoreError> {
        let shown = path.display().to_string();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| StoreError::io("create", &shown, &e))?;
        let locked = path.join(LOCK);
        let shown = locked.display().to_string();
        let lock = private_options().open(&locked);
        let lock = lock.map_err(|e| StoreError::io("open", &shown, &e))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(StoreError::Locked { path: shown }),
            Err(e) => return Err(StoreError::io("lock", &shown, &e.into())),
        }
        let folder = File::open(path);
        Ok(Self {
            path: path.to_owned(),
            folder: folder.map_err(|e| StoreError::io("open", &path.display().to_string(), &e))?,
            _lock: lock,
            io_threads: IoThreads::start(reach, &shown)?,
        })
    }
}

impl Storage for FolderStorage {
    fn open(&self, name: &str, kind: FileKind) -> io::Result<Arc<dyn StorageFile>> {
        let path = self.path.join(name);
        let file = match kind {
            FileKind::Log => private_options().open(&path)?,
            FileKind::Data => open_direct(&path)?,
        };
        let length = AtomicU64::new(file.metadata()?.len());
        Ok(Arc::new(FolderFile {
            file: Arc::new(file),
            kind,
            base: 0,
            length,
            fixed: false,
            io_threads: self.io_threads.clone(),
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn available(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn run(&self, work: BlockingTask) -> BoxFuture<()> {
        self.io_threads.run(work)
    }
}

struct FolderFile {
    file: Arc<File>,
    kind: FileKind,
    /// The offset of its bytes in `file`.
    base: u64,
    /// Bytes allocated by `allocate`, or at open.
    length: AtomicU64,
    /// A device: it cannot grow.
    fixed: bool,
    io_threads: IoThreads,
}

impl FolderFile {
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<io::Result<T>> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let file = Arc::clone(&self.file);
        let _done = self.io_threads.workers.run(Box::new(move || {
            // The caller may have been cancelled.
            let _ = send.send(work(&file));
        }));
        Box::pin(async move {
            receive
                .await
                .unwrap_or_else(|_| Err(io::Error::other("the worker stopped")))
        })
    }
}

impl StorageFile for FolderFile {
    fn read_at(&self, at: u64, mut buffers: Vec<Buffer>) -> BoxFuture<io::Result<Vec<Buffer>>> {
        let at = self.base + at;
        if let Some(rings) = &self.io_threads.rings {
            return rings.of_thread().read(&self.file, at, buffers);
        }
        self.work(move |file| {
            let mut at = at;
            for buffer in &mut buffers {
                file.read_exact_at(buffer, at)?;
                at += buffer.len() as u64;
            }
            Ok(buffers)
        })
    }

    fn write_at(&self, at: u64, slices: Vec<Slice>) -> BoxFuture<io::Result<()>> {
        let at = self.base + at;
        if let Some(rings) = &self.io_threads.rings {
            return rings.of_thread().write(&self.file, at, slices);
        }
        self.work(move |file| {
            let mut at = at;
            for slice in &slices {
                file.write_all_at(slice, at)?;
                at += slice.len() as u64;
            }
            Ok(())
        })
    }

    fn sync(&self) -> BoxFuture<io::Result<()>> {
        if let Some(rings) = &self.io_threads.rings {
            return rings.of_thread().sync(&self.file);
        }
        self.work(File::sync_data)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let flags = match self.kind {
            FileKind::Data => FallocateFlags::empty(),
            FileKind::Log => FallocateFlags::KEEP_SIZE,
        };
        let from = self.length.load(Relaxed).min(length);
        if from == length {
            return Ok(());
        }
        if self.fixed {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match rustix::fs::fallocate(&*self.file, flags, from, length - from) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => {
                if self.kind == FileKind::Data {
                    self.file.set_len(length)?;
                }
            }
            Err(e) => return Err(e.into()),
        }
        if self.kind == FileKind::Data {
            self.length.fetch_max(length, Relaxed);
        }
        Ok(())
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        if self.fixed {
            return device::discard(&self.file, self.base + at, length);
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&*self.file, flags, at, length)?)
    }

    fn fill(&self, at: u64, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(
            &*self.file,
            FallocateFlags::KEEP_SIZE,
            self.base + at,
            length,
        ) {
            // A device is allocated; a file system that cannot reserve space fails at the write.
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL) => Ok(()),
            done => Ok(done?),
        }
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        let file = self.file.metadata()?;
        if file.file_type().is_block_device() {
            return Ok(self.length.load(Relaxed));
        }
        Ok((file.blocks() * 512).saturating_sub(self.base))
    }

    fn write_buffered(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn write_buffered_vectored(&self, mut at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let some = &rest[..rest.len().min(PARTS_MAX)];
            let written = match rustix::io::pwritev(&self.file, some, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            at += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    fn read_buffered(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = self.file.metadata()?.len();
        let length = length.min(end.saturating_sub(at) as usize);
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    fn length(&self) -> io::Result<u64> {
        if self.fixed {
            return Ok(self.length.load(Relaxed));
        }
        Ok(self.file.metadata()?.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length.store(length, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_beyond_the_limit_of_one_call_are_written_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let storage = FolderStorage::open_with(folder.path(), IoBackend::Threads).unwrap();
        let file = storage.open("log", FileKind::Log).unwrap();
        let bytes: Vec<u8> = (0..3 * PARTS_MAX * 7).map(|n| (n % 251) as u8).collect();
        let parts: Vec<&[u8]> = bytes.chunks(7).collect();
        file.write_buffered_vectored(5, &parts).unwrap();
        file.write_buffered_vectored(bytes.len() as u64 + 5, &[b"end"])
            .unwrap();
        let found = file.read_buffered(5, bytes.len() + 3).unwrap();
        assert!(found == [&bytes[..], b"end"].concat());
    }
}
