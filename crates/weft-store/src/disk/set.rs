//! The disks of a store: their files, their labels, and what becomes of one that fails.
//!
//! Number 0 is the file `data` beside the log; the others carry a label. A missing disk keeps its
//! number and its record: reading its blocks is a typed error, and everything else works.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use weft_kv::{Batch, OrderedKv};

use super::label::{DATA, DiskProbe, has_data, probe, write_label};
use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::pool::BLOCK;
use crate::record::{DISK_PREFIX, DiskRecord, META, Place, STORE_KEY, StoreRecord};
use crate::space::Allocator;
use crate::storage::{FileKind, Storage, StorageFile};

/// Most disks of a store, including missing ones.
pub const DISKS_MAX: usize = 256;

/// One disk of a store.
pub(crate) struct Disk {
    number: u16,
    /// Its path, as the configuration has it.
    path: String,
    files: Option<(Arc<dyn Storage>, Arc<dyn StorageFile>)>,
    capacity: u64,
    reserve: u64,
    /// Written since the last sync began.
    written: AtomicBool,
    errors: AtomicU64,
    failed: Mutex<Option<String>>,
    /// A report said that it is full.
    full: AtomicBool,
    /// Its host refuses punches.
    refuses_punches: AtomicBool,
}

/// Whether a disk gets new data, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// It gets new data.
    InUse,
    /// It is full; it gets data again after blocks of it are freed.
    Full,
    /// It failed an operation: it can be read, but gets no new data until the store is reopened.
    Failed,
    /// It was missing when the store was opened: its blocks cannot be read.
    Missing,
    /// The configuration closed it to new data.
    Closed,
}

/// The status of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskStatus {
    /// Its number, as errors name it.
    pub number: u16,
    /// Its path; empty: the store's own folder.
    pub path: String,
    /// Whether it gets new data.
    pub state: DiskState,
    /// Why it failed or is missing.
    pub reason: String,
    /// Bytes of its blocks that are in use.
    pub used: u64,
    /// Bytes that it can still take.
    pub available: u64,
    /// Operations that failed since the store was opened.
    pub errors: u64,
}

impl Disk {
    /// Its number in the store.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The next sync covers its file.
    pub(crate) fn mark_written(&self) {
        self.written.store(true, Relaxed);
    }

    /// Whether its file was written since the last call.
    pub(crate) fn take_written(&self) -> bool {
        self.written.swap(false, Relaxed)
    }

    /// Whether its host refused to take freed blocks back since the store was opened.
    pub(crate) fn refuses_punches(&self) -> bool {
        self.refuses_punches.load(Relaxed)
    }

    /// Its host refused to take freed blocks back.
    pub(crate) fn mark_refusing_punches(&self) {
        self.refuses_punches.store(true, Relaxed);
    }

    /// The file of blocks; an error if the disk is missing.
    pub(crate) fn file(&self) -> io::Result<&Arc<dyn StorageFile>> {
        match &self.files {
            Some((_, file)) => Ok(file),
            None => Err(io::Error::new(io::ErrorKind::NotFound, self.reason())),
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.files.is_none()
    }

    fn reason(&self) -> String {
        let failed = self.failed.lock();
        failed.clone().unwrap_or_else(|| "it is missing".to_owned())
    }

    /// Bytes by which it can still grow, if `away` bytes of its free blocks are unbacked.
    pub(crate) fn growth(&self, size: u64, away: u64) -> io::Result<u64> {
        let Some((storage, _)) = &self.files else {
            return Ok(0);
        };
        if !storage.grows() {
            return Ok(away);
        }
        let left = self.capacity.saturating_sub(size - away);
        if left == 0 {
            return Ok(0);
        }
        Ok(left.min(storage.available()?.saturating_sub(self.reserve)))
    }

    /// Its name in errors.
    pub(crate) fn shown(&self) -> String {
        match self.path.as_str() {
            "" => DATA.to_owned(),
            path => format!("disk {} ({path})", self.number),
        }
    }
}

/// The disks of a store, by number.
pub(crate) struct DiskSet(Vec<Disk>);

impl DiskSet {
    /// All of them.
    pub(crate) fn all(&self) -> &[Disk] {
        &self.0
    }

    /// A disk by its number.
    pub(crate) fn get(&self, number: u16) -> Option<&Disk> {
        let at = self.0.binary_search_by_key(&number, |d| d.number).ok()?;
        self.0.get(at)
    }

    /// The file that holds a place.
    pub(crate) fn file(&self, place: Place) -> io::Result<&Arc<dyn StorageFile>> {
        let unknown = || {
            let reason = if place.is_lost() {
                "a repair marked the block lost; write it anew, or restore the file from a copy"
            } else if place.is_coded() {
                "the block is only in parity"
            } else {
                "no disk has this number"
            };
            io::Error::new(io::ErrorKind::NotFound, reason)
        };
        self.get(place.disk()).ok_or_else(unknown)?.file()
    }

