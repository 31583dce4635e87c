//! Repair of a closed store's index.
//!
//! A store refuses to open if a record of its index is not what was written, or if two entries
//! claim one block. The repair walks the index without opening the store. It replaces an entry that
//! cannot be read, or that refers to another entry's blocks, by one that marks these blocks as
//! *lost*: reading them is a typed error until they are written again, everything else of the store
//! can be used, and no hole shows where bytes were.
//!
//! Of two entries that claim a block, the one whose checksum matches keeps it. If both match, both
//! have the right bytes, and the first keeps it. An entry that a crash left half applied loses
//! nothing: the log replaces it when the store is opened.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use weft_kv::{Batch, OrderedKv, Space};

use crate::config::StoreConfig;
use crate::disk::{DATA, DiskProbe, has_data, probe};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::limits::REPAIR_BATCH;
use crate::pool::{BLOCK, Pool};
use crate::record::{
    CHUNKS, CheckpointRecord, ChunkRecord, FILES, FORKS, FileRecord, ForkEntry, ForkId, ForkRecord,
    META, Place, RunRecord, RunsRecord, STORE_KEY, StoreRecord, checksum,
};
use crate::storage::{FileKind, Storage, StorageFile};

/// Something that keeps a store from opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBlocker {
    /// The place, if it is in a chunk.
    pub finding: Option<Finding>,
    /// What is wrong.
    pub reason: String,
    /// It was repaired.
    pub repaired: bool,
    /// What the repair means for users of the store.
    pub done: &'static str,
}

/// What is done to an entry of a chunk.
const LOST: &str = "marked as lost: reading it fails until it is written again";

/// Whether a closed store is only checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairMode {
    /// Reports, and changes nothing.
    Check,
    /// Repairs what can be repaired.
    Repair,
}

/// Finds what keeps a closed store from opening; [`RepairMode::Repair`] repairs it as far as no
/// valid byte is lost by that.
///
/// Cost: reads the index once, and each block that two entries claim.
/// # Durability
/// On stable storage on return. After a kill, each record is as it was or repaired.
pub async fn repair_closed(
    config: &StoreConfig,
    mode: RepairMode,
) -> Result<Vec<OpenBlocker>, StoreError> {
    let mut store = Repair {
        index: Arc::clone(&config.index),
        disks: BTreeMap::new(),
        pool: Pool::new(),
        forks: BTreeMap::new(),
        owners: BTreeMap::new(),
        changes: Vec::new(),
        obstacles: Vec::new(),
        mode,
    };
    store.check_store_record()?;
    store.repair_labels(config).await?;
    store.disks = disk_files(config)?;
    store.repair_files()?;
    store.read_forks()?;
    store.repair_log(config).await?;
    store.repair_chunks().await?;
    store.write_changes()?;
    if mode == RepairMode::Repair {
        // A truncated log has a gap before the frames that it gets from now on.
        store.index.flush()?;
    }
    Ok(store.obstacles)
}

/// A disk's file of blocks.
pub(super) struct DiskFile {
    pub(super) file: Arc<dyn StorageFile>,
    /// In blocks.
    pub(super) size: u64,
    /// Its name in errors.
    pub(super) shown: String,
}

/// The files of the disks that are present, by number.
fn disk_files(config: &StoreConfig) -> Result<BTreeMap<u16, DiskFile>, StoreError> {
    let mut disks = BTreeMap::new();
    let mut add = |number: u16, storage: &dyn Storage, shown: String| {
        let file = storage.open(DATA, FileKind::Data);
        let file = file.map_err(|e| StoreError::io("open the data of", &shown, &e))?;
        let size = file.length();
        let size = size.map_err(|e| StoreError::io("measure", &shown, &e))? / BLOCK as u64;
        disks.insert(number, DiskFile { file, size, shown });
        Ok::<(), StoreError>(())
    };
    add(0, &*config.storage, DATA.to_owned())?;
    for disk in &config.disks {
        if let Ok(DiskProbe::Labelled(number, storage)) = probe(disk, &config.owner)
            && has_data(&*storage)
        {
            add(number, &*storage, format!("disk {number} ({})", disk.path))?;
        }
    }
    Ok(disks)
}

/// Consecutive blocks and their owner: how many, the chunk's key, the first block in the chunk.
type Owner = (u64, Vec<u8>, u32);

/// A repair of a closed store, or only a check of it.
pub(super) struct Repair {
    pub(super) index: Arc<dyn OrderedKv>,
    pub(super) disks: BTreeMap<u16, DiskFile>,
    pub(super) pool: Pool,
    /// Name and chunk size of each fork.
    pub(super) forks: BTreeMap<ForkId, (ForkKey, u32)>,
    /// By the first block's place.
    owners: BTreeMap<u64, Owner>,
    changes: Vec<(Space, Vec<u8>, Option<Vec<u8>>)>,
    pub(super) obstacles: Vec<OpenBlocker>,
    mode: RepairMode,
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

impl Repair {
    /// Whether it may change the store.
    pub(super) fn may_write(&self) -> bool {
        self.mode == RepairMode::Repair
    }

