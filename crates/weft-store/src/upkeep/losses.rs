//! Lost and unproven bytes: counting them, reporting them to readers and checks, and accepting
//! them.
//!
//! A block is lost if its entry says that it has no place (`repair.rs`). This is as durable as any
//! entry, and ends with it: when the block is written again, truncated, cleared or removed, or gets
//! another place by a rollback to a checkpoint. Beside the entries, the state only lists which ones
//! may have lost blocks: opening the store reads all entries, every change of one goes through
//! [`StoreState::mark_changed`], and an entry without lost blocks leaves the list when it is
//! counted.

use std::collections::BTreeSet;
use std::ops::Range;

use weft_layout::{CellIndex, FileId};

use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::forks::Fork;
use crate::key::{ForkKey, ForkName};
use crate::limits::{LOSSES_COUNTED, LOSSES_EVICT_INTERVAL};
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, RunsRecord, new_body};
use crate::state::StoreState;

/// How much of a store's contents is lost, or not proven to be as it was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Files with losses, in a cell or in a checkpoint.
    pub files: u64,
    /// Ranges of bytes.
    pub ranges: u64,
    /// Bytes in those ranges.
    pub bytes: u64,
    /// More is lost than was counted.
    pub more: bool,
}

/// Blocks of a chunk that are lost and were not written again in memory.
fn lost_blocks(chunk: &Chunk) -> Vec<Range<u32>> {
    let mut found: Vec<Range<u32>> = Vec::new();
    for block in chunk.lost() {
        if chunk.valid_page(block).is_some() {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => found.push(block..block + 1),
        }
    }
    found
}

impl Fork {
    /// The bytes of blocks of a chunk.
    pub(super) fn bytes_of(&self, n: u64, blocks: &Range<u32>) -> Range<u64> {
        let size = u64::from(self.chunk());
        let at = |block: u32| n * size + (u64::from(block) * BLOCK as u64).min(size);
        at(blocks.start)..at(blocks.end)
    }
}

impl StoreState {
    /// Bytes of a fork that are lost in a chunk whose entry is in memory.
    fn lost_in(&self, id: ForkId, n: u64) -> Vec<(Range<u32>, Range<u64>)> {
        let Some(fork) = self.forks().get(id) else {
            return Vec::new();
        };
        let blocks = fork.chunks().get(&n).map(lost_blocks).unwrap_or_default();
        let ranges = blocks.into_iter().map(|blocks| {
            let range = fork.bytes_of(n, &blocks);
            (blocks, range.start..range.end.min(fork.length()))
        });
        ranges.filter(|(_, range)| !range.is_empty()).collect()
    }

    /// The error for a reader of a lost block: the lost range around it. `None` if it is not lost
    /// any more.
    pub(crate) fn lost(&self, id: ForkId, chunk: u64, block: u32) -> Option<StoreError> {
        let fork = self.forks().get(id)?;
        let around = lost_blocks(fork.chunks().get(&chunk)?).into_iter();
        let around = around.into_iter().find(|blocks| blocks.contains(&block))?;
        let range = fork.bytes_of(chunk, &around);
        Some(StoreError::Lost {
            file: fork.key().file,
            cell: fork.key().cell,
            fork: fork.key().fork.clone(),
            range: range.start..range.end.min(fork.length()).max(range.start + 1),
        })
    }

    /// The entries that may have lost blocks.
    fn lossy(&self, of: Option<FileId>) -> Vec<(ForkId, u64)> {
        let wanted = |(id, _): &(ForkId, u64)| {
            let key = self.forks().get(*id).map(|fork| fork.key().file);
            of.is_none() || key == of
        };
        self.lossy_chunks().iter().filter(wanted).collect()
    }
}

