//! The storage seam: the files of one folder, as the store needs them.
//!
//! Three implementations: [`crate::FolderStorage`] over io_uring or threads, and
//! [`crate::SimStorage`] in memory. The store's logic names no file, thread or clock; blocking work
//! on the index goes through [`Storage::run`], which is inline under simulation.

mod folder;
pub mod sim;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use crate::pool::{Buffer, Slice};

pub use folder::{DeviceStorage, FolderStorage, IoBackend};

/// A future in a box.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Blocking work for [`Storage::run`].
pub type BlockingTask = Box<dyn FnOnce() + Send>;

/// How a file will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Aligned blocks, past the page cache where the system allows it.
    Data,
    /// Bytes, through the page cache.
    Log,
}

/// The files of one folder.
pub trait Storage: Send + Sync {
    /// Opens a file, creating it where it is missing.
    fn open(&self, name: &str, kind: FileKind) -> io::Result<Arc<dyn StorageFile>>;

    /// Names of the files of the folder, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a file; durable after [`Storage::sync_folder`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Waits until creations and removals are on stable storage.
    fn sync_folder(&self) -> io::Result<()>;

    /// Bytes that files of the folder could still grow by.
    fn available(&self) -> io::Result<u64>;

    /// Whether its files can grow; a device's cannot.
    fn grows(&self) -> bool {
        true
    }

    /// Runs blocking work beside the callers; the future ends when the work has.
    /// Dropping the future does not stop the work.
    fn run(&self, work: BlockingTask) -> BoxFuture<()>;
}

/// One file.
///
/// # Cancellation
/// An operation that has begun goes on when its future is dropped; its buffers live until it ends.
pub trait StorageFile: Send + Sync {
    /// Fills `buffers` one after the other with the bytes from `at` on; both are multiples of 4
    /// KiB. Bytes beyond the end of the file are an error.
    fn read_at(&self, at: u64, buffers: Vec<Buffer>) -> BoxFuture<io::Result<Vec<Buffer>>>;

    /// Writes `slices` one after the other from `at` on; all are multiples of 4 KiB.
    fn write_at(&self, at: u64, slices: Vec<Slice>) -> BoxFuture<io::Result<()>>;

    /// Waits until everything written before the call is on stable storage.
    fn sync(&self) -> BoxFuture<io::Result<()>>;

    /// Gives the file's bytes below `length` a place on the disk; grows the file if need be when
    /// it is of kind [`FileKind::Data`].
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Gives the place of bytes that nothing refers to back to the host; the file keeps its length.
    /// What is read there until it is written again is anything. Multiples of 4 KiB.
    fn punch(&self, at: u64, length: u64) -> io::Result<()>;

    /// Gives bytes within the file that were punched a place again; bytes that have one stay as
    /// they are.
    fn fill(&self, at: u64, length: u64) -> io::Result<()>;

    /// Bytes that the file takes of its host.
    fn allocated_bytes(&self) -> io::Result<u64>;

    /// Writes through the page cache: microseconds, and out of reach of a kill of the process.
    fn write_buffered(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// As [`StorageFile::write_buffered`], of parts one after the other.
    fn write_buffered_vectored(&self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        match parts {
            [one] => self.write_buffered(at, one),
            parts => self.write_buffered(at, &parts.concat()),
        }
    }

    /// Reads through the page cache; short at the end of the file.
    fn read_buffered(&self, at: u64, length: usize) -> io::Result<Vec<u8>>;

    /// The file's length.
    fn length(&self) -> io::Result<u64>;

    /// Cuts the file; durable after [`StorageFile::sync`].
    fn truncate(&self, length: u64) -> io::Result<()>;
}
