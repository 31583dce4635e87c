//! The contents of simulated files, the part of them on stable storage, and the dice.

use std::collections::{BTreeMap, BTreeSet};

use crate::pool::BLOCK;

/// A small random generator: a seed gives the same numbers on every platform and in every version.
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(super) fn flip(&mut self) -> bool {
        self.roll() & 1 == 1
    }
}

/// Bytes of a file, sparse by blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
    pub(super) length: u64,
    /// Blocks that are not allocated.
    pub(super) punched: BTreeSet<u64>,
}

/// The blocks that a range touches.
fn blocks_of(at: u64, length: u64) -> std::ops::Range<u64> {
    at / BLOCK as u64..(at + length).div_ceil(BLOCK as u64)
}

impl Content {
    pub(super) fn punch(&mut self, at: u64, length: u64) {
        for block in blocks_of(at, length) {
            self.blocks.remove(&block);
            self.punched.insert(block);
        }
    }

    pub(super) fn fill(&mut self, at: u64, length: u64) {
        for block in blocks_of(at, length) {
            self.punched.remove(&block);
        }
    }

    /// Bytes of a range that are not allocated.
    pub(super) fn without_place(&self, at: u64, length: u64) -> u64 {
        self.punched.range(blocks_of(at, length)).count() as u64 * BLOCK as u64
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.fill(at, bytes.len() as u64);
        let mut at = at;
        let mut rest = bytes;
        while !rest.is_empty() {
            let inside = at as usize % BLOCK;
            let (now, later) = rest.split_at(rest.len().min(BLOCK - inside));
            let block = self
                .blocks
                .entry(at / BLOCK as u64)
                .or_insert_with(|| Box::new([0; BLOCK]));
            block[inside..inside + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            rest = later;
        }
        self.length = self.length.max(at);
    }

    pub(super) fn read(&self, at: u64, into: &mut [u8]) {
        let mut at = at;
        let mut rest = into;
        while !rest.is_empty() {
            let inside = at as usize % BLOCK;
            let (now, later) = {
                let n = rest.len().min(BLOCK - inside);
                rest.split_at_mut(n)
            };
            match self.blocks.get(&(at / BLOCK as u64)) {
                Some(block) => now.copy_from_slice(&block[inside..inside + now.len()]),
                None => now.fill(0),
            }
            at += now.len() as u64;
            rest = later;
        }
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            let zeros = vec![0; BLOCK - length as usize % BLOCK];
            let end = self.length;
            self.write(length, &zeros);
            self.blocks.retain(|b, _| b * (BLOCK as u64) < length);
            self.punched.retain(|b| b * (BLOCK as u64) < length);
            debug_assert!(end > length, "only a cut comes here");
        }
        self.length = length;
    }
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
    Punch(u64, u64),
    Fill(u64, u64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct SimFile {
    pub(super) now: Content,
    pub(super) durable: Content,
    pub(super) unsynced: Vec<Change>,
    /// Bytes reserved for appends.
    pub(super) reserved: u64,
    /// The folder's entry was synced.
    pub(super) entry_durable: bool,
}

impl SimFile {
    /// Bytes that it occupies on the disk.
    pub(super) fn held(&self) -> u64 {
        let punched = self.now.punched.len() as u64 * BLOCK as u64;
        self.now.length.max(self.reserved) - punched
    }
}
