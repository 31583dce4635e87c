//! Loading blocks from the disk into memory.

use std::collections::BTreeSet;

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::counters::Counters;
use crate::engine::Inner;
use crate::error::StoreError;
use crate::limits::OPERATION_BLOCKS;
use crate::pages::{Chunk, WantedBlock, bit};
use crate::pool::{BLOCK, Buffer};
use crate::record::{ForkId, Place, checksum};
use crate::state::StoreState;

/// Whether blocks are loaded for the first time in a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attempt {
    #[default]
    First,
    /// They were loaded and evicted before the caller had them: the cache's bound does not hold.
    Retry,
}

/// Why blocks are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A caller waits for them.
    Demand(Attempt),
    /// They are prefetched.
    Prefetch,
}

/// Blocks that are consecutive on the disk: one read operation.
struct ReadBatch {
    place: Place,
    blocks: u32,
    segments: Vec<ReadSegment>,
}

/// Consecutive blocks of one chunk in a batch.
struct ReadSegment {
    id: ForkId,
    chunk: u64,
    first: u32,
    blocks: u32,
}

impl Inner {
    /// Reads blocks, verifies them and adds them to the cache, except blocks whose map changed
    /// meanwhile: the caller checks again.
    pub(crate) async fn load_blocks(
        &self,
        wanted: &[WantedBlock],
        attempt: Attempt,
    ) -> Result<(), StoreError> {
        self.load_for(wanted, Purpose::Demand(attempt)).await
    }

    /// As [`Inner::load_blocks`], of blocks that no caller waits for yet.
    pub(crate) async fn prefetch_blocks(&self, wanted: &[WantedBlock]) -> Result<(), StoreError> {
        self.load_for(wanted, Purpose::Prefetch).await
    }

    /// Reads all of the blocks, without sharing reads in flight: for recovery, which does not check
    /// again.
    pub(crate) async fn load_unshared(&self, wanted: &[WantedBlock]) -> Result<(), StoreError> {
        for batch in batches(wanted) {
            let purpose = Purpose::Demand(Attempt::Retry);
            self.load_batch(batch, purpose).await?;
        }
        Ok(())
    }

    async fn load_for(&self, wanted: &[WantedBlock], purpose: Purpose) -> Result<(), StoreError> {
        let (free, in_flight) = if self.bounds().rules.share_reads {
            self.flights().divide(wanted)
        } else {
            (wanted.to_vec(), Vec::new())
        };
        let mut batches = batches(&free);
        if batches.len() == 1 {
            self.load_once(batches.remove(0), purpose).await?;
        } else {
            let loads = batches
                .into_iter()
                .map(|batch| self.load_once(batch, purpose));
            let mut running: FuturesUnordered<_> = loads.collect();
            while let Some(done) = running.next().await {
                done?;
            }
        }
        if purpose != Purpose::Prefetch {
            for other in in_flight {
                other.wait().await;
            }
        }
        Ok(())
    }

    /// Reads a batch, unless a read of some of its blocks is in flight: then it waits for that
    /// read, and the caller checks again.
    fn load_once(
        &self,
        batch: ReadBatch,
        purpose: Purpose,
    ) -> impl Future<Output = Result<(), StoreError>> {
        let begun = if self.bounds().rules.share_reads {
            self.flights().begin(batch.place, batch.blocks).map(Some)
        } else {
            Ok(None)
        };
        async move {
            match begun {
                Ok(_flight) => {
                    if purpose == Purpose::Prefetch {
                        Counters::add(&self.counters().prefetched, u64::from(batch.blocks));
                    }
                    self.load_batch(batch, purpose).await
                }
                // No caller waits for a prefetch.
                Err(_) if purpose == Purpose::Prefetch => Ok(()),
                Err(in_flight) => {
                    in_flight.wait().await;
                    Ok(())
                }
            }
        }
    }

