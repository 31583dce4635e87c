//! The operations on a store before its image is taken, and the contents that it must hold then.

use std::collections::BTreeMap;

use super::common::{now, write};
use super::packed::Tree;
use weft_layout::{CellIndex, CellOffset, FileId};
use weft_store::{ForkKey, ForkName, Run, Scattered, Store, Timestamp};

/// Bytes that differ for each mark and place, in runs of equal ones, so that they pack well.
pub fn bytes(mark: u64, length: usize) -> Vec<u8> {
    let mixed = |n: usize| (mark * 31 + n as u64 / 512).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..length).map(|n| mixed(n) as u8).collect()
}

pub fn fork(file: u64, cell: u32, name: &str) -> ForkKey {
    ForkKey {
        file: FileId(file),
        cell: CellIndex(cell),
        fork: ForkName::new(name).unwrap(),
    }
}

/// The name of a fork's bytes in an image.
pub fn name_of(key: &ForkKey, checkpoint: Option<u64>) -> String {
    let name = format!("holds/{}.{}.{}", key.file.0, key.cell.0, key.fork);
    checkpoint.map_or(name.clone(), |number| format!("{name}@{number}"))
}

/// A store, and the bytes that its forks and checkpoints hold.
pub struct Story<'a> {
    pub store: &'a Store,
    current: BTreeMap<ForkKey, Vec<u8>>,
    kept: BTreeMap<(u64, u64), BTreeMap<ForkKey, Vec<u8>>>,
    op: u64,
    mark: u64,
}

impl<'a> Story<'a> {
    pub fn new(store: &'a Store) -> Self {
        Self {
            store,
            current: BTreeMap::new(),
            kept: BTreeMap::new(),
            op: 0,
            mark: 0,
        }
    }

    fn next(&mut self) -> u64 {
        self.op += 1;
        self.op
    }

    /// The contents that the image must hold.
    pub fn holds(&self) -> Tree {
        let mut holds = Tree::new();
        for (key, bytes) in &self.current {
            holds.insert(name_of(key, None), bytes.clone());
        }
        for ((_, number), forks) in &self.kept {
            for (key, bytes) in forks {
                holds.insert(name_of(key, Some(*number)), bytes.clone());
            }
        }
        holds
    }

    fn change(&mut self, key: &ForkKey, at: usize, new: &[u8]) {
        let held = self.current.entry(key.clone()).or_default();
        held.resize(held.len().max(at + new.len()), 0);
        held[at..at + new.len()].copy_from_slice(new);
    }

    async fn write(&mut self, key: &ForkKey, chunk: u32, at: usize, length: usize) {
        self.mark += 1;
        let new = bytes(self.mark, length);
        self.change(key, at, &new);
        let one = vec![write(key, chunk, at as u64, new)];
        self.store.write(one, now()).await.unwrap();
    }

    /// Pieces of 100 bytes, 1,000 apart.
    async fn comb(&mut self, key: &ForkKey, chunk: u32, at: usize, count: usize) {
        self.mark += 1;
        let data = bytes(self.mark, 100 * count);
        for n in 0..count {
            self.change(key, at + n * 1000, &data[n * 100..][..100]);
        }
        let run = Run {
            offset: CellOffset(at as u64),
            at: 0,
            length: 100,
            count: count as u64,
            stride: 1000,
        };
        let all = vec![Scattered {
            key: key.clone(),
            chunk,
            runs: vec![run],
            data: data.into(),
        }];
        self.store.write_scattered(all, now()).await.unwrap();
    }

    pub async fn checkpoint(&mut self, file: u64) -> u64 {
        let number = self.next();
        let made = Timestamp(number.cast_signed() * 1000);
        let done = self.store.checkpoint(FileId(file), number, made).await;
        done.unwrap();
        let of_file = self.current.iter().filter(|(k, _)| k.file.0 == file);
        let kept = of_file.map(|(k, b)| (k.clone(), b.clone())).collect();
        self.kept.insert((file, number), kept);
        number
    }

    /// The number of a file's first checkpoint.
    pub fn first_of(&self, file: u64) -> u64 {
        let of_file = self.kept.keys().filter(|(f, _)| *f == file);
        of_file.map(|(_, number)| *number).min().unwrap()
    }

    /// Drops a file's checkpoint; the background task frees its space.
    pub async fn drop_checkpoint(&mut self, file: u64, number: u64) {
        let op = self.next();
        let done = self.store.drop_checkpoint(FileId(file), number, op).await;
        done.unwrap();
        self.kept.remove(&(file, number));
    }