impl Inner {
    /// The lost ranges of an entry that may have lost blocks.
    fn lost_ranges(&self, id: ForkId, n: u64) -> Result<Vec<Range<u64>>, StoreError> {
        self.load_entry(id, n)?;
        let mut state = self.lock();
        let chunk = state.forks().get(id).and_then(|fork| fork.chunks().get(&n));
        // An entry that was evicted just now stays listed for the next count.
        let gone = !state.forks().contains(id) || chunk.is_some_and(|c| c.lost().next().is_none());
        if gone {
            state.lossy_mut().remove(id, n);
        }
        let found = state.lost_in(id, n).into_iter();
        Ok(found.map(|(_, range)| range).collect())
    }

    /// The findings of a check about lost blocks of an entry.
    pub(crate) fn find_lost(
        &self,
        id: ForkId,
        chunk: u64,
        runs: &RunsRecord,
    ) -> Result<Vec<Finding>, StoreError> {
        if !runs.runs.iter().any(|run| run.place.is_lost()) {
            return Ok(Vec::new());
        }
        self.load_entry(id, chunk)?;
        let state = self.lock();
        let Some(fork) = state.forks().get(id) else {
            return Ok(Vec::new());
        };
        let (key, checkpoint) = (fork.key(), fork.checkpoint());
        let finding = |(blocks, range): (Range<u32>, Range<u64>)| Finding {
            key: key.clone(),
            chunk,
            blocks,
            disk: 0,
            place: 0,
            fault: Fault::Lost { range, checkpoint },
        };
        Ok(state.lost_in(id, chunk).into_iter().map(finding).collect())
    }

    /// As [`Inner::find_lost`], of a chunk of all forks of a name.
    pub(crate) fn find_lost_of(&self, finding: &Finding) -> Result<Vec<Finding>, StoreError> {
        let forks = self.lock().forks().all_of(&finding.key);
        let mut found = Vec::new();
        for id in forks {
            self.load_entry(id, finding.chunk)?;
            let runs = {
                let state = self.lock();
                let fork = state.forks().get(id);
                fork.and_then(|f| f.chunks().get(&finding.chunk))
                    .map(Chunk::to_runs)
            };
            found.extend(self.find_lost(id, finding.chunk, &runs.unwrap_or_default())?);
        }
        Ok(found)
    }

    /// Makes holes of the lost blocks of an entry; returns the ranges and the frame's sequence.
    fn accept_in(&self, id: ForkId, n: u64) -> Result<(Vec<Range<u64>>, u64), StoreError> {
        loop {
            let evictions = self.lock().cache().evictions();
            self.load_entry(id, n)?;
            let mut state = self.lock();
            state.check_writable()?;
            if state.cache().evictions() != evictions {
                continue;
            }
            let Some(fork) = state.forks().get(id) else {
                return Ok((Vec::new(), state.sequence()));
            };
            let modified = fork.modified();
            let accepted = state.lost_in(id, n);
            let blocks = fork.chunks().get(&n).map(lost_blocks).unwrap_or_default();
            if blocks.is_empty() {
                return Ok((Vec::new(), state.sequence()));
            }
            let sequence = state.next_sequence();
            let mut body = new_body(modified);
            for blocks in &blocks {
                let bytes = fork.bytes_of(n, blocks);
                ItemRecord::Clear {
                    id,
                    offset: bytes.start,
                    length: bytes.end - bytes.start,
                }
                .encode(&mut body);
            }
            for blocks in blocks {
                state.empty(id, n, blocks, sequence);
            }
            state.lossy_mut().remove(id, n);
            let sequence = state.log(&body);
            return Ok((accepted.into_iter().map(|(_, r)| r).collect(), sequence));
        }
    }
}

impl Losses {
    fn add(&mut self, ranges: &[Range<u64>]) {
        self.ranges += ranges.len() as u64;
        self.bytes += ranges.iter().map(|r| r.end - r.start).sum::<u64>();
    }

    fn add_all(&mut self, other: Losses) {
        self.ranges += other.ranges;
        self.bytes += other.bytes;
    }
}

