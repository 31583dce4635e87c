//! What can be done for a store that refuses to open: `docs/design/0009-fsck.md`.
//!
//! A store refuses to open when a record of its index is not what was written, or when two entries
//! claim one block. Here the index is walked without opening the store. An entry that cannot be
//! read, or whose blocks are not its own, is replaced by one that marks these blocks as *lost*:
//! reading them is a typed error until they are written anew, everything else of the store can be
//! used again, and no hole shows where bytes were.
//!
//! A disk's label that cannot be read is written anew where it can be told which disk it is
//! (`relabel.rs`).
//!
//! A log that is damaged is cut before the first frame that cannot be read (`salvage.rs`).
//!
//! Of two entries that claim a block the one keeps it whose checksum the block matches; where both
//! match, both have the right bytes, and the first keeps it. An entry that a crash left half
//! applied loses nothing: the log replaces it when the store is opened.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use weft_kv::{Batch, OrderedKv, Space};

use crate::config::StoreConfig;
use crate::disk::{DATA, Found, find, has_data};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::pool::{BLOCK, Pool};
use crate::record::{
    CHUNKS, CheckpointRecord, ChunkRecord, FILES, FORKS, FileRecord, ForkId, ForkPlace, ForkRecord,
    META, Place, RunRecord, RunsRecord, STORE_KEY, StoreRecord, checksum,
};
use crate::storage::{FileKind, Storage, StorageFile};

/// Changes written together.
const BATCH: usize = 256;

/// Something that keeps a store from opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Where it is, of a chunk.
    pub finding: Option<Finding>,
    /// What it is.
    pub reason: String,
    /// It was taken out of the way.
    pub repaired: bool,
    /// What that means for whoever uses the store.
    pub done: &'static str,
}

/// What is done to an entry of a chunk.
const LOST: &str = "marked as lost: reading it fails until it is written anew";

/// Walks the index of a store that is not open and finds what keeps it from opening; with `repair`,
/// takes it out of the way as far as no valid byte is lost by that.
///
/// Cost: reads the index once, and each block that two entries claim.
/// # Durability
/// On stable storage on return; killed in between, each record is as it was or repaired.
pub async fn rescue(config: &StoreConfig, repair: bool) -> Result<Vec<Obstacle>, StoreError> {
    let mut rescue = Rescue {
        index: Arc::clone(&config.index),
        disks: BTreeMap::new(),
        pool: Pool::new(),
        forks: BTreeMap::new(),
        owners: BTreeMap::new(),
        changes: Vec::new(),
        obstacles: Vec::new(),
        repair,
    };
    rescue.store()?;
    rescue.labels(config).await?;
    rescue.disks = blocks_of(config)?;
    rescue.files()?;
    rescue.forks()?;
    rescue.log(config).await?;
    rescue.chunks().await?;
    rescue.write()?;
    if repair {
        // A log that was cut has a gap before what it gets from now on.
        rescue.index.settle()?;
    }
    Ok(rescue.obstacles)
}

/// A disk's file of blocks.
pub(crate) struct Blocks {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) size: u64,
    /// How errors name it.
    pub(crate) shown: String,
}

/// Those of the disks that are there, by number.
fn blocks_of(config: &StoreConfig) -> Result<BTreeMap<u16, Blocks>, StoreError> {
    let mut disks = BTreeMap::new();
    let mut add = |number: u16, storage: &dyn Storage, shown: String| {
        let file = storage.open(DATA, FileKind::Data);
        let file = file.map_err(|e| StoreError::io("open the data of", &shown, &e))?;
        let size = file.length();
        let size = size.map_err(|e| StoreError::io("measure", &shown, &e))? / BLOCK as u64;
        disks.insert(number, Blocks { file, size, shown });
        Ok::<(), StoreError>(())
    };
    add(0, &*config.storage, DATA.to_owned())?;
    for disk in &config.disks {
        if let Ok(Found::Labelled(number, storage)) = find(disk, &config.owner)
            && has_data(&*storage)
        {
            add(number, &*storage, format!("disk {number} ({})", disk.path))?;
        }
    }
    Ok(disks)
}

/// Consecutive blocks and whose they are: chunk's key, first block in the chunk.
type Owner = (u64, Vec<u8>, u32);