    async fn load_batch(&self, batch: ReadBatch, purpose: Purpose) -> Result<(), StoreError> {
        if batch.place.is_absent() {
            return self.check_absent(&batch);
        }
        let bytes = u64::from(batch.blocks) * BLOCK as u64;
        if purpose != Purpose::Demand(Attempt::Retry) {
            self.lock().evict(self.bounds().cache.saturating_sub(bytes));
        }
        let mut buffers = Vec::new();
        for segment in &batch.segments {
            buffers.extend(self.buffers_for(segment));
        }
        Counters::add(&self.counters().disk_reads, 1);
        Counters::add(&self.counters().disk_read_bytes, bytes);
        let read = match self.disks().file(batch.place) {
            Ok(file) => file.read_at(batch.place.offset(), buffers).await,
            Err(error) => Err(error),
        };
        let mut buffers = match read {
            Ok(buffers) => buffers.into_iter(),
            Err(_) if batch.blocks > 1 => return self.load_singly(batch).await,
            Err(error) => return Err(self.unreadable(&batch, &error)),
        };
        let mut place = batch.place;
        for segment in batch.segments {
            let mut first = segment.first;
            while first < segment.first + segment.blocks {
                let buffer = buffers
                    .next()
                    .expect("the storage returns the buffers it was given");
                let blocks = buffer.blocks() as u32;
                self.install(&segment, first, place, buffer, purpose)?;
                first += blocks;
                place = place.plus(blocks);
            }
        }
        Ok(())
    }

    /// Reads a batch that failed again, block by block: to load what can be read and to name what
    /// cannot.
    async fn load_singly(&self, batch: ReadBatch) -> Result<(), StoreError> {
        let (mut place, mut result) = (batch.place, Ok(()));
        for segment in batch.segments {
            for first in segment.first..segment.first + segment.blocks {
                let segment = ReadSegment {
                    first,
                    blocks: 1,
                    ..segment
                };
                let one = ReadBatch {
                    place,
                    blocks: 1,
                    segments: vec![segment],
                };
                let purpose = Purpose::Demand(Attempt::Retry);
                let done = Box::pin(self.load_batch(one, purpose)).await;
                place = place.plus(1);
                match done {
                    // A disk that is missing is not asked for the other blocks.
                    Err(error) if self.disks().file(batch.place).is_err() => return Err(error),
                    done => result = result.and(done),
                }
            }
        }
        result
    }

    /// The error for a lost or coded block; none if it was written again meanwhile: the caller
    /// checks again.
    fn check_absent(&self, batch: &ReadBatch) -> Result<(), StoreError> {
        let ReadSegment {
            id, chunk, first, ..
        } = batch.segments[0];
        let state = self.lock();
        let error = state.lost(id, chunk, first);
        error
            .or_else(|| state.coded(id, chunk, first))
            .map_or(Ok(()), Err)
    }

    /// Takes note that a disk failed to read a block; returns the error for the caller.
    fn unreadable(&self, batch: &ReadBatch, error: &std::io::Error) -> StoreError {
        let (place, segment) = (batch.place, &batch.segments[0]);
        let (shown, reason) = (self.disks().shown(place), error.to_string());
        let mut state = self.lock();
        self.disks()
            .fail(state.space_mut(), place.disk(), &format!("read: {reason}"));
        let Some(fork) = state.forks().get(segment.id) else {
            return StoreError::io("read", &shown, error);
        };
        StoreError::DiskFailed {
            file: fork.key().file,
            cell: fork.key().cell,
            fork: fork.key().fork.clone(),
            chunk: segment.chunk,
            at: segment.first,
            block: place.block(),
            disk: place.disk(),
            shown,
            reason,
        }
    }

    /// Buffers for exactly the blocks of a segment: a read must not touch their neighbours in a
    /// page.
    fn buffers_for(&self, segment: &ReadSegment) -> Vec<Buffer> {
        let (mut first, end) = (segment.first, segment.first + segment.blocks);
        let mut out = Vec::new();
        while first < end {
            let blocks = [16, 4, 1]
                .into_iter()
                .find(|n| first.is_multiple_of(*n) && first + n <= end);
            let blocks = blocks.expect("one block always fits");
            out.push(self.pool().take(blocks as usize));
            first += blocks;
        }
        out
    }

