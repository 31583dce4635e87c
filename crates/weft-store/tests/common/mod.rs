//! What the store's tests share: an index that can crash, and stores on simulated disks.
#![allow(dead_code, missing_docs)] // Each test file uses its own part.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use weft_kv::{Batch, KvError, OrderedKv, Reader, Space, Transaction};
use weft_layout::{CellIndex, CellOffset, FileId};
use weft_store::{ForkKey, ForkName, SimStorage, Store, StoreConfig, StoreError, Timestamp, Write};

type Map = BTreeMap<(Space, Vec<u8>), Vec<u8>>;

/// An index in memory that knows which batches were synced.
#[derive(Default)]
pub struct CrashKv {
    now: Mutex<Arc<Map>>,
    /// State at the last sync, and every batch since.
    durable: Mutex<(Arc<Map>, Vec<Batch>)>,
}

fn put(map: &mut Map, batch: &Batch) {
    for (space, key, value) in &batch.changes {
        match value {
            Some(value) => map.insert((*space, key.clone()), value.clone()),
            None => map.remove(&(*space, key.clone())),
        };
    }
}

struct Snapshot(Arc<Map>);

impl Reader for Snapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.0.get(&(space, key.to_vec())).cloned())
    }
    fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        let inside = |k: &[u8]| {
            (match from {
                Bound::Included(f) => k >= f,
                Bound::Excluded(f) => k > f,
                Bound::Unbounded => true,
            }) && match to {
                Bound::Included(t) => k <= t,
                Bound::Excluded(t) => k < t,
                Bound::Unbounded => true,
            }
        };
        for ((s, k), v) in self.0.iter() {
            if *s == space && inside(k) && visit(k, v).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl OrderedKv for CrashKv {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        Ok(Box::new(Snapshot(Arc::clone(&self.now.lock()))))
    }
    fn transact(
        &self,
        _: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        unimplemented!("the store only writes batches")
    }
    fn write(&self, batch: Batch) -> Result<(), KvError> {
        put(Arc::make_mut(&mut self.now.lock()), &batch);
        self.durable.lock().1.push(batch);
        Ok(())
    }
    fn sync(&self) -> Result<(), KvError> {
        *self.durable.lock() = (Arc::clone(&self.now.lock()), Vec::new());
        Ok(())
    }
}

impl CrashKv {
    /// Loses a tail of the batches that were not synced.
    pub fn lose_power(&self, seed: u64) {
        let mut durable = self.durable.lock();
        let keep = (seed % (durable.1.len() as u64 + 1)) as usize;
        let mut map = (*durable.0).clone();
        for batch in durable.1.drain(..).take(keep) {
            put(&mut map, &batch);
        }
        *self.now.lock() = Arc::new(map);
        durable.0 = Arc::clone(&self.now.lock());
    }

    /// Changes one value behind the store's back.
    pub fn damage(&self, space: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut now = self.now.lock();
        let map = Arc::make_mut(&mut now);
        let Some((_, value)) = map.iter_mut().find(|((s, _), _)| s.0 == space) else {
            return false;
        };
        change(value);
        true
    }

    /// As [`CrashKv::damage`], of the `n`th value of a space; those of all spaces in order.
    pub fn damage_nth(&self, n: usize, change: impl FnOnce(&mut Vec<u8>)) -> &'static str {
        let mut now = self.now.lock();
        let map = Arc::make_mut(&mut now);
        let n = n % map.len();
        let ((space, _), value) = map.iter_mut().nth(n).expect("it is one of them");
        change(value);
        space.0
    }

    /// As [`CrashKv::damage`], of the `n`th value of one space.
    pub fn damage_in(&self, space: &str, n: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let mut now = self.now.lock();
        let map = Arc::make_mut(&mut now);
        let mut of_space = map.iter_mut().filter(|((s, _), _)| s.0 == space);
        change(of_space.nth(n).expect("there are so many").1);
    }

    pub fn count(&self, space: &str) -> usize {
        self.now.lock().keys().filter(|(s, _)| s.0 == space).count()
    }
}

/// A disk and an index that outlive the stores on them.
pub struct Machine {
    pub disk: SimStorage,
    pub index: Arc<CrashKv>,
    boots: Mutex<u64>,
}

impl Machine {
    pub fn new(seed: u64) -> Self {
        Self {
            disk: SimStorage::new(seed),
            index: Arc::default(),
            boots: Mutex::new(1),
        }
    }

    pub fn config(&self) -> StoreConfig {
        let index: Arc<dyn OrderedKv> = Arc::clone(&self.index) as _;
        let mut config = StoreConfig::new(
            Arc::new(self.disk.clone()),
            index,
            format!("boot {}", self.boots.lock()),
        );
        config.cache_bytes = 2 << 20;
        config.dirty_bytes = 512 << 10;
        config.log_bytes = 1 << 20;
        config.segment_bytes = 128 << 10;
        config.growth_bytes = 1 << 20;
        config.reserve_bytes = 0;
        config
    }

    pub async fn open(&self) -> Result<Store, StoreError> {
        Store::open(self.config()).await
    }

    pub fn kill(&self, seed: u64) {
        self.disk.crash(false, seed);
    }

    /// The machine was started anew, and its disk happened to have everything.
    pub fn lose_power_but_no_bytes(&self) {
        *self.boots.lock() += 1;
    }

    pub fn lose_power(&self, seed: u64) {
        self.disk.crash(true, seed);
        self.index.lose_power(seed.rotate_left(7));
        *self.boots.lock() += 1;
    }
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

/// Bytes that tell their place and their writer apart.
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