    /// The name in errors of a place's disk.
    pub(crate) fn shown(&self, place: Place) -> String {
        match self.get(place.disk()) {
            Some(disk) => disk.shown(),
            None if place.is_absent() => "the store".to_owned(),
            None => format!("disk {}", place.disk()),
        }
    }

    /// Records a failure: the disk gets no new data from now on, unless it is the last one; returns
    /// whether another disk is left.
    pub(crate) fn fail(&self, alloc: &mut Allocator, number: u16, reason: &str) -> bool {
        let Some(disk) = self.get(number) else {
            return false;
        };
        disk.errors.fetch_add(1, Relaxed);
        let open = alloc.open();
        if !open.contains(&number) {
            return open.iter().any(|n| *n != number);
        }
        disk.failed.lock().get_or_insert_with(|| reason.to_owned());
        let last = open.len() == 1;
        if !last {
            alloc.close(number);
        }
        tracing::error!(disk = number, path = %disk.path, reason, last, "a disk failed; it gets no new data while another disk is left");
        !last
    }

    /// Adds the disks and their blocks to an allocator.
    pub(crate) fn add_to(&self, alloc: &mut Allocator) -> Result<(), StoreError> {
        for disk in &self.0 {
            let Some((_, file)) = &disk.files else {
                alloc.mark_missing(disk.number);
                continue;
            };
            let size = file.length();
            let size = size.map_err(|e| StoreError::io("measure", &disk.shown(), &e))?;
            let growth = disk.growth(size, 0).unwrap_or(0) / BLOCK as u64;
            alloc.grow(disk.number, size / BLOCK as u64, growth);
            if disk.capacity == 0 {
                alloc.close(disk.number);
            }
        }
        Ok(())
    }

    /// Logs once when a disk becomes full, and once when it has free blocks again.
    ///
    /// Cost: a few additions per disk; a system call for a full one.
    pub(crate) fn report_full(&self, alloc: &Allocator) {
        for number in alloc.open() {
            let Some(disk) = self.get(number) else {
                continue;
            };
            let size = alloc.of_disk(number).0 * BLOCK as u64;
            let away = alloc.unbacked(number) * BLOCK as u64;
            let full = alloc.is_full(number)
                && disk
                    .growth(size, away)
                    .is_ok_and(|growth| growth < BLOCK as u64);
            let path = disk.shown();
            match (full, disk.full.swap(full, Relaxed)) {
                (true, false) => tracing::warn!(disk = number, %path, "a disk is full"),
                (false, true) => {
                    tracing::warn!(disk = number, %path, "a disk that was full has free blocks again");
                }
                _ => {}
            }
        }
    }

    /// The status of each disk.
    pub(crate) fn status(&self, alloc: &Allocator) -> Vec<DiskStatus> {
        let open = alloc.open();
        let of = |disk: &Disk| {
            let (blocks, free) = alloc.of_disk(disk.number);
            let unit = BLOCK as u64;
            let away = alloc.unbacked(disk.number);
            let failed = disk.failed.lock().clone();
            let closed = !open.contains(&disk.number);
            let growth = if closed {
                0
            } else {
                disk.growth(blocks * unit, away * unit).unwrap_or(0)
            };
            let state = match &failed {
                _ if disk.is_missing() => DiskState::Missing,
                Some(_) => DiskState::Failed,
                None if closed => DiskState::Closed,
                None if growth < unit && alloc.is_full(disk.number) => DiskState::Full,
                None => DiskState::InUse,
            };
            DiskStatus {
                number: disk.number,
                path: disk.path.clone(),
                state,
                reason: failed.unwrap_or_default(),
                used: (blocks - free - away) * unit,
                available: if closed { 0 } else { free * unit + growth },
                errors: disk.errors.load(Relaxed),
            }
        };
        self.0.iter().map(of).collect()
    }

