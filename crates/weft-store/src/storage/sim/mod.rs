//! A disk in memory that knows what was synced.
//!
//! The fault model. A *kill* keeps everything that was written; the operation in flight may take
//! effect in part (a few bytes that overwrite others: wholly or not at all). A *loss of power*
//! keeps what was synced. Each sector of 512 bytes of any other write is kept or lost, and so is
//! each creation or removal of a file, as the seed decides; an unsynced growth, punch or allocation
//! is kept or lost as a whole. Punched bytes read as zeros. Reads never return bytes written to
//! another offset. Faults can be placed: the n-th operation fails, or every operation from the n-th
//! on does (the process died).
//!
//! A machine may have several disks ([`SimStorage::disk`]): they share a life and a count of
//! operations, and each has its own capacity; one disk can break and recover alone.
//!
//! An index outside of the disks takes part by [`SimStorage::step`].
//!
//! Operations are counted from 1 in the order they begin; each takes effect when its future is
//! first polled past a few yields, so that concurrent operations interleave as the seed decides.

mod content;
mod rot;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::pool::{Buffer, Slice};
use crate::storage::{BlockingTask, BoxFuture, FileKind, Storage, StorageFile};
use content::{Change, Content, Dice, SimFile};

const SECTOR: usize = 512;
/// An overwrite of up to this many bytes within a sector is atomic in a kill.
const ATOMIC_BYTES: usize = 32;

#[derive(Debug)]
struct Machine {
    files: BTreeMap<String, SimFile>,
    /// Removed files whose removal was not synced.
    removed: BTreeMap<String, SimFile>,
    /// Capacity in bytes by disk.
    capacity: BTreeMap<String, u64>,
    /// Disks whose every operation fails.
    broken: BTreeSet<String>,
    /// No file can be removed.
    keep_files: bool,
    dice: Dice,
    operations: u64,
    fail_at: BTreeMap<u64, io::ErrorKind>,
    die_at: Option<u64>,
    dead: bool,
    /// Every crash increases it: an operation of an earlier life does nothing.
    life: u64,
}

/// A disk in memory; clones share it. It survives the store that uses it.
#[derive(Clone, Debug)]
pub struct SimStorage(Arc<Mutex<Machine>>, String, Option<u64>);

/// The disk of a file's name.
fn disk_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(disk, _)| disk)
}

fn died() -> io::Error {
    io::Error::other("the simulated process has died")
}

impl Machine {
    /// Counts an operation; `Ok(true)`: it is the last one of this life and takes effect in part.
    fn begin(&mut self, life: u64, disk: &str) -> io::Result<bool> {
        if self.dead || life != self.life {
            return Err(died());
        }
        self.operations += 1;
        self.check(disk)?;
        if let Some(kind) = self.fail_at.remove(&self.operations) {
            return Err(kind.into());
        }
        if self.die_at == Some(self.operations) {
            self.dead = true;
            return Ok(true);
        }
        Ok(false)
    }

    fn check(&self, disk: &str) -> io::Result<()> {
        if self.broken.contains(disk) {
            return Err(io::Error::other("the simulated disk is broken"));
        }
        Ok(())
    }

    fn capacity_of(&self, name: &str) -> u64 {
        *self.capacity.get(disk_of(name)).unwrap_or(&u64::MAX)
    }