    /// The next pairs of a space after a key. Pairs of one call do not show later repairs.
    pub(super) fn next_pairs(
        &self,
        space: Space,
        after: Option<&[u8]>,
    ) -> Result<Vec<Pair>, StoreError> {
        let mut found = Vec::new();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.index
            .snapshot()?
            .scan(space, from, Bound::Unbounded, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                if found.len() < REPAIR_BATCH {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
        Ok(found)
    }

    /// Reports a record that cannot be read.
    fn report(&mut self, error: &StoreError, repaired: bool) {
        self.obstacles.push(OpenBlocker {
            finding: None,
            reason: error.to_string(),
            repaired,
            done: "taken as a record that says nothing",
        });
    }

    /// Replaces a record, if this is a repair; returns whether it is.
    pub(super) fn replace(
        &mut self,
        space: Space,
        key: Vec<u8>,
        value: Vec<u8>,
    ) -> Result<bool, StoreError> {
        if self.may_write() {
            self.changes.push((space, key, Some(value)));
            if self.changes.len() >= REPAIR_BATCH {
                self.write_changes()?;
            }
        }
        Ok(self.may_write())
    }

    pub(super) fn write_changes(&mut self) -> Result<(), StoreError> {
        let changes = std::mem::take(&mut self.changes);
        if !changes.is_empty() {
            self.index.write(Batch { changes })?;
            self.index.sync()?;
        }
        Ok(())
    }

    fn check_store_record(&mut self) -> Result<(), StoreError> {
        let value = self.index.snapshot()?.get(META, STORE_KEY)?;
        if let Some(Err(error)) = value.map(|value| StoreRecord::decode(&value)) {
            // How far the log was applied, and so what must be replayed, is not known.
            self.report(&error, false);
        }
        Ok(())
    }

    fn repair_files(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let pairs = self.next_pairs(FILES, after.as_deref())?;
            let Some((last, _)) = pairs.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for (key, value) in pairs {
                if CheckpointRecord::decode_key(&key).is_some() {
                    if let Err(error @ StoreError::Corrupt { .. }) =
                        CheckpointRecord::decode(&key, &value)
                    {
                        let record = CheckpointRecord { made: 0 };
                        let repaired = self.replace(FILES, key, record.encode())?;
                        self.report(&error, repaired);
                    }
                } else if let Err(error @ StoreError::Corrupt { .. }) =
                    FileRecord::decode(&key, &value)
                {
                    let repaired = self.replace(FILES, key, FileRecord::default().encode())?;
                    self.report(&error, repaired);
                }
            }
        }
    }

    fn read_forks(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let pairs = self.next_pairs(FORKS, after.as_deref())?;
            let Some((last, _)) = pairs.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for (key, value) in pairs {
                match ForkRecord::decode(&key, &value) {
                    Ok(record) => {
                        let (ForkEntry::Live(key) | ForkEntry::Checkpoint(key, _)) =
                            ForkRecord::decode_key(&key)?;
                        self.forks.insert(record.id, (key, record.chunk));
                    }
                    // Its chunks are not known, and without a record they would be removed as
                    // garbage.
                    Err(error) => self.report(&error, false),
                }
            }
        }
    }

    async fn repair_chunks(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let pairs = self.next_pairs(CHUNKS, after.as_deref())?;
            let Some((last, _)) = pairs.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for (key, value) in pairs {
                let (id, chunk) = ChunkRecord::decode_key(&key)?;
                let Some((fork, size)) = self.forks.get(&id).cloned() else {
                    continue;
                };
                let finding = |fault| Finding {
                    key: fork.clone(),
                    chunk,
                    blocks: 0..0,
                    disk: 0,
                    place: 0,
                    fault,
                };
                match ChunkRecord::decode(&key, &value) {
                    Ok(runs) => self.claim(&key, runs, finding).await?,
                    Err(error) => {
                        let blocks = size.div_ceil(BLOCK as u32);
                        let record = ChunkRecord::encode(&RunsRecord::lost(blocks));
                        let repaired = self.replace(CHUNKS, key, record)?;
                        let reason = error.to_string();
                        self.obstacles.push(OpenBlocker {
                            finding: Some(finding(Fault::Entry {
                                reason: reason.clone(),
                            })),
                            reason,
                            repaired,
                            done: LOST,
                        });
                    }
                }
            }
        }
    }

