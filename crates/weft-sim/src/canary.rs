//! Deliberate defects. A simulation that misses them would miss real ones.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_kv::{Batch, KvError, MemKv, OrderedKv, Reader, Transaction};
use weft_store::{
    BlockingTask, BoxFuture, Buffer, FileKind, SimStorage, Slice, Storage, StorageFile,
};

/// A defect on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Writes of clients are acknowledged and not sent.
    Unsent,
    /// The servers' disks say that they synced, and did nothing.
    NoSync,
    /// The engine of the namespace says that it synced, and did nothing.
    NoNameSync,
    /// The servers' disks lose every eighth write of blocks that they acknowledge.
    LostBlocks,
    /// A server that starts again passes for the one that was there before.
    SameIncarnation,
    /// Clients claim nothing before cautious operations.
    NoClaims,
}

/// A disk with a defect.
pub(crate) struct Defective {
    disk: SimStorage,
    canary: Canary,
    writes: Arc<AtomicU64>,
}

impl Defective {
    pub(crate) fn new(disk: SimStorage, canary: Canary) -> Defective {
        Defective {
            disk,
            canary,
            writes: Arc::default(),
        }
    }
}

impl Storage for Defective {
    fn open(&self, name: &str, kind: FileKind) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(DefectiveFile {
            file: self.disk.open(name, kind)?,
            canary: self.canary,
            writes: self.writes.clone(),
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list()?;
        if self.canary == Canary::SameIncarnation {
            names.retain(|name| !name.starts_with("incarnations"));
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.disk.sync_folder()
    }

    fn available(&self) -> io::Result<u64> {
        self.disk.available()
    }

    fn run(&self, work: BlockingTask) -> BoxFuture<()> {
        self.disk.run(work)
    }
}

struct DefectiveFile {
    file: Arc<dyn StorageFile>,
    canary: Canary,
    writes: Arc<AtomicU64>,
}

impl StorageFile for DefectiveFile {
    fn read_at(&self, at: u64, buffers: Vec<Buffer>) -> BoxFuture<io::Result<Vec<Buffer>>> {
        self.file.read_at(at, buffers)
    }

    fn write_at(&self, at: u64, slices: Vec<Slice>) -> BoxFuture<io::Result<()>> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        if self.canary == Canary::LostBlocks && number % 8 == 7 {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.file.write_at(at, slices)
    }

    fn sync(&self) -> BoxFuture<io::Result<()>> {
        match self.canary {
            Canary::NoSync => Box::pin(std::future::ready(Ok(()))),
            _ => self.file.sync(),
        }
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        self.file.punch(at, length)
    }

    fn fill(&self, at: u64, length: u64) -> io::Result<()> {
        self.file.fill(at, length)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn write_buffered(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_buffered(at, bytes)
    }

    fn read_buffered(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        self.file.read_buffered(at, length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }
}

/// An engine that syncs nothing.
pub(crate) struct Unsynced(pub(crate) Arc<MemKv>);

impl OrderedKv for Unsynced {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        self.0.snapshot()
    }

    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        self.0.transact(work)
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        self.0.write(batch)
    }

    fn committed(&self) -> u64 {
        self.0.committed()
    }

    fn sync(&self) -> Result<(), KvError> {
        Ok(())
    }
}
