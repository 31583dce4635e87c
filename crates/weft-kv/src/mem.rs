//! `MemKv`: the in-memory twin of the embedded engine, for tests and simulation.
//!
//! Each key keeps the versions that some live snapshot can still see, so a snapshot costs a counter
//! and never blocks a writer. Rejected: copying a space's map when it is written under a snapshot
//! (one write would cost the whole space), and a read lock for the life of a snapshot (a thread
//! that writes while it reads would wait for itself).
//!
//! It also knows what was synced: each commit since the last sync keeps what it replaced, and
//! [`MemKv::crash_power_loss`] rolls commits back from the newest. That list grows until the next
//! sync, which is fine for tests.
//!
//! Invariants:
//! 1. One transaction at a time: the writer lock is held from its first read to its commit.
//! 2. The versions of a key ascend, and all but the oldest are newer than the oldest snapshot.
//! 3. Lock order: writer, state, live.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use parking_lot::{Mutex, RwLock};

use crate::KvError;
use crate::limits::MEM_SCAN_PAGE;
use crate::overlay::{Overlay, is_empty_range};
use crate::traits::{Batch, OrderedKv, Reader, Space, Transaction};

/// A value and the commit that set it; `None` is a removal that some snapshot does not see yet.
type Version = (u64, Option<Vec<u8>>);
/// The versions of the keys of a space, oldest first.
type Versions = BTreeMap<Vec<u8>, Vec<Version>>;
/// A key and what it held before a commit.
type Before = (Space, Vec<u8>, Option<Vec<u8>>);

#[derive(Debug, Default)]
struct MemState {
    spaces: BTreeMap<Space, Versions>,
    commit: u64,
    /// The number of the last commit; commits that were rolled back do not count.
    number: u64,
    /// Keys that keep more than their newest value because of a snapshot.
    crowded: Vec<(Space, Vec<u8>)>,
    /// What each commit since the last sync replaced, oldest first.
    unsynced: Vec<Vec<Before>>,
    /// The same since the last flush, if the engine can lose its journal.
    journal: Option<Vec<Vec<Before>>>,
}

impl MemState {
    /// Rolls commits back, given what they replaced, newest first.
    fn roll_back(&mut self, undone: impl Iterator<Item = Vec<Before>>) {
        for before in undone {
            self.number -= 1;
            for (space, key, before) in before {
                let commit = self.commit;
                let keys = self.spaces.entry(space).or_default();
                match before {
                    Some(value) => keys.insert(key, vec![(commit, Some(value))]),
                    None => keys.remove(&key),
                };
            }
        }
    }
}

/// The in-memory engine.
#[derive(Debug, Default)]
pub struct MemKv {
    writer: Mutex<()>,
    state: RwLock<MemState>,
    /// Live snapshots by the commit they see.
    live: Mutex<BTreeMap<u64, usize>>,
}

impl MemKv {
    /// An empty engine.
    pub fn new() -> MemKv {
        MemKv::default()
    }

    /// An empty engine that can lose its journal.
    pub fn with_journal() -> MemKv {
        let kv = MemKv::default();
        kv.state.write().journal = Some(Vec::new());
        kv
    }

    /// Rolls back to before some commit since the last flush, synced or not, as an engine does
    /// whose journal is damaged there; `seed` selects the commit. No snapshot may be alive.
    pub fn lose_journal(&self, seed: u64) {
        let _writer = self.writer.lock();
        let mut state = self.state.write();
        self.assert_no_snapshot();
        if let Some(mut journal) = state.journal.take() {
            let keep = (seed % (journal.len() as u64 + 1)) as usize;
            state.roll_back(journal.drain(keep..).rev());
            state.journal = Some(journal);
        }
        state.unsynced.clear();
    }

    /// Commits that a power loss would take.
    pub fn unsynced(&self) -> usize {
        self.state.read().unsynced.len()
    }

    /// Power loss: rolls back every commit since the last sync. No snapshot may be alive.
    pub fn crash_power_loss(&self) {
        self.crash_power_loss_keeping(0);
    }

    /// Power loss that spares the first `keep` commits since the last sync: a log is written in
    /// order, so any prefix of it may have reached the disk. The spared commits count as synced.
    pub fn crash_power_loss_keeping(&self, keep: usize) {
        let _writer = self.writer.lock();
        let mut state = self.state.write();
        self.assert_no_snapshot();
        let mut unsynced = std::mem::take(&mut state.unsynced);
        let lost = unsynced.len().saturating_sub(keep);
        state.roll_back(unsynced.drain(unsynced.len() - lost..).rev());
        if let Some(journal) = &mut state.journal {
            journal.truncate(journal.len() - lost);
        }
    }

    fn assert_no_snapshot(&self) {
        assert!(
            self.live.lock().is_empty(),
            "a snapshot outlived the crash of its engine"
        );
    }

    /// Another engine with what is synced here: what a machine finds after a power loss.
    #[must_use]
    pub fn clone_synced(&self) -> MemKv {
        let _writer = self.writer.lock();
        let state = self.state.read();
        let mut spaces = state.spaces.clone();
        for (space, key, before) in state.unsynced.iter().rev().flatten() {
            let keys = spaces.entry(*space).or_default();
            match before {
                Some(value) => keys.insert(key.clone(), vec![(0, Some(value.clone()))]),
                None => keys.remove(key),
            };
        }
        for keys in spaces.values_mut() {
            keys.retain(|_, versions| {
                let newest = versions.pop().and_then(|(_, value)| value);
                versions.clear();
                versions.extend(newest.map(|value| (0, Some(value))));
                !versions.is_empty()
            });
        }
        let state = MemState {
            spaces,
            number: state.number - state.unsynced.len() as u64,
            ..MemState::default()
        };
        MemKv {
            state: RwLock::new(state),
            ..MemKv::default()
        }
    }

