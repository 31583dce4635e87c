//! Shared by the store's tests: an index that can crash, and stores on simulated disks.
#![allow(dead_code, missing_docs)] // No test file uses all of it.

mod index;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use weft_kv::OrderedKv;
use weft_layout::{CellIndex, CellOffset, FileId};
use weft_store::{
    CheckOptions, ForkKey, ForkName, SimStorage, Store, StoreConfig, StoreError, Timestamp, Write,
};

pub use index::{CrashKv, LiveKv};

/// A check that reads all blocks.
pub const CHECK_DATA: CheckOptions = CheckOptions {
    data: true,
    repair: false,
};
/// A check that reads all blocks and repairs what it can.
pub const REPAIR_DATA: CheckOptions = CheckOptions {
    data: true,
    repair: true,
};

/// A disk and an index that outlive the stores on them.
pub struct Machine {
    pub disk: SimStorage,
    pub index: Arc<CrashKv>,
    /// Most chunks that one step of a truncation empties.
    pub truncate_chunks: u32,
    boots: Mutex<u64>,
}

impl Machine {
    pub fn new(seed: u64) -> Self {
        Self {
            disk: SimStorage::new(seed),
            index: Arc::default(),
            truncate_chunks: 1024,
            boots: Mutex::new(1),
        }
    }

    pub fn config(&self) -> StoreConfig {
        let index: Arc<dyn OrderedKv> = LiveKv::new(&self.index, &self.disk);
        let mut config = StoreConfig::new(
            Arc::new(self.disk.this_life()),
            index,
            format!("boot {}", self.boots.lock()),
        );
        config.cache_bytes = 2 << 20;
        config.dirty_bytes = 512 << 10;
        config.log_bytes = 1 << 20;
        config.segment_bytes = 128 << 10;
        config.growth_bytes = 1 << 20;
        config.reserve_bytes = 0;
        config.spare_bytes = 64 << 10;
        config.truncate_chunks = self.truncate_chunks;
        config
    }

    pub async fn open(&self) -> Result<Store, StoreError> {
        Store::open(self.config()).await
    }

    pub fn kill(&self, seed: u64) {
        self.disk.crash(false, seed);
    }

    /// The machine starts again, and its disk happens to have everything.
    pub fn lose_power_but_no_bytes(&self) {
        *self.boots.lock() += 1;
    }

    pub fn lose_power(&self, seed: u64) {
        self.disk.crash(true, seed);
        self.index.lose_power(seed.rotate_left(7));
        *self.boots.lock() += 1;
    }
}

/// Frames of a machine's log: segment, offset, length of the body.
pub fn frames(machine: &Machine) -> Vec<(String, usize, usize)> {
    let names = machine.disk.names().into_iter();
    let mut found = Vec::new();
    for name in names.filter(|name| name.starts_with("log.")) {
        let bytes = machine.disk.bytes(&name).unwrap();
        let mut at = 0;
        while bytes.len() >= at + 32 && bytes[at..].starts_with(b"WfL") {
            let body = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
            found.push((name.clone(), at, body));
            at += 32 + (body + 1).next_multiple_of(8);
        }
    }
    found
}

/// Runs a test on one thread with a clock that jumps.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(test)
}

pub fn key(file: u64, cell: u32) -> ForkKey {
    ForkKey {
        file: FileId(file),
        cell: CellIndex(cell),
        fork: ForkName::data(),
    }
}

pub fn write(key: &ForkKey, chunk: u32, offset: u64, data: impl Into<Bytes>) -> Write {
    Write {
        key: key.clone(),
        chunk,
        offset: CellOffset(offset),
        data: data.into(),
    }
}

/// Bytes that differ for each mark and at each place.
pub fn pattern(mark: u64, length: usize) -> Vec<u8> {
    let mut state = mark.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out
}

pub async fn read(
    store: &Store,
    key: &ForkKey,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, StoreError> {
    Ok(store.read(key, CellOffset(offset), length).await?.concat())
}

pub fn now() -> Timestamp {
    Timestamp(1_000_000_007)
}
