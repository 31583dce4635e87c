//! Deliberate defects. A simulation that misses them would miss real ones.

use std::io;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_kv::{Batch, KvError, MemKv, OrderedKv, Reader, Space, Transaction};
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
    /// A sync does not cover what the client has not reported yet.
    SyncBesideReports,
    /// Clients never hear that others wait for their directories.
    DeafHolder,
    /// The engine of the namespace loses every sixteenth name that is made.
    LostNames,
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

/// Where the namespace keeps names.
const ENTRIES: Space = Space("entries");

/// An engine that loses every sixteenth name that is made.
pub(crate) struct Forgetful {
    kv: Arc<MemKv>,
    names: AtomicU64,
}

impl Forgetful {
    pub(crate) fn new(kv: Arc<MemKv>) -> Forgetful {
        Forgetful {
            kv,
            names: AtomicU64::new(0),
        }
    }
}

/// Its transactions.
struct Forgetting<'a> {
    tx: &'a mut dyn Transaction,
    names: &'a AtomicU64,
}

impl Reader for Forgetting<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.tx.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        self.tx.scan(space, from, to, visit)
    }
}

impl Transaction for Forgetting<'_> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        let number = self
            .names
            .fetch_add(u64::from(space == ENTRIES), Ordering::Relaxed);
        if space != ENTRIES || number % 16 != 15 {
            self.tx.put(space, key, value);
        }
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        self.tx.delete(space, key);
    }
}

impl OrderedKv for Forgetful {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        self.kv.snapshot()
    }

    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let names = &self.names;
        self.kv
            .transact(&mut |tx| work(&mut Forgetting { tx, names }))
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        self.kv.write(batch)
    }

    fn committed(&self) -> u64 {
        self.kv.committed()
    }

    fn sync(&self) -> Result<(), KvError> {
        self.kv.sync()
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
