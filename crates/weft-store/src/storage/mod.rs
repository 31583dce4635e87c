//! The storage seam: the files of one folder or device.
//!
//! Implementations: [`crate::FolderStorage`] over io_uring or threads, and [`crate::SimStorage`] in
//! memory. The store's logic uses no file, thread or clock of the system directly. Blocking work on
//! the index goes through [`Storage::run`], which runs it inline under simulation.

mod folder;
pub mod sim;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use crate::pool::{Buffer, Slice};

pub use folder::{DeviceStorage, FolderStorage, IoBackend};

/// Passes to the disks together what a future starts in one poll, such as the reads of a list: one
/// system call and one notice to the disk instead of many. Changes nothing but speed.
pub async fn together<F: Future>(future: F) -> F::Output {
    folder::submit_together(future).await
}

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
    /// Opens a file; creates it if it is missing.
    fn open(&self, name: &str, kind: FileKind) -> io::Result<Arc<dyn StorageFile>>;

    /// Names of the files of the folder, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a file; durable after [`Storage::sync_folder`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Waits until creations and removals are on stable storage.
    fn sync_folder(&self) -> io::Result<()>;

    /// Bytes by which files of the folder can still grow.
    fn available(&self) -> io::Result<u64>;

    /// Whether its files can grow; a device's cannot.
    fn grows(&self) -> bool {
        true
    }

    /// Runs blocking work on another thread; the future resolves when the work has ended. Dropping
    /// the future does not stop the work.
    fn run(&self, work: BlockingTask) -> BoxFuture<()>;
}

/// One file.
///
/// # Cancellation
/// Dropping a future does not stop its operation; the buffers live until it ends.
pub trait StorageFile: Send + Sync {
    /// Fills `buffers` in order with the bytes from `at` on; offset and lengths are multiples of 4
    /// KiB. Reading beyond the end of the file is an error.
    fn read_at(&self, at: u64, buffers: Vec<Buffer>) -> BoxFuture<io::Result<Vec<Buffer>>>;

    /// Writes `slices` in order from `at` on; offset and lengths are multiples of 4 KiB.
    fn write_at(&self, at: u64, slices: Vec<Slice>) -> BoxFuture<io::Result<()>>;

    /// Waits until everything written before the call is on stable storage.
    fn sync(&self) -> BoxFuture<io::Result<()>>;

    /// Allocates the file's bytes below `length` on the disk; grows the file if it is shorter and
    /// of kind [`FileKind::Data`].
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Returns the space of unreferenced bytes to the host; the file keeps its length. Until they
    /// are written again, their contents are unspecified. Multiples of 4 KiB.
    fn punch(&self, at: u64, length: u64) -> io::Result<()>;

    /// Allocates punched bytes within the file again; allocated bytes stay as they are.
    fn fill(&self, at: u64, length: u64) -> io::Result<()>;

    /// Bytes that the file occupies on its host.
    fn allocated_bytes(&self) -> io::Result<u64>;

    /// Writes through the page cache: takes microseconds, and survives a kill of the process.
    fn write_buffered(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// As [`StorageFile::write_buffered`], of several slices in order.
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

    /// Sets the file's length; durable after [`StorageFile::sync`].
    fn truncate(&self, length: u64) -> io::Result<()>;
}