    /// Makes a file with two checkpoints and small changes after each; returns their numbers.
    pub async fn with_two_checkpoints(&mut self, file: u64) -> (u64, u64) {
        let key = fork(file, 0, "data");
        self.write(&key, 16_384, 0, 50_000).await;
        let first = self.checkpoint(file).await;
        self.write(&key, 16_384, 4096, 8192).await;
        let second = self.checkpoint(file).await;
        self.write(&key, 16_384, 20_000, 700).await;
        (first, second)
    }

    /// Makes files from number `base` on with every operation on files except merging.
    pub async fn run(&mut self, base: u64) {
        let (data, notes) = (fork(base, 0, "data"), fork(base, 3, "notes: π"));
        let store = self.store;
        store.create_fork(&notes, 4096, now()).await.unwrap();
        self.current.insert(notes.clone(), Vec::new());
        self.write(&data, 16_384, 0, 70_000).await;
        self.write(&notes, 4096, 0, 3001).await;
        self.checkpoint(base).await;
        // A chunk that shares blocks with the checkpoint, one that does not, and small pieces.
        self.write(&data, 16_384, 5000, 300).await;
        self.write(&data, 16_384, 32_768, 32_768).await;
        self.comb(&data, 16_384, 1000, 12).await;

        // Chunks that end inside a block.
        let odd = fork(base + 1, 1, "data");
        self.write(&odd, 5000, 0, 38_000).await;
        self.write(&odd, 5000, 12_345, 3).await;

        // Holes: bytes never written, and bytes cleared.
        let holes = fork(base + 2, 0, "data");
        self.write(&holes, 8192, 100, 20).await;
        self.write(&holes, 8192, 150_000, 40_960).await;
        let gap = vec![(holes.clone(), 158_000..175_000)];
        store.clear(&gap, now()).await.unwrap();
        let held = self.current.get_mut(&holes).unwrap();
        held[158_000..175_000].fill(0);

        // Truncated, and extended.
        let cut = fork(base + 3, 0, "data");
        self.write(&cut, 65_536, 0, 66_000).await;
        let (file, op) = (FileId(base + 3), self.next());
        let lengths = vec![(cut.clone(), 40_001)];
        store.truncate(file, lengths, op, now()).await.unwrap();
        store.extend(&cut, 65_536, 90_000, now()).await.unwrap();
        let held = self.current.get_mut(&cut).unwrap();
        held.truncate(40_001);
        held.resize(90_000, 0);

        // More chunks than one step of a truncation empties; extended, and truncated again.
        let long = fork(base + 7, 0, "data");
        self.write(&long, 4096, 0, 70_000).await;
        for (length, longer) in [(50_001, 60_000), (5_001, 5_001)] {
            let (file, op) = (FileId(base + 7), self.next());
            let lengths = vec![(long.clone(), length)];
            store.truncate(file, lengths, op, now()).await.unwrap();
            store.extend(&long, 4096, longer, now()).await.unwrap();
            let held = self.current.get_mut(&long).unwrap();
            held.truncate(length as usize);
            held.resize(longer as usize, 0);
        }

        // A fork that was removed, a file that was deleted.
        for name in ["data", "gone"] {
            self.write(&fork(base + 4, 0, name), 4096, 0, 5000).await;
        }
        let gone = fork(base + 4, 0, "gone");
        store.remove_fork(&gone).await.unwrap();
        self.current.remove(&gone);
        self.write(&fork(base + 5, 0, "data"), 4096, 0, 9000).await;
        self.checkpoint(base + 5).await;
        store.delete_file(FileId(base + 5)).await.unwrap();
        self.current.retain(|key, _| key.file.0 != base + 5);
        self.kept.retain(|(file, _), _| *file != base + 5);

        // Rolled back to the first of two checkpoints, then written to.
        let (first, _) = self.with_two_checkpoints(base + 6).await;
        let (file, op) = (FileId(base + 6), self.next());
        store.roll_back(file, first, op, now()).await.unwrap();
        self.current.retain(|key, _| key.file.0 != base + 6);
        let back = self.kept[&(base + 6, first)].clone();
        self.current.extend(back);
        let back = fork(base + 6, 0, "data");
        self.write(&back, 16_384, 40_000, 12_000).await;
    }
}