    fn open_snapshot(&self) -> Snapshot<'_> {
        let state = self.state.read();
        *self.live.lock().entry(state.commit).or_default() += 1;
        Snapshot {
            kv: self,
            commit: state.commit,
        }
    }

    fn commit(&self, overlay: Overlay) {
        if overlay.is_empty() {
            return;
        }
        let mut state = self.state.write();
        let state = &mut *state;
        state.commit += 1;
        state.number += 1;
        let commit = state.commit;
        let oldest = self.live.lock().keys().next().copied().unwrap_or(commit);
        let mut undo = Vec::new();
        for (space, key, value) in overlay.into_changes() {
            let keys = state.spaces.entry(space).or_default();
            let versions = keys.entry(key.clone()).or_default();
            let before = versions.last().and_then(|(_, value)| value.clone());
            versions.push((commit, value));
            if prune_key(keys, &key, oldest) {
                state.crowded.push((space, key.clone()));
            }
            undo.push((space, key, before));
        }
        if let Some(journal) = &mut state.journal {
            journal.push(undo.clone());
        }
        state.unsynced.push(undo);
    }

    /// Drops versions that no live snapshot can see.
    fn prune_crowded(&self) {
        let mut state = self.state.write();
        let state = &mut *state;
        let oldest = self.live.lock().keys().next().copied();
        let oldest = oldest.unwrap_or(state.commit);
        for (space, key) in std::mem::take(&mut state.crowded) {
            let Some(keys) = state.spaces.get_mut(&space) else {
                continue;
            };
            if prune_key(keys, &key, oldest) {
                state.crowded.push((space, key));
            }
        }
    }
}

/// Prunes the versions of a key, and the key with its last one. Returns whether the key keeps more
/// than its newest value.
fn prune_key(keys: &mut Versions, key: &[u8], oldest: u64) -> bool {
    let Some(versions) = keys.get_mut(key) else {
        return false;
    };
    prune(versions, oldest);
    if versions.is_empty() {
        keys.remove(key);
        return false;
    }
    versions.len() > 1 || versions[0].1.is_none()
}

/// Keeps the newest version that `oldest` sees and all newer ones; a lone removal goes too.
fn prune(versions: &mut Vec<Version>, oldest: u64) {
    let seen = versions.iter().rposition(|(commit, _)| *commit <= oldest);
    if let Some(seen) = seen {
        versions.drain(..seen);
        if versions.len() == 1 && versions[0].1.is_none() {
            versions.clear();
        }
    }
}

/// The newest value at or before `commit`.
fn visible(versions: &[Version], commit: u64) -> Option<&Vec<u8>> {
    let version = versions.iter().rev().find(|(at, _)| *at <= commit)?;
    version.1.as_ref()
}

struct Snapshot<'a> {
    kv: &'a MemKv,
    commit: u64,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let was_oldest = {
            let mut live = self.kv.live.lock();
            let was_oldest = live.keys().next() == Some(&self.commit);
            let count = live.get_mut(&self.commit).expect("a snapshot is counted");
            *count -= 1;
            *count == 0 && live.remove(&self.commit).is_some() && was_oldest
        };
        if was_oldest && !self.kv.state.read().crowded.is_empty() {
            self.kv.prune_crowded();
        }
    }
}

impl Reader for Snapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        let state = self.kv.state.read();
        let versions = state.spaces.get(&space).and_then(|keys| keys.get(key));
        Ok(versions.and_then(|versions| visible(versions, self.commit).cloned()))
    }

    fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        if is_empty_range(from, to) {
            return Ok(());
        }
        // `visit` may read or commit through this engine, so no lock is held while it runs.
        let mut from = from.map(<[u8]>::to_vec);
        loop {
            let page = self.page(space, from.as_ref().map(Vec::as_slice), to);
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            from = Bound::Excluded(last.clone());
            for (key, value) in &page {
                if visit(key, value).is_break() {
                    return Ok(());
                }
            }
            if is_empty_range(from.as_ref().map(Vec::as_slice), to) {
                return Ok(());
            }
        }
    }
}

impl Snapshot<'_> {
    fn page(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let state = self.kv.state.read();
        let Some(keys) = state.spaces.get(&space) else {
            return Vec::new();
        };
        keys.range::<[u8], _>((from, to))
            .filter_map(|(key, versions)| {
                let value = visible(versions, self.commit)?;
                Some((key.clone(), value.clone()))
            })
            .take(MEM_SCAN_PAGE)
            .collect()
    }
}

impl OrderedKv for MemKv {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        Ok(Box::new(self.open_snapshot()))
    }

    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let _writer = self.writer.lock();
        self.commit(Overlay::of_transaction(self.open_snapshot(), work)?);
        Ok(())
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        let _writer = self.writer.lock();
        self.commit(Overlay::from_batch(batch));
        Ok(())
    }

    fn flush(&self) -> Result<(), KvError> {
        let mut state = self.state.write();
        state.unsynced.clear();
        if let Some(journal) = &mut state.journal {
            journal.clear();
        }
        Ok(())
    }

    fn committed(&self) -> u64 {
        self.state.read().number
    }

    fn sync(&self) -> Result<(), KvError> {
        self.state.write().unsynced.clear();
        Ok(())
    }
}
