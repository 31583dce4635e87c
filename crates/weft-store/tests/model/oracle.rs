//! Random operations on a store, and its required contents after them.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::rngs::SmallRng;
use weft_layout::{ADDRESSED_BIT, CellIndex, ChunkCode, FileId};
use weft_store::{ForkKey, ForkName};

use super::common::pattern;

/// The required contents of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// By file and slot.
    pub forks: BTreeMap<(u64, u32), Vec<u8>>,
    /// By file and number: the contents of each slot.
    pub checkpoints: BTreeMap<(u64, u64), BTreeMap<u32, Vec<u8>>>,
    pub deleted: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
pub enum Op {
    /// `(slot, offset, length)` of each piece.
    Write(u64, Vec<(u32, usize, usize)>),
    Truncate(u64, Vec<(u32, usize)>),
    /// `(slot, offset, length)`
    Clear(u64, (u32, usize, usize)),
    /// `(slot, length)`
    Extend(u64, (u32, usize)),
    Remove(u64, u32),
    Checkpoint(u64),
    /// `(file, number)`; at first any number, see [`Model::choose`].
    RollBack(u64, u64),
    Drop(u64, u64),
    Reclaim,
    Delete(u64),
    /// `(file, slot)`: makes an empty fork if there is none.
    Create(u64, u32),
    Scrub,
    Sync,
    Apply,
    DropCache,
    /// Removes addressed chunks that no file has.
    Clean,
}

impl Op {
    /// The name of its kind.
    pub fn kind(&self) -> String {
        let shown = format!("{self:?}");
        let word = shown.split(|c: char| !c.is_alphanumeric()).next();
        word.unwrap_or_default().to_owned()
    }
}

/// The forks of a file: two of each name, in two cells.
pub const SLOTS: u32 = 4;
const NAMES: [&str; 2] = ["data", "a fork's name"];

/// Names the fork of a slot.
pub fn key(file: u64, slot: u32) -> ForkKey {
    ForkKey {
        file: FileId(file),
        cell: CellIndex(slot % 2),
        fork: ForkName::new(NAMES[slot as usize / 2]).unwrap(),
    }
}

/// The slot of a fork.
pub fn slot_of(key: &ForkKey) -> u32 {
    let name = NAMES.iter().position(|n| *n == key.fork.as_str());
    key.cell.0 + 2 * name.expect("the oracle uses only these names") as u32
}

/// Chunk sizes, one for each file: odd, small and large ones; the last two are addressed.
const CHUNKS: [ChunkCode; 6] = [
    4096,
    5000,
    16384,
    65536,
    5000 + ADDRESSED_BIT,
    65536 + ADDRESSED_BIT,
];

pub fn chunk(file: u64) -> ChunkCode {
    CHUNKS[file as usize % CHUNKS.len()]
}

fn is_addressed(file: u64) -> bool {
    chunk(file) & ADDRESSED_BIT != 0
}

fn slot(rng: &mut SmallRng) -> u32 {
    match rng.random_range(0..10) {
        0..7 => rng.random_range(0..2),
        _ => rng.random_range(2..SLOTS),
    }
}

fn length(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..8) {
        0..3 => rng.random_range(1..200),
        3..5 => rng.random_range(1..9000),
        5 => 4096 * rng.random_range(1..6),
        6 => rng.random_range(32_768..80_000),
        _ => 4096 * rng.random_range(8..24),
    }
}

fn offset(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..3) {
        0 => rng.random_range(0..150_000),
        1 => 4096 * rng.random_range(0..40),
        _ => 64 * rng.random_range(0..100),
    }
}