impl Inner {
    /// Counts the doubted bytes of a file, or of all files, as proven from now on.
    fn accept_doubt(&self, file: Option<FileId>) -> Result<Losses, StoreError> {
        let (mut accepted, mut files) = (Losses::default(), BTreeSet::new());
        let sequence = {
            let mut state = self.lock();
            state.check_writable()?;
            for id in state.doubted_of(file) {
                files.extend(state.forks().get(id).map(|fork| fork.key().file));
                accepted.add(&state.doubted_ranges(id));
            }
            // Forks that are not there and may have been; their bytes are unknown.
            let absent = match file {
                Some(file) => state.doubts().doubts_absent(file),
                None => state.doubts().absent().is_some(),
            };
            accepted.ranges += u64::from(absent);
            files.extend(file.filter(|_| absent));
            state.accept_doubt(file)
        };
        accepted.files = files.len() as u64;
        self.append(sequence)?;
        Ok(accepted)
    }

    /// Puts all files before `below` in doubt.
    fn doubt_older(&self, below: FileId) -> Result<(), StoreError> {
        let sequence = {
            let mut state = self.lock();
            state.check_writable()?;
            let mut body = new_body(0);
            ItemRecord::DoubtAll { below }.encode(&mut body);
            state.doubt_all(below);
            state.touches().any();
            state.log(&body)
        };
        self.append(sequence)
    }

    /// The findings of a check about bytes that are not proven.
    pub(crate) fn find_doubted(&self) -> Vec<Finding> {
        let state = self.lock();
        let mut found = Vec::new();
        let mut add = |key: &ForkKey, range, checkpoint| {
            found.push(Finding {
                key: key.clone(),
                chunk: 0,
                blocks: 0..0,
                disk: 0,
                place: 0,
                fault: Fault::Unproven { range, checkpoint },
            });
        };
        for id in state.doubted_of(None) {
            let Some(fork) = state.forks().get(id) else {
                continue;
            };
            for range in state.doubted_ranges(id) {
                add(fork.key(), range, fork.checkpoint());
            }
        }
        for (file, number) in state.doubts().unsure() {
            let (cell, fork) = (CellIndex(0), ForkName::data());
            add(&ForkKey { file, cell, fork }, 0..0, Some(number));
        }
        if state.doubts().absent().is_some() {
            // Not of one file, but of all that this store does not have.
            let none = ForkKey {
                file: FileId(0),
                cell: CellIndex(0),
                fork: ForkName::data(),
            };
            add(&none, 0..0, None);
        }
        found
    }
}

impl Store {
    /// How much is lost or unproven: reading it fails until it is written again, removed or
    /// accepted.
    ///
    /// Cost: reads each entry that may have lost blocks, 10,000 at most.
    pub fn losses(&self) -> Result<Losses, StoreError> {
        let inner = &self.0;
        let all = inner.lock().lossy(None);
        let (mut found, mut files) = (Losses::default(), BTreeSet::new());
        found.more = all.len() > LOSSES_COUNTED;
        for (at, (id, n)) in all.into_iter().take(LOSSES_COUNTED).enumerate() {
            let ranges = inner.lost_ranges(id, n)?;
            let mut state = inner.lock();
            if !ranges.is_empty() {
                files.extend(state.forks().get(id).map(|fork| fork.key().file));
            }
            found.add(&ranges);
            if at % LOSSES_EVICT_INTERVAL == LOSSES_EVICT_INTERVAL - 1 {
                state.evict(inner.bounds().cache);
            }
        }
        let state = inner.lock();
        let doubted = state.doubted_of(None);
        found.more |= doubted.len() > LOSSES_COUNTED || state.doubts().absent().is_some();
        for id in doubted.into_iter().take(LOSSES_COUNTED) {
            files.extend(state.forks().get(id).map(|fork| fork.key().file));
            found.add(&state.doubted_ranges(id));
        }
        // Forks that are not there and may have been.
        found.ranges += u64::from(state.doubts().absent().is_some());
        found.files = files.len() as u64;
        Ok(found)
    }