    /// Opens the disks of a configuration: reads labels, labels new disks, and registers all
    /// numbers in the index before any data is written to them.
    pub(crate) async fn open(config: &StoreConfig) -> Result<Self, StoreError> {
        let data = config.storage.open(DATA, FileKind::Data);
        let data = data.map_err(|e| StoreError::io("open", DATA, &e))?;
        let mut disks = vec![Disk::new(0, "", config.capacity, config.reserve_bytes)];
        disks[0].files = Some((Arc::clone(&config.storage), data));
        let known = known_disks(&*config.index)?;
        let mut next = known.iter().map(|(n, _)| n + 1).max().unwrap_or(1);
        let mut reasons = BTreeMap::new();
        let mut found = Vec::new();
        for disk in &config.disks {
            found.push((disk, probe(disk, &config.owner)?));
        }
        for (_, label) in &found {
            if let DiskProbe::Labelled(number, _) = label {
                next = next.max(number + 1);
            }
        }
        for (disk, label) in found {
            let (number, storage) = match label {
                // A new, empty file in its place would get other blocks where the old ones were.
                DiskProbe::Labelled(number, storage)
                    if known.iter().any(|(n, _)| *n == number) && !has_data(&*storage) =>
                {
                    let reason = format!("its file `{DATA}` is gone");
                    tracing::error!(path = %disk.path, %reason, "a disk is missing");
                    reasons.insert(disk.path.clone(), reason);
                    continue;
                }
                DiskProbe::Labelled(number, storage) => (number, storage),
                DiskProbe::New(storage) => {
                    let number = next;
                    next += 1;
                    write_label(&*storage, number, config).await?;
                    (number, storage)
                }
                DiskProbe::Missing(reason) => {
                    tracing::error!(path = %disk.path, %reason, "a disk is missing");
                    reasons.insert(disk.path.clone(), reason);
                    continue;
                }
            };
            let file = storage.open(DATA, FileKind::Data);
            // Its directory entry must be as durable as its contents.
            let file = file.and_then(|file| storage.sync_folder().map(|()| file));
            let file = file.map_err(|e| StoreError::io("open the data of", &disk.path, &e))?;
            let mut opened = Disk::new(number, &disk.path, disk.capacity, disk.reserve);
            opened.files = Some((storage, file));
            disks.push(opened);
        }
        for (number, path) in known {
            if !disks.iter().any(|d| d.number == number) {
                let lost = Disk::new(number, &path, 0, 0);
                let reason = reasons.remove(&path);
                let reason =
                    reason.unwrap_or_else(|| "its path holds no disk of this server".to_owned());
                *lost.failed.lock() = Some(reason);
                tracing::error!(disk = number, %path, "a disk is missing: its blocks cannot be read");
                disks.push(lost);
            }
        }
        disks.sort_by_key(|d| d.number);
        if disks.len() > DISKS_MAX || disks.windows(2).any(|w| w[0].number == w[1].number) {
            return Err(StoreError::Disk {
                path: disks.last().map(|d| d.path.clone()).unwrap_or_default(),
                reason: format!("two disks with one number, or more than {DISKS_MAX} disks"),
            });
        }
        register(&*config.index, &disks)?;
        Ok(Self(disks))
    }
}

impl Disk {
    fn new(number: u16, path: &str, capacity: u64, reserve: u64) -> Self {
        Self {
            number,
            path: path.to_owned(),
            files: None,
            reserve,
            capacity: capacity / BLOCK as u64 * BLOCK as u64,
            written: AtomicBool::new(true),
            errors: AtomicU64::new(0),
            failed: Mutex::default(),
            full: AtomicBool::new(false),
            refuses_punches: AtomicBool::new(false),
        }
    }
}

/// Numbers and paths of the disks in the index, without number 0.
pub(crate) fn known_disks(index: &dyn OrderedKv) -> Result<Vec<(u16, String)>, StoreError> {
    use std::ops::{Bound, ControlFlow};
    let mut known = Vec::new();
    let mut failed = None;
    let from = Bound::Included(DISK_PREFIX);
    index
        .snapshot()?
        .scan(META, from, Bound::Unbounded, &mut |key, value| {
            if let Some(number) = DiskRecord::decode_key(key) {
                match DiskRecord::decode(key, value) {
                    Ok(record) => known.push((number, record.path)),
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        })?;
    failed.map_or(Ok(known), Err)
}

/// Adds new numbers and paths to the index.
fn register(index: &dyn OrderedKv, disks: &[Disk]) -> Result<(), StoreError> {
    let known = known_disks(index)?;
    let new_disks = disks.iter().filter(|d| d.number != 0 && !d.is_missing());
    let new_disks = new_disks.filter(|d| !known.contains(&(d.number, d.path.clone())));
    let mut changes: Vec<_> = new_disks
        .map(|d| {
            let record = DiskRecord {
                path: d.path.clone(),
            };
            (META, DiskRecord::key(d.number), Some(record.encode()))
        })
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    let value = index.snapshot()?.get(META, STORE_KEY)?;
    let record = value.map(|v| StoreRecord::decode(&v)).transpose()?;
    let record = StoreRecord {
        several: true,
        ..record.unwrap_or_default()
    };
    changes.push((META, STORE_KEY.to_vec(), Some(record.encode())));
    index.write(Batch { changes })?;
    index.sync()?;
    // The log does not record it: an index that goes back in time must not lose it.
    Ok(index.flush()?)
}