    /// Takes note that an entry owns its blocks, and removes those from it that another entry owns.
    async fn claim(
        &mut self,
        key: &[u8],
        mut runs: RunsRecord,
        finding: impl Fn(Fault) -> Finding,
    ) -> Result<(), StoreError> {
        let (mut lost, mut at) = (Vec::new(), 0);
        for run in &runs.runs {
            for i in 0..run.blocks {
                let (block, place, crc) = (run.first + i, run.place.plus(i), runs.crcs[at]);
                at += 1;
                // Blocks of a missing disk are back when the disk is.
                let disk = self.disks.get(&place.disk());
                let Some(disk) = disk.filter(|_| !run.inherited) else {
                    continue;
                };
                if place.block() >= disk.size {
                    lost.push((block, place, Fault::Beyond));
                    continue;
                }
                let other = self.owner(place.0);
                if let Some((other, other_block)) = other {
                    if self.matches(place, crc).await?
                        && !self.other_matches(&other, other_block, place).await?
                    {
                        self.lose(&other, &[other_block])?;
                    } else {
                        lost.push((block, place, Fault::Twice));
                        continue;
                    }
                }
                self.add_owner(place.0, key, block);
            }
        }
        for (block, place, fault) in &lost {
            let mut finding = finding(fault.clone());
            finding.blocks = *block..*block + 1;
            (finding.disk, finding.place) = (place.disk(), place.block());
            self.obstacles.push(OpenBlocker {
                reason: format!(
                    "block {} of disk {} does not belong to the chunk",
                    place.block(),
                    place.disk()
                ),
                finding: Some(finding),
                repaired: self.may_write(),
                done: LOST,
            });
        }
        if !lost.is_empty() {
            let blocks: Vec<u32> = lost.iter().map(|(block, _, _)| *block).collect();
            runs.lose(&blocks);
            self.replace(CHUNKS, key.to_vec(), ChunkRecord::encode(&runs))?;
        }
        Ok(())
    }

    fn owner(&self, block: u64) -> Option<(Vec<u8>, u32)> {
        let (from, (blocks, key, first)) = self.owners.range(..=block).next_back()?;
        let at = block - from;
        (at < *blocks).then(|| (key.clone(), first + at as u32))
    }

    fn add_owner(&mut self, place: u64, key: &[u8], block: u32) {
        if let Some((from, (blocks, owner, first))) = self.owners.range_mut(..=place).next_back()
            && from + *blocks == place
            && owner == key
            && *first + *blocks as u32 == block
        {
            *blocks += 1;
            return;
        }
        self.owners.insert(place, (1, key.to_vec(), block));
    }

    async fn matches(&self, place: Place, crc: u32) -> Result<bool, StoreError> {
        let Some(disk) = self.disks.get(&place.disk()) else {
            return Ok(false);
        };
        let read = disk.file.read_at(place.offset(), vec![self.pool.take(1)]);
        // An unreadable block supports no claim.
        let Ok(read) = read.await else {
            return Ok(false);
        };
        Ok(read.first().is_some_and(|bytes| checksum(bytes) == crc))
    }

    async fn other_matches(
        &self,
        key: &[u8],
        block: u32,
        place: Place,
    ) -> Result<bool, StoreError> {
        let Some(value) = self.index.snapshot()?.get(CHUNKS, key)? else {
            return Ok(false);
        };
        let runs = ChunkRecord::decode(key, &value)?;
        let crc =
            crate::recovery::replay::each(&runs).find(|(b, at, _)| *b == block && *at == place);
        match crc {
            Some((_, _, crc)) => self.matches(place, crc).await,
            None => Ok(false),
        }
    }

    /// Marks blocks of an entry as lost that was checked before.
    fn lose(&mut self, key: &[u8], blocks: &[u32]) -> Result<(), StoreError> {
        self.write_changes()?;
        let Some(value) = self.index.snapshot()?.get(CHUNKS, key)? else {
            return Ok(());
        };
        let mut runs = ChunkRecord::decode(key, &value)?;
        runs.lose(blocks);
        let (id, chunk) = ChunkRecord::decode_key(key)?;
        let repaired = self.replace(CHUNKS, key.to_vec(), ChunkRecord::encode(&runs))?;
        if let Some((fork, _)) = self.forks.get(&id) {
            let first = blocks.first().copied().unwrap_or(0);
            self.obstacles.push(OpenBlocker {
                finding: Some(Finding {
                    key: fork.clone(),
                    chunk,
                    blocks: first..first + blocks.len() as u32,
                    disk: 0,
                    place: 0,
                    fault: Fault::Twice,
                }),
                reason: "another chunk's checksum matches the block".to_owned(),
                repaired,
                done: LOST,
            });
        }
        Ok(())
    }
}

impl RunsRecord {
    /// The entry of a chunk of which only the number of blocks is known: all of them are lost.
    pub(crate) fn lost(blocks: u32) -> Self {
        Self {
            runs: vec![RunRecord {
                first: 0,
                blocks,
                place: Place::LOST,
                inherited: true,
            }],
            crcs: vec![0; blocks as usize],
        }
    }

    /// Marks some blocks as lost.
    fn lose(&mut self, blocks: &[u32]) {
        let old = std::mem::take(self);
        let mut crcs = old.crcs.into_iter();
        for run in old.runs {
            for i in 0..run.blocks {
                let (block, crc) = (run.first + i, crcs.next().unwrap_or(0));
                if blocks.contains(&block) {
                    crate::pages::push_block(self, block, Place::LOST.plus(block), 0, true);
                } else {
                    let place = run.place.plus(i);
                    crate::pages::push_block(self, block, place, crc, run.inherited);
                }
            }
        }
    }
}
