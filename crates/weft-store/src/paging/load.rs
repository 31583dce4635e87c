//! Bringing blocks from the disk into memory.

use std::collections::BTreeSet;

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::counters::Counters;
use crate::engine::Inner;
use crate::error::StoreError;
use crate::limits::OPERATION_BLOCKS;
use crate::pages::{Wanted, bit};
use crate::pool::{BLOCK, Buffer};
use crate::record::{ForkId, Place, checksum};
use crate::state::State;

/// Why blocks are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// A caller waits for them.
    Wanted,
    /// A caller waits, and they were evicted before it had them: the cache's bound does not hold.
    Again,
    /// Somebody will want them.
    Ahead,
}

/// Blocks that lie one after the other on the disk and in one slot each.
struct Batch {
    place: Place,
    blocks: u32,
    /// `(fork, chunk, first block, blocks, blocks of the buffer, first block of the buffer)`.
    parts: Vec<Part>,
}

struct Part {
    id: ForkId,
    chunk: u64,
    first: u32,
    blocks: u32,
}

impl Inner {
    /// Reads blocks, verifies them and puts them into the cache, except where the map changed
    /// meanwhile: the caller looks again.
    pub(crate) async fn load_blocks(
        &self,
        wanted: &[Wanted],
        again: bool,
    ) -> Result<(), StoreError> {
        self.load_as(wanted, if again { Why::Again } else { Why::Wanted })
            .await
    }

    /// As [`Inner::load_blocks`], of blocks that nobody has asked for yet.
    pub(crate) async fn load_ahead(&self, wanted: &[Wanted]) -> Result<(), StoreError> {
        self.load_as(wanted, Why::Ahead).await
    }

    /// Reads every one of the blocks, whoever else may be about to: for the restart, which does not
    /// look again.
    pub(crate) async fn load_alone(&self, wanted: &[Wanted]) -> Result<(), StoreError> {
        for batch in batches(wanted) {
            self.load_batch(batch, Why::Again).await?;
        }
        Ok(())
    }

    async fn load_as(&self, wanted: &[Wanted], why: Why) -> Result<(), StoreError> {
        let (free, under_way) = if self.bounds.rules.share {
            self.flights.divide(wanted)
        } else {
            (wanted.to_vec(), Vec::new())
        };
        let mut batches = batches(&free);
        if batches.len() == 1 {
            self.load_once(batches.remove(0), why).await?;
        } else {
            let loads = batches.into_iter().map(|batch| self.load_once(batch, why));
            let mut running: FuturesUnordered<_> = loads.collect();
            while let Some(done) = running.next().await {
                done?;
            }
        }
        if why != Why::Ahead {
            for other in under_way {
                other.wait().await;
            }
        }
        Ok(())
    }

    /// Reads a batch, unless somebody is about to have some of it: then that is waited for, and the
    /// caller looks again.
    fn load_once(&self, batch: Batch, why: Why) -> impl Future<Output = Result<(), StoreError>> {
        let begun = if self.bounds.rules.share {
            self.flights.begin(batch.place, batch.blocks).map(Some)
        } else {
            Ok(None)
        };
        async move {
            match begun {
                Ok(_flight) => {
                    if why == Why::Ahead {
                        Counters::add(&self.counters.prefetched, u64::from(batch.blocks));
                    }
                    self.load_batch(batch, why).await
                }
                // Nobody waits for what is read ahead.
                Err(_) if why == Why::Ahead => Ok(()),
                Err(under_way) => {
                    under_way.wait().await;
                    Ok(())
                }
            }
        }
    }

    async fn load_batch(&self, batch: Batch, why: Why) -> Result<(), StoreError> {
        if batch.place.is_lost() {
            return self.lost(&batch);
        }
        let bytes = u64::from(batch.blocks) * BLOCK as u64;
        if why != Why::Again {
            self.lock().evict(self.bounds.cache.saturating_sub(bytes));
        }
        let mut buffers = Vec::new();
        for part in &batch.parts {
            buffers.extend(self.buffers_for(part));
        }
        Counters::add(&self.counters.disk_reads, 1);
        Counters::add(&self.counters.disk_read_bytes, bytes);
        let read = match self.disks.file(batch.place) {
            Ok(file) => file.read_at(batch.place.offset(), buffers).await,
            Err(error) => Err(error),
        };
        let mut buffers = match read {
            Ok(buffers) => buffers.into_iter(),
            Err(_) if batch.blocks > 1 => return self.load_singly(batch).await,
            Err(error) => return Err(self.unreadable(&batch, &error)),
        };
        let mut place = batch.place;
        for part in batch.parts {
            let mut first = part.first;
            while first < part.first + part.blocks {
                let buffer = buffers
                    .next()
                    .expect("the storage returns the buffers it was given");
                let blocks = buffer.blocks() as u32;
                self.install(&part, first, place, buffer, why)?;
                first += blocks;
                place = place.plus(blocks);
            }
        }
        Ok(())
    }

    /// Reads a batch that failed block by block: to have what can be had, and to name what cannot.
    async fn load_singly(&self, batch: Batch) -> Result<(), StoreError> {
        let (mut place, mut result) = (batch.place, Ok(()));
        for part in batch.parts {
            for first in part.first..part.first + part.blocks {
                let part = Part {
                    first,
                    blocks: 1,
                    ..part
                };
                let one = Batch {
                    place,
                    blocks: 1,
                    parts: vec![part],
                };
                let done = Box::pin(self.load_batch(one, Why::Again)).await;
                place = place.plus(1);
                match done {
                    // A disk that is gone is not asked for the rest.
                    Err(error) if self.disks.file(batch.place).is_err() => return Err(error),
                    done => result = result.and(done),
                }
            }
        }
        result
    }