    /// Makes zeros of all lost bytes of a file, in its cells and checkpoints, and of missing and
    /// damaged chunks in its cells, and shows its unproven bytes: the file's owner decided that
    /// this is better than errors. Lengths and times stay.
    ///
    /// # Durability
    /// On stable storage on return.
    pub async fn accept_losses(&self, file: FileId) -> Result<Losses, StoreError> {
        let inner = &self.0;
        let mut accepted = Losses::default();
        {
            // No chunk may leave a fork meanwhile.
            let _turn = inner.turns().merge().await;
            let all = inner.lock().lossy(Some(file));
            for (id, n) in all {
                inner.admit_freeing().await?;
                let (ranges, sequence) = inner.accept_in(id, n)?;
                inner.append(sequence)?;
                accepted.add(&ranges);
            }
            accepted.add_all(inner.accept_doubt(Some(file))?);
        }
        let (ranges, bytes) = self.accept_missing(file).await?;
        accepted.ranges += ranges;
        accepted.bytes += bytes;
        accepted.files = u64::from(accepted.ranges > 0);
        self.sync().await?;
        Ok(accepted)
    }

    /// Puts all files before `below` in doubt, also the absence of others: the store is an older
    /// copy of one that had acknowledged more. Checkpoints stay as they are. Reading fails with
    /// [`StoreError::Unproven`] until the bytes are written again, truncated, removed or accepted.
    ///
    /// Cost: as many entries in memory and in the index as there are forks.
    /// # Durability
    /// On stable storage on return.
    pub async fn doubt_older(&self, below: FileId) -> Result<(), StoreError> {
        self.0.doubt_older(below)?;
        self.sync().await
    }

    /// Whether anything is in doubt; if not, [`Store::check_proven`] refuses nothing.
    pub fn has_doubt(&self) -> bool {
        self.0.lock().doubts().any()
    }

    /// Cells of files before this one may have been in the store, although it does not have them;
    /// [`Store::doubts_absent`] answers for a single file.
    pub fn absent_doubted_below(&self) -> Option<FileId> {
        self.0.lock().doubts().absent()
    }

    /// Whether cells of a file may have been in the store, although it does not have them.
    pub fn doubts_absent(&self, file: FileId) -> bool {
        self.0.lock().doubts().doubts_absent(file)
    }

    /// Refuses bytes that are in doubt, of a live fork or of a checkpoint. Beyond a fork's end,
    /// and of a missing fork, their existence is in doubt.
    ///
    /// # Errors
    /// [`StoreError::Unproven`]; [`StoreError::NoCheckpoint`].
    pub fn check_proven(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        bytes: Range<u64>,
    ) -> Result<(), StoreError> {
        let state = self.0.lock();
        let found = state.find_in(key, checkpoint)?;
        state.check_proven(key, (found, checkpoint), bytes)
    }

    /// Whether the ends of a file's forks, or of a checkpoint's, are in doubt, or the absence of
    /// other forks.
    pub fn doubts_ends(&self, file: FileId, checkpoint: Option<u64>) -> bool {
        self.0.lock().doubts_ends(file, checkpoint)
    }

    /// When a live fork was written last, in nanoseconds since the epoch; 0 if there is none.
    ///
    /// Cost: O(forks).
    pub fn newest(&self) -> i64 {
        let state = self.0.lock();
        let live = state
            .forks()
            .iter()
            .filter(|(_, fork)| fork.checkpoint().is_none());
        live.map(|(_, fork)| fork.modified()).max().unwrap_or(0)
    }

    /// Shows the unproven bytes of all files; lost bytes stay lost.
    ///
    /// # Durability
    /// On stable storage on return.
    pub async fn accept_unproven(&self) -> Result<Losses, StoreError> {
        let accepted = self.0.accept_doubt(None)?;
        self.sync().await?;
        Ok(accepted)
    }
}