pub fn op(rng: &mut SmallRng, files: std::ops::Range<u64>) -> Op {
    let file = rng.random_range(files);
    match rng.random_range(0..100) {
        0..40 => {
            let pieces = rng.random_range(1..4);
            Op::Write(
                file,
                (0..pieces)
                    .map(|_| (slot(rng), offset(rng), length(rng)))
                    .collect(),
            )
        }
        40..42 => Op::Create(file, slot(rng)),
        42..44 if is_addressed(file) => Op::Clean,
        42..44 => Op::Scrub,
        44..46 => Op::Reclaim,
        46..52 => Op::Checkpoint(file),
        52..55 => Op::RollBack(file, rng.random_range(0..100)),
        55..59 => Op::Drop(file, rng.random_range(0..100)),
        59..64 => Op::Clear(file, (slot(rng), offset(rng), length(rng))),
        64..66 => Op::Extend(file, (slot(rng), offset(rng))),
        66..74 => Op::Truncate(file, (0..SLOTS).map(|slot| (slot, offset(rng))).collect()),
        74..76 => Op::Remove(file, slot(rng)),
        76 => Op::Delete(file),
        77..88 => Op::Sync,
        88..94 => Op::Apply,
        _ => Op::DropCache,
    }
}

impl Model {
    /// Makes a rollback or drop refer to an existing checkpoint; without any, it becomes a
    /// checkpoint.
    pub fn choose(&self, op: Op) -> Op {
        let pick = |file: u64, any: u64| {
            let there = self.checkpoints.keys().filter(|(f, _)| *f == file);
            let there: Vec<u64> = there.map(|(_, number)| *number).collect();
            (!there.is_empty()).then(|| there[any as usize % there.len()])
        };
        match op {
            Op::RollBack(file, any) => match pick(file, any) {
                Some(number) => Op::RollBack(file, number),
                None => Op::Checkpoint(file),
            },
            Op::Drop(file, any) => match pick(file, any) {
                Some(number) => Op::Drop(file, number),
                None => Op::Checkpoint(file),
            },
            other => other,
        }
    }

    fn slots(&self, file: u64) -> BTreeMap<u32, Vec<u8>> {
        let forks = self.forks.iter().filter(|((f, _), _)| *f == file);
        forks.map(|((_, slot), b)| (*slot, b.clone())).collect()
    }

    pub fn apply(&mut self, n: u64, op: &Op) {
        match op {
            Op::Write(file, pieces) if !self.deleted.contains(file) => {
                for (i, (slot, offset, length)) in pieces.iter().enumerate() {
                    let fork = self.forks.entry((*file, *slot)).or_default();
                    fork.resize(fork.len().max(offset + length), 0);
                    fork[*offset..offset + length]
                        .copy_from_slice(&pattern(n * 8 + i as u64, *length));
                }
            }
            Op::Truncate(file, lengths) if !self.deleted.contains(file) => {
                for (slot, length) in lengths {
                    if *length > 0 || self.forks.contains_key(&(*file, *slot)) {
                        self.forks
                            .entry((*file, *slot))
                            .or_default()
                            .resize(*length, 0);
                    }
                }
            }
            Op::Clear(file, (slot, offset, length)) => {
                if let Some(fork) = self.forks.get_mut(&(*file, *slot)) {
                    let end = fork.len().min(offset + length);
                    fork[end.min(*offset)..end].fill(0);
                }
            }
            Op::Extend(file, (slot, length)) if !self.deleted.contains(file) => {
                let fork = self.forks.entry((*file, *slot)).or_default();
                fork.resize(fork.len().max(*length), 0);
            }
            Op::Create(file, slot) if !self.deleted.contains(file) => {
                self.forks.entry((*file, *slot)).or_default();
            }
            Op::Remove(file, slot) => {
                self.forks.remove(&(*file, *slot));
            }
            Op::Checkpoint(file) if !self.deleted.contains(file) => {
                self.checkpoints.insert((*file, n + 1), self.slots(*file));
            }
            Op::RollBack(file, number) => {
                let Some(slots) = self.checkpoints.get(&(*file, *number)).cloned() else {
                    return;
                };
                self.forks.retain(|(f, _), _| f != file);
                for (slot, bytes) in slots {
                    self.forks.insert((*file, slot), bytes);
                }
            }
            Op::Drop(file, number) => {
                self.checkpoints.remove(&(*file, *number));
            }
            Op::Delete(file) => {
                self.forks.retain(|(f, _), _| f != file);
                self.checkpoints.retain(|(f, _), _| f != file);
                self.deleted.insert(*file);
            }
            _ => {}
        }
    }
}