    /// Verifies blocks that were just read and adds them to the cache.
    fn install(
        &self,
        segment: &ReadSegment,
        first: u32,
        place: Place,
        buffer: Buffer,
        purpose: Purpose,
    ) -> Result<(), StoreError> {
        let crcs: Vec<u32> = buffer.chunks_exact(BLOCK).map(checksum).collect();
        let mut state = self.lock();
        let Some(fork) = state.forks().get(segment.id) else {
            return Ok(());
        };
        let Some(chunk) = fork.chunks().get(&segment.chunk) else {
            return Ok(());
        };
        let mut valid = 0_u16;
        for (i, &found) in (0_u32..).zip(&crcs) {
            let block = first + i;
            match chunk.place(block) {
                Some((at, expected)) if at == place.plus(i) => {
                    if expected != found {
                        Counters::add(&self.counters().bad_checksums, 1);
                        return Err(StoreError::BadChecksum {
                            file: fork.key().file,
                            cell: fork.key().cell,
                            fork: fork.key().fork.clone(),
                            chunk: segment.chunk,
                            at: block,
                            block: at.block(),
                            disk: at.disk(),
                            expected,
                            found,
                        });
                    }
                    if chunk.valid_page(block).is_none() {
                        valid |= bit(block);
                    }
                }
                _ => {}
            }
        }
        let at = (segment.id, segment.chunk);
        let prefetched = purpose == Purpose::Prefetch;
        state.add_loaded(self.pool(), at, first, (buffer, valid), prefetched);
        Ok(())
    }
}

/// Groups blocks, which are in the order of their fork, into read operations.
fn batches(wanted: &[WantedBlock]) -> Vec<ReadBatch> {
    let mut out: Vec<ReadBatch> = Vec::new();
    for w in wanted {
        if let Some(batch) = out.last_mut()
            && batch.blocks < OPERATION_BLOCKS
            && batch.place.plus(batch.blocks) == w.place
        {
            batch.blocks += 1;
            match batch.segments.last_mut() {
                Some(p) if p.id == w.id && p.chunk == w.chunk && p.first + p.blocks == w.block => {
                    p.blocks += 1;
                }
                _ => batch.segments.push(ReadSegment {
                    id: w.id,
                    chunk: w.chunk,
                    first: w.block,
                    blocks: 1,
                }),
            }
            continue;
        }
        let segment = ReadSegment {
            id: w.id,
            chunk: w.chunk,
            first: w.block,
            blocks: 1,
        };
        out.push(ReadBatch {
            place: w.place,
            blocks: 1,
            segments: vec![segment],
        });
    }
    out
}

/// What must be loaded before a change or a read can go on.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub(crate) entries: BTreeSet<(ForkId, u64)>,
    /// Chunks of which the fork needs a private entry.
    pub(crate) shared: BTreeSet<(ForkId, u64)>,
    pub(crate) blocks: Vec<WantedBlock>,
    /// Forks that are about to grow and have deferred truncations.
    pub(crate) truncations: BTreeSet<ForkId>,
    pub(crate) attempt: Attempt,
}

impl Missing {
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            entries,
            shared,
            blocks,
            truncations,
            attempt: _,
        } = self;
        entries.is_empty() && shared.is_empty() && blocks.is_empty() && truncations.is_empty()
    }

    /// Notes an entry that is not in memory or is shared with a parent; returns whether it is so.
    pub(crate) fn private_entry(&mut self, state: &StoreState, id: ForkId, n: u64) -> bool {
        if self.entry(state, id, n) {
            return true;
        }
        let chunk = state.forks().get(id).and_then(|f| f.chunks().get(&n));
        let through = chunk.is_some_and(Chunk::shows_parent);
        if through {
            self.shared.insert((id, n));
        }
        through
    }

    /// Notes an entry that is not in memory; returns whether it is missing.
    pub(crate) fn entry(&mut self, state: &StoreState, id: ForkId, n: u64) -> bool {
        let missing = state
            .forks()
            .get(id)
            .is_some_and(|f| !f.chunks().contains_key(&n));
        if missing {
            self.entries.insert((id, n));
        }
        missing
    }
}

impl Inner {
    /// Loads what was found missing.
    pub(crate) async fn load(&self, missing: Missing) -> Result<(), StoreError> {
        for id in missing.truncations {
            self.finish_truncation(id).await?;
        }
        for (id, n) in missing.entries {
            self.load_entry(id, n)?;
        }
        for (id, n) in missing.shared {
            self.copy_up(id, n).await?;
        }
        self.load_blocks(&missing.blocks, missing.attempt).await
    }
}