    fn file(&mut self, name: &str) -> io::Result<&mut SimFile> {
        self.files
            .get_mut(name)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Bytes used on a file's disk.
    fn used(&self, name: &str) -> u64 {
        let on = self
            .files
            .iter()
            .filter(|(n, _)| disk_of(n) == disk_of(name));
        on.map(|(_, f)| f.held()).sum()
    }

    /// Writes; if the process dies in this operation, only a prefix, in multiples of `unit` bytes.
    fn write(
        &mut self,
        life: u64,
        name: &str,
        at: u64,
        bytes: &[u8],
        unit: usize,
    ) -> io::Result<()> {
        let last = self.begin(life, disk_of(name))?;
        let inside = at + bytes.len() as u64 <= self.file(name)?.now.length;
        let kept = if !last {
            bytes.len()
        } else if inside
            && bytes.len() <= ATOMIC_BYTES
            && at as usize % SECTOR + bytes.len() <= SECTOR
        {
            bytes.len() * usize::from(self.dice.flip())
        } else {
            self.dice.roll() as usize % (bytes.len() + 1) / unit * unit
        };
        let capacity = self.capacity_of(name);
        let file = self.file(name)?;
        let end = file.now.length.max(file.reserved);
        let grown =
            (at + kept as u64).saturating_sub(end) + file.now.without_place(at, kept as u64);
        if grown > 0 && self.used(name) + grown > capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = self.file(name)?;
        if kept > 0 {
            file.now.write(at, &bytes[..kept]);
            file.unsynced
                .push(Change::Write(at, bytes[..kept].to_vec()));
        }
        if last { Err(died()) } else { Ok(()) }
    }

    /// How many bytes take effect of an operation in which the process dies: whole blocks.
    fn torn_length(&mut self, length: u64) -> u64 {
        let unit = crate::pool::BLOCK as u64;
        self.dice.roll() % (length / unit + 1) * unit
    }

    fn sync(&mut self, life: u64, name: &str) -> io::Result<()> {
        let last = self.begin(life, disk_of(name))?;
        if last && self.dice.flip() {
            return Err(died());
        }
        let file = self.file(name)?;
        file.durable = file.now.clone();
        file.unsynced.clear();
        if last { Err(died()) } else { Ok(()) }
    }

    fn lose_power(&mut self) {
        let mut dice = self.dice.clone();
        for (name, file) in std::mem::take(&mut self.removed) {
            // The removal may not have reached the disk.
            if dice.flip() && !self.files.contains_key(&name) {
                self.files.insert(name, file);
            }
        }
        self.files
            .retain(|_, file| file.entry_durable || dice.flip());
        for file in self.files.values_mut() {
            let mut content = file.durable.clone();
            for change in file.unsynced.drain(..) {
                match change {
                    Change::Length(length) if dice.flip() => content.set_length(length),
                    Change::Punch(at, length) if dice.flip() => content.punch(at, length),
                    Change::Fill(at, length) if dice.flip() => content.fill(at, length),
                    Change::Length(_) | Change::Punch(..) | Change::Fill(..) => {}
                    Change::Write(at, bytes) => {
                        let mut from = 0;
                        // Whole writes are kept or lost more often than torn.
                        let fate = dice.roll() % 3;
                        while from < bytes.len() {
                            let place = at as usize + from;
                            let to = bytes.len().min(from + SECTOR - place % SECTOR);
                            if fate == 0 || (fate == 1 && dice.flip()) {
                                content.write(place as u64, &bytes[from..to]);
                            }
                            from = to;
                        }
                    }
                }
            }
            file.durable = content.clone();
            file.now = content;
            file.entry_durable = true;
        }
        self.dice = dice;
    }
}

impl SimStorage {
    /// An empty disk whose interleavings and losses follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(
            Arc::new(Mutex::new(Machine {
                files: BTreeMap::new(),
                removed: BTreeMap::new(),
                capacity: BTreeMap::new(),
                broken: BTreeSet::new(),
                keep_files: false,
                dice: Dice(seed),
                operations: 0,
                fail_at: BTreeMap::new(),
                die_at: None,
                dead: false,
                life: 0,
            })),
            String::new(),
            None,
        )
    }

    /// Another disk of the same machine.
    #[must_use]
    pub fn disk(&self, name: &str) -> Self {
        Self(Arc::clone(&self.0), name.to_owned(), self.2)
    }

    /// The disk for this life of the process: a task that outlives a crash cannot change it.
    #[must_use]
    pub fn this_life(&self) -> Self {
        Self(Arc::clone(&self.0), self.1.clone(), Some(self.life()))
    }

    /// The life that an operation belongs to.
    fn life_in(&self, disk: &Machine) -> u64 {
        self.2.unwrap_or(disk.life)
    }

    /// Bounds the bytes of all files of this disk.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity.insert(self.1.clone(), bytes);
    }

    /// Sets whether every operation of this disk fails.
    pub fn set_broken(&self, broken: bool) {
        let mut machine = self.0.lock();
        if broken {
            machine.broken.insert(self.1.clone());
        } else {
            machine.broken.remove(&self.1);
        }
    }

    /// Sets whether removals of files fail on this machine.
    pub fn keep_files(&self, keep_files: bool) {
        self.0.lock().keep_files = keep_files;
    }

    fn full_name(&self, name: &str) -> String {
        match self.1.as_str() {
            "" => name.to_owned(),
            disk => format!("{disk}/{name}"),
        }
    }

    /// The count of operations.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// The number of this life of the process; every crash increases it.
    pub fn life(&self) -> u64 {
        self.0.lock().life
    }

    /// Counts an operation of a component that shares the process's life, such as an index.
    /// `Ok(true)`: it is the last one of this life, and has no effect.
    ///
    /// # Errors
    /// If the process of that life has died, or the operation is set to fail.
    pub fn step(&self, life: u64) -> io::Result<bool> {
        self.0.lock().begin(life, &self.1)
    }

    /// The `n`-th operation fails with this kind of error and has no effect.
    pub fn fail_at(&self, n: u64, kind: io::ErrorKind) {
        self.0.lock().fail_at.insert(n, kind);
    }

    /// The process dies in the `n`-th operation, which takes effect in part or not at all.
    pub fn die_at(&self, n: u64) {
        self.0.lock().die_at = Some(n);
    }

    /// Whether the process has died by [`SimStorage::die_at`].
    pub fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    /// Ends this life of the process, with a loss of power if `power_loss`: files opened before
    /// fail from now on. The next store finds what the fault model leaves.
    pub fn crash(&self, power_loss: bool, seed: u64) {
        let mut disk = self.0.lock();
        disk.dice = Dice(seed);
        disk.life += 1;
        disk.dead = false;
        disk.die_at = None;
        disk.fail_at.clear();
        if power_loss {
            disk.lose_power();
        }
    }

    /// Names of the files.
    pub fn names(&self) -> BTreeSet<String> {
        let machine = self.0.lock();
        let here = machine.files.keys().filter(|n| disk_of(n) == self.1);
        let names = here.map(|n| n.rsplit('/').next().unwrap_or_default().to_owned());
        names.collect()
    }

    /// Bytes that a file occupies on its disk.
    pub fn held(&self, name: &str) -> Option<u64> {
        let name = self.full_name(name);
        self.0.lock().files.get(&name).map(SimFile::held)
    }

    /// A file's bytes.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.0.lock();
        let content = &disk.files.get(&self.full_name(name))?.now;
        let mut out = vec![0; content.length as usize];
        content.read(0, &mut out);
        Some(out)
    }
}

