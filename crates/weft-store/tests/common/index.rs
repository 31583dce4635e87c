//! An index in memory that can crash, alone or with the disks.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use weft_kv::{Batch, KvError, OrderedKv, Reader, Space, Transaction};
use weft_store::SimStorage;

type Map = BTreeMap<(Space, Vec<u8>), Vec<u8>>;

/// An index in memory that knows which batches were synced.
#[derive(Default)]
pub struct CrashKv {
    now: Mutex<Arc<Map>>,
    /// State at the last sync, and every batch since.
    durable: Mutex<(Arc<Map>, Vec<Batch>)>,
    /// State in tables, and every batch since: the contents of the journal.
    settled: Mutex<(Arc<Map>, Vec<Batch>)>,
    /// Batches that were lost with journals.
    unread: AtomicU64,
    deaths: Mutex<BTreeMap<&'static str, u64>>,
    /// The operations of the machine that were writes and syncs of the index.
    steps: Mutex<Vec<u64>>,
    unreadable: AtomicBool,
    full: AtomicBool,
    /// How many more times it grants the reserve, and whether it granted it last time.
    reserve: AtomicU64,
    granted: AtomicBool,
    panics: AtomicBool,
    /// The number of operations that succeed before it refuses one.
    refuses: AtomicI64,
}

fn apply(map: &mut Map, batch: &Batch) {
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
        apply(Arc::make_mut(&mut self.now.lock()), &batch);
        self.settled.lock().1.push(batch.clone());
        self.durable.lock().1.push(batch);
        Ok(())
    }
    fn flush(&self) -> Result<(), KvError> {
        *self.settled.lock() = (Arc::clone(&self.now.lock()), Vec::new());
        self.sync()
    }
    fn committed(&self) -> u64 {
        unimplemented!("the store counts its own frames")
    }
    fn sync(&self) -> Result<(), KvError> {
        *self.durable.lock() = (Arc::clone(&self.now.lock()), Vec::new());
        Ok(())
    }
}

/// The index as one process has it: its operations are counted with those of the disks, the process
/// can die at one of them, and none takes effect after that.
pub struct LiveKv {
    index: Arc<CrashKv>,
    disk: SimStorage,
    life: u64,
}

impl LiveKv {
    pub fn new(index: &Arc<CrashKv>, disk: &SimStorage) -> Arc<Self> {
        Arc::new(Self {
            index: Arc::clone(index),
            disk: disk.clone(),
            life: disk.life(),
        })
    }