pub(crate) struct Rescue {
    pub(crate) index: Arc<dyn OrderedKv>,
    pub(crate) disks: BTreeMap<u16, Blocks>,
    pub(crate) pool: Pool,
    pub(crate) forks: BTreeMap<ForkId, (ForkKey, u32)>,
    /// By the first block's place: how many, and whose.
    owners: BTreeMap<u64, Owner>,
    changes: Vec<(Space, Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) obstacles: Vec<Obstacle>,
    pub(crate) repair: bool,
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

impl Rescue {
    /// The pairs of a space behind a key, some at a time: what is repaired meanwhile does not show.
    pub(crate) fn some(&self, space: Space, after: Option<&[u8]>) -> Result<Vec<Pair>, StoreError> {
        let mut found = Vec::new();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.index
            .snapshot()?
            .scan(space, from, Bound::Unbounded, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                if found.len() < BATCH {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
        Ok(found)
    }

    fn tell(&mut self, error: &StoreError, repaired: bool) {
        self.obstacles.push(Obstacle {
            finding: None,
            reason: error.to_string(),
            repaired,
            done: "taken for one that says nothing",
        });
    }

    pub(crate) fn put(
        &mut self,
        space: Space,
        key: Vec<u8>,
        value: Vec<u8>,
    ) -> Result<bool, StoreError> {
        if self.repair {
            self.changes.push((space, key, Some(value)));
            if self.changes.len() >= BATCH {
                self.write()?;
            }
        }
        Ok(self.repair)
    }

    pub(crate) fn write(&mut self) -> Result<(), StoreError> {
        let changes = std::mem::take(&mut self.changes);
        if !changes.is_empty() {
            self.index.write(Batch { changes })?;
            self.index.sync()?;
        }
        Ok(())
    }

    fn store(&mut self) -> Result<(), StoreError> {
        let value = self.index.snapshot()?.get(META, STORE_KEY)?;
        if let Some(Err(error)) = value.map(|value| StoreRecord::decode(&value)) {
            // What is in the index, and so what of the log must be replayed, is not known.
            self.tell(&error, false);
        }
        Ok(())
    }

    fn files(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let some = self.some(FILES, after.as_deref())?;
            let Some((last, _)) = some.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for (key, value) in some {
                if CheckpointRecord::decode_key(&key).is_some() {
                    if let Err(error @ StoreError::Corrupt { .. }) =
                        CheckpointRecord::decode(&key, &value)
                    {
                        let record = CheckpointRecord { made: 0 };
                        let repaired = self.put(FILES, key, record.encode())?;
                        self.tell(&error, repaired);
                    }
                } else if let Err(error @ StoreError::Corrupt { .. }) =
                    FileRecord::decode(&key, &value)
                {
                    let repaired = self.put(FILES, key, FileRecord::default().encode())?;
                    self.tell(&error, repaired);
                }
            }
        }
    }

    fn forks(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let some = self.some(FORKS, after.as_deref())?;
            let Some((last, _)) = some.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for (key, value) in some {
                match ForkRecord::decode(&key, &value) {
                    Ok(record) => {
                        let (ForkPlace::Living(key) | ForkPlace::Kept(key, _)) =
                            ForkRecord::decode_key(&key)?;
                        self.forks.insert(record.id, (key, record.chunk));
                    }
                    // Which chunks are the fork's is not known; without its record they would be
                    // taken for garbage.
                    Err(error) => self.tell(&error, false),
                }
            }
        }
    }

    async fn chunks(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let some = self.some(CHUNKS, after.as_deref())?;
            let Some((last, _)) = some.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for (key, value) in some {
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
                        let repaired = self.put(CHUNKS, key, record)?;
                        let reason = error.to_string();
                        self.obstacles.push(Obstacle {
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

    /// Takes note of whose blocks these are, and takes from an entry those that are not its own.
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
                // What lies on a disk that is away is there again with it.
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
                self.own(place.0, key, block);
            }
        }
        for (block, place, fault) in &lost {
            let mut finding = finding(fault.clone());
            finding.blocks = *block..*block + 1;
            (finding.disk, finding.place) = (place.disk(), place.block());
            self.obstacles.push(Obstacle {
                reason: format!(
                    "block {} of disk {} is not the chunk's own",
                    place.block(),
                    place.disk()
                ),
                finding: Some(finding),
                repaired: self.repair,
                done: LOST,
            });
        }
        if !lost.is_empty() {
            let blocks: Vec<u32> = lost.iter().map(|(block, _, _)| *block).collect();
            runs.lose(&blocks);
            self.put(CHUNKS, key.to_vec(), ChunkRecord::encode(&runs))?;
        }
        Ok(())
    }

    fn owner(&self, block: u64) -> Option<(Vec<u8>, u32)> {
        let (from, (blocks, key, first)) = self.owners.range(..=block).next_back()?;
        let at = block - from;
        (at < *blocks).then(|| (key.clone(), first + at as u32))
    }

    fn own(&mut self, place: u64, key: &[u8], block: u32) {
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
        // What cannot be read says nothing for whoever claims it.
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

    /// Marks blocks of an entry that was looked at before as lost.
    fn lose(&mut self, key: &[u8], blocks: &[u32]) -> Result<(), StoreError> {
        self.write()?;
        let Some(value) = self.index.snapshot()?.get(CHUNKS, key)? else {
            return Ok(());
        };
        let mut runs = ChunkRecord::decode(key, &value)?;
        runs.lose(blocks);
        let (id, chunk) = ChunkRecord::decode_key(key)?;
        let repaired = self.put(CHUNKS, key.to_vec(), ChunkRecord::encode(&runs))?;
        if let Some((fork, _)) = self.forks.get(&id) {
            let first = blocks.first().copied().unwrap_or(0);
            self.obstacles.push(Obstacle {
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
    /// The entry of a chunk of which nothing is known but how many blocks it can have.
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