impl Storage for SimStorage {
    fn open(&self, name: &str, kind: FileKind) -> io::Result<Arc<dyn StorageFile>> {
        let mut disk = self.0.lock();
        let (life, name) = (self.life_in(&disk), self.full_name(name));
        if disk.dead || life != disk.life {
            return Err(died());
        }
        disk.check(&self.1)?;
        if !disk.files.contains_key(&name) {
            let last = disk.begin(life, &self.1)?;
            disk.files.insert(name.clone(), SimFile::default());
            if last {
                return Err(died());
            }
        }
        Ok(Arc::new(SimHandle {
            disk: self.clone(),
            name,
            kind,
            life,
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        {
            let disk = self.0.lock();
            if self.life_in(&disk) != disk.life {
                return Err(died());
            }
            disk.check(&self.1)?;
        }
        Ok(self.names().into_iter().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.0.lock();
        let life = self.life_in(&disk);
        let last = disk.begin(life, &self.1)?;
        if disk.keep_files {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let name = self.full_name(name);
        let file = disk.files.remove(&name).ok_or(io::ErrorKind::NotFound)?;
        if file.entry_durable {
            disk.removed.insert(name, file);
        }
        if last { Err(died()) } else { Ok(()) }
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        let life = self.life_in(&disk);
        if disk.begin(life, &self.1)? {
            return Err(died());
        }
        disk.removed.retain(|name, _| disk_of(name) != self.1);
        for (_, file) in disk.files.iter_mut().filter(|(n, _)| disk_of(n) == self.1) {
            file.entry_durable = true;
        }
        Ok(())
    }

    fn available(&self) -> io::Result<u64> {
        let (disk, name) = (self.0.lock(), self.full_name(""));
        disk.check(&self.1)?;
        Ok(disk.capacity_of(&name).saturating_sub(disk.used(&name)))
    }

    fn run(&self, work: BlockingTask) -> BoxFuture<()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

struct SimHandle {
    disk: SimStorage,
    name: String,
    kind: FileKind,
    life: u64,
}

impl SimHandle {
    /// Yields a few times first, so that other tasks run.
    fn later<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Machine, u64, &str) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<io::Result<T>> {
        let (disk, name, life) = (self.disk.clone(), self.name.clone(), self.life);
        let turns = disk.0.lock().dice.roll() % 4;
        Box::pin(async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            work(&mut disk.0.lock(), life, &name)
        })
    }
}

impl StorageFile for SimHandle {
    fn read_at(&self, at: u64, mut buffers: Vec<Buffer>) -> BoxFuture<io::Result<Vec<Buffer>>> {
        self.later(move |disk, life, name| {
            if disk.dead || life != disk.life {
                return Err(died());
            }
            disk.check(disk_of(name))?;
            let content = &disk.file(name)?.now;
            let mut at = at;
            for buffer in &mut buffers {
                if at + buffer.len() as u64 > content.length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                content.read(at, buffer);
                at += buffer.len() as u64;
            }
            Ok(buffers)
        })
    }

    fn write_at(&self, at: u64, slices: Vec<Slice>) -> BoxFuture<io::Result<()>> {
        let bytes: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
        self.later(move |disk, life, name| disk.write(life, name, at, &bytes, SECTOR))
    }

    fn sync(&self) -> BoxFuture<io::Result<()>> {
        self.later(Machine::sync)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut disk = self.disk.0.lock();
        if self.kind == FileKind::Log {
            let more = length.saturating_sub(disk.file(&self.name)?.now.length);
            if disk.used(&self.name) + more > disk.capacity_of(&self.name) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.file(&self.name)?.reserved = length;
            return Ok(());
        }
        let last = disk.begin(self.life, disk_of(&self.name))?;
        let now = disk.file(&self.name)?.now.length;
        let more = length.saturating_sub(now);
        if disk.used(&self.name) + more > disk.capacity_of(&self.name) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if length > now {
            let file = disk.file(&self.name)?;
            file.now.set_length(length);
            file.unsynced.push(Change::Length(length));
        }
        if last { Err(died()) } else { Ok(()) }
    }

    fn punch(&self, at: u64, length: u64) -> io::Result<()> {
        let mut disk = self.disk.0.lock();
        let last = disk.begin(self.life, disk_of(&self.name))?;
        let length = if last {
            disk.torn_length(length)
        } else {
            length
        };
        let file = disk.file(&self.name)?;
        file.now.punch(at, length);
        file.unsynced.push(Change::Punch(at, length));
        if last { Err(died()) } else { Ok(()) }
    }

    fn fill(&self, at: u64, length: u64) -> io::Result<()> {
        let mut disk = self.disk.0.lock();
        let last = disk.begin(self.life, disk_of(&self.name))?;
        let length = if last {
            disk.torn_length(length)
        } else {
            length
        };
        let more = disk.file(&self.name)?.now.without_place(at, length);
        if more > 0 && disk.used(&self.name) + more > disk.capacity_of(&self.name) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = disk.file(&self.name)?;
        file.now.fill(at, length);
        file.unsynced.push(Change::Fill(at, length));
        if last { Err(died()) } else { Ok(()) }
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().file(&self.name)?.held())
    }

    fn write_buffered(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk
            .0
            .lock()
            .write(self.life, &self.name, at, bytes, 1)
    }

    fn read_buffered(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut disk = self.disk.0.lock();
        if disk.dead || self.life != disk.life {
            return Err(died());
        }
        let content = &disk.file(&self.name)?.now;
        let mut out = vec![0; length.min(content.length.saturating_sub(at) as usize)];
        content.read(at, &mut out);
        Ok(out)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().file(&self.name)?.now.length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut disk = self.disk.0.lock();
        let last = disk.begin(self.life, disk_of(&self.name))?;
        let file = disk.file(&self.name)?;
        if file.now.length != length {
            file.now.set_length(length);
            file.unsynced.push(Change::Length(length));
        }
        if last { Err(died()) } else { Ok(()) }
    }
}