    /// Counts an operation. If it is the last one of the process, it does not take effect: the
    /// process dies before it.
    fn step(&self, doing: &'static str) -> Result<(), KvError> {
        let failed = |reason: String| KvError::Engine { doing, reason };
        let done = self.disk.step(self.life);
        self.index.steps.lock().push(self.disk.operations());
        match done {
            Ok(false) => Ok(()),
            Ok(true) => {
                *self.index.deaths.lock().entry(doing).or_default() += 1;
                Err(failed("the simulated process has died".to_owned()))
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

impl OrderedKv for LiveKv {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        if self.index.unreadable.load(Ordering::Relaxed) {
            return Err(KvError::Engine {
                doing: "read",
                reason: "the simulated index is unreadable".to_owned(),
            });
        }
        self.index.snapshot()
    }
    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        self.index.transact(work)
    }
    fn check_space(&self) -> Result<(), KvError> {
        if self.index.full.load(Ordering::Relaxed) {
            return Err(KvError::NoSpace {
                path: "/index".to_owned(),
                available: 1,
                needed: 2,
            });
        }
        Ok(())
    }
    fn check_reclaim_space(&self, _bytes: u64) -> Result<(), KvError> {
        match self.check_space() {
            Err(full) => {
                let less = |left: u64| left.checked_sub(1);
                let left = &self.index.reserve;
                let left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
                self.index.granted.store(left.is_ok(), Ordering::Relaxed);
                left.map(drop).map_err(|_| full)
            }
            done => done,
        }
    }
    fn write(&self, batch: Batch) -> Result<(), KvError> {
        let panics = self.index.panics.swap(false, Ordering::Relaxed);
        assert!(
            !panics,
            "the simulated index panics, as intended by the test"
        );
        let granted = self.index.granted.load(Ordering::Relaxed);
        if self.check_space().is_err() && !granted {
            return Err(KvError::Engine {
                doing: "write",
                reason: "the simulated disk is full".to_owned(),
            });
        }
        if self.index.refuses() {
            let reason = "too many open files".to_owned();
            return Err(KvError::Suspended { reason });
        }
        self.step("write")?;
        self.index.write(batch)
    }
    fn flush(&self) -> Result<(), KvError> {
        self.step("settle")?;
        self.index.flush()
    }
    fn committed(&self) -> u64 {
        self.index.committed()
    }
    fn sync(&self) -> Result<(), KvError> {
        if self.index.refuses() {
            let reason = "too many open files".to_owned();
            return Err(KvError::NotSynced { reason });
        }
        self.step("sync")?;
        self.index.sync()
    }
}

impl CrashKv {
    /// How often a process died before an operation of the index, by operation.
    pub fn deaths(&self) -> BTreeMap<&'static str, u64> {
        self.deaths.lock().clone()
    }

    /// The operations of the machine, from number `from` on, that were writes and syncs of the
    /// index.
    pub fn steps(&self, from: u64) -> Vec<u64> {
        let steps = self.steps.lock();
        steps.iter().copied().filter(|n| *n >= from).collect()
    }

    /// Makes every read fail from now on, or none.
    pub fn set_unreadable(&self, unreadable: bool) {
        self.unreadable.store(unreadable, Ordering::Relaxed);
    }

    /// From now on the disk of the index is full, or has space.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Lets a full disk grant the reserve this many times.
    pub fn set_reserve(&self, times: u64) {
        self.reserve.store(times, Ordering::Relaxed);
    }

    /// Refuses one write or sync after this many, as if the system had run out of a resource.
    pub fn refuse_after(&self, operations: i64) {
        self.refuses.store(operations + 1, Ordering::Relaxed);
    }

    /// Whether that refusal has not happened yet.
    pub fn refuse_is_due(&self) -> bool {
        self.refuses.load(Ordering::Relaxed) > 0
    }

    fn refuses(&self) -> bool {
        self.refuses.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// The next batch panics.
    pub fn panic_once(&self) {
        self.panics.store(true, Ordering::Relaxed);
    }

    /// Batches that no sync covers.
    pub fn unsynced(&self) -> usize {
        self.durable.lock().1.len()
    }

    /// Loses the last of the batches that were not synced.
    pub fn lose_power(&self, seed: u64) {
        let mut durable = self.durable.lock();
        let keep = (seed % (durable.1.len() as u64 + 1)) as usize;
        let mut map = (*durable.0).clone();
        let lost = durable.1.len() - keep;
        for batch in durable.1.drain(..).take(keep) {
            apply(&mut map, &batch);
        }
        *self.now.lock() = Arc::new(map);
        durable.0 = Arc::clone(&self.now.lock());
        let journal = &mut self.settled.lock().1;
        journal.truncate(journal.len() - lost);
    }

    /// Makes the journal unreadable from some batch on, synced or not: the index is as it was
    /// before that batch.
    pub fn lose_journal(&self, seed: u64) {
        let mut settled = self.settled.lock();
        let keep = (seed % (settled.1.len() as u64 + 1)) as usize;
        let lost = settled.1.len() - keep;
        self.unread.fetch_add(lost as u64, Ordering::Relaxed);
        settled.1.truncate(keep);
        let mut map = (*settled.0).clone();
        for batch in &settled.1 {
            apply(&mut map, batch);
        }
        let map = Arc::new(map);
        *self.now.lock() = Arc::clone(&map);
        *self.durable.lock() = (map, Vec::new());
    }

    /// Batches that were lost with journals so far.
    pub fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
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

    /// As [`CrashKv::damage`], of the `n`th value of all spaces in order; returns its space.
    pub fn damage_nth(&self, n: usize, change: impl FnOnce(&mut Vec<u8>)) -> &'static str {
        let mut now = self.now.lock();
        let map = Arc::make_mut(&mut now);
        let n = n % map.len();
        let ((space, _), value) = map
            .iter_mut()
            .nth(n)
            .expect("`n` is below the number of values");
        change(value);
        space.0
    }

    /// As [`CrashKv::damage`], of the `n`th value of one space.
    pub fn damage_in(&self, space: &str, n: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let mut now = self.now.lock();
        let map = Arc::make_mut(&mut now);
        let mut of_space = map.iter_mut().filter(|((s, _), _)| s.0 == space);
        change(
            of_space
                .nth(n)
                .expect("the space has more than `n` values")
                .1,
        );
    }

    pub fn count(&self, space: &str) -> usize {
        self.now.lock().keys().filter(|(s, _)| s.0 == space).count()
    }
}