    /// Says what is lost; nothing where it was written anew meanwhile: the caller looks again.
    fn lost(&self, batch: &Batch) -> Result<(), StoreError> {
        let part = &batch.parts[0];
        let state = self.lock();
        state
            .lost(part.id, part.chunk, part.first)
            .map_or(Ok(()), Err)
    }

    /// Takes note that a disk did not give a block.
    fn unreadable(&self, batch: &Batch, error: &std::io::Error) -> StoreError {
        let (place, part) = (batch.place, &batch.parts[0]);
        let (shown, reason) = (self.disks.shown(place), error.to_string());
        let mut state = self.lock();
        self.disks
            .fail(state.space_mut(), place.disk(), &format!("read: {reason}"));
        let Some(fork) = state.forks().get(part.id) else {
            return StoreError::io("read", &shown, error);
        };
        StoreError::DiskFailed {
            file: fork.key().file,
            cell: fork.key().cell,
            fork: fork.key().fork.clone(),
            chunk: part.chunk,
            at: part.first,
            block: place.block(),
            disk: place.disk(),
            shown,
            reason,
        }
    }

    /// Buffers that hold exactly the part: reads must not touch neighbours in a page.
    fn buffers_for(&self, part: &Part) -> Vec<Buffer> {
        let (mut first, end) = (part.first, part.first + part.blocks);
        let mut out = Vec::new();
        while first < end {
            let blocks = [16, 4, 1]
                .into_iter()
                .find(|n| first.is_multiple_of(*n) && first + n <= end);
            let blocks = blocks.expect("one block always fits");
            out.push(self.pool.take(blocks as usize));
            first += blocks;
        }
        out
    }

    /// Checks blocks just read and puts them into the cache.
    fn install(
        &self,
        part: &Part,
        first: u32,
        place: Place,
        buffer: Buffer,
        why: Why,
    ) -> Result<(), StoreError> {
        let crcs: Vec<u32> = buffer.chunks_exact(BLOCK).map(checksum).collect();
        let mut state = self.lock();
        let Some(fork) = state.forks().get(part.id) else {
            return Ok(());
        };
        let Some(chunk) = fork.chunks().get(&part.chunk) else {
            return Ok(());
        };
        let mut valid = 0_u16;
        for (i, &found) in (0_u32..).zip(&crcs) {
            let block = first + i;
            match chunk.place(block) {
                Some((at, expected)) if at == place.plus(i) => {
                    if expected != found {
                        Counters::add(&self.counters.bad_checksums, 1);
                        return Err(StoreError::BadChecksum {
                            file: fork.key().file,
                            cell: fork.key().cell,
                            fork: fork.key().fork.clone(),
                            chunk: part.chunk,
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
        let at = (part.id, part.chunk);
        state.add_loaded(&self.pool, at, first, (buffer, valid), why == Why::Ahead);
        Ok(())
    }
}

/// Groups blocks, which come in the order of their fork, into operations.
fn batches(wanted: &[Wanted]) -> Vec<Batch> {
    let mut out: Vec<Batch> = Vec::new();
    for w in wanted {
        if let Some(batch) = out.last_mut()
            && batch.blocks < OPERATION_BLOCKS
            && batch.place.plus(batch.blocks) == w.place
        {
            batch.blocks += 1;
            match batch.parts.last_mut() {
                Some(p) if p.id == w.id && p.chunk == w.chunk && p.first + p.blocks == w.block => {
                    p.blocks += 1;
                }
                _ => batch.parts.push(Part {
                    id: w.id,
                    chunk: w.chunk,
                    first: w.block,
                    blocks: 1,
                }),
            }
            continue;
        }
        let part = Part {
            id: w.id,
            chunk: w.chunk,
            first: w.block,
            blocks: 1,
        };
        out.push(Batch {
            place: w.place,
            blocks: 1,
            parts: vec![part],
        });
    }
    out
}

/// What must be loaded before a change or a read can go on.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub(crate) entries: BTreeSet<(ForkId, u64)>,
    /// Chunks that are to be the fork's own.
    pub(crate) own: BTreeSet<(ForkId, u64)>,
    pub(crate) blocks: Vec<Wanted>,
    /// Forks that are about to grow and have tails.
    pub(crate) tails: BTreeSet<ForkId>,
    /// Not the first attempt: what was loaded was evicted, so load beyond the cache's bound.
    pub(crate) again: bool,
}

impl Missing {
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            entries,
            own,
            blocks,
            tails,
            again: _,
        } = self;
        entries.is_empty() && own.is_empty() && blocks.is_empty() && tails.is_empty()
    }

    /// Notes an entry that is not in memory, or not the fork's own; whether that is so.
    pub(crate) fn own_entry(&mut self, state: &State, id: ForkId, n: u64) -> bool {
        if self.entry(state, id, n) {
            return true;
        }
        let chunk = state.forks().get(id).and_then(|f| f.chunks().get(&n));
        let through = chunk.is_some_and(|c| c.through);
        if through {
            self.own.insert((id, n));
        }
        through
    }

    /// Notes an entry that is not in memory; whether it is missing.
    pub(crate) fn entry(&mut self, state: &State, id: ForkId, n: u64) -> bool {
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
        for id in missing.tails {
            self.settle(id).await?;
        }
        for (id, n) in missing.entries {
            self.load_entry(id, n)?;
        }
        for (id, n) in missing.own {
            self.make_own(id, n).await?;
        }
        self.load_blocks(&missing.blocks, missing.again).await
    }
}
