//! Reading everything again to see whether it still is what was written.
//!
//! A pass walks the index in the order of its keys, some chunks at a time, past the cache. It
//! begins with an application of the log, so that all that was there by then is in the index; what
//! was written since has just been checked by its writing. Blocks in use are never overwritten, so
//! a block that fails its checksum is bad if the chunk's entry still says the same of it
//! afterwards, and was replaced meanwhile if not.
//!
//! The place of a pass is one key: nothing is held between two parts, and a pass goes on wherever
//! it stopped.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use weft_kv::{BadFile, EngineFile};

use crate::counters::Counters;
use crate::engine::{Inner, Room, Store};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::limits::OPERATION_BLOCKS;
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{CHUNKS, ChunkRecord, ForkId, Place, RunsRecord, checksum};

/// Most entries of one part.
const ENTRIES_MAX: usize = 256;

/// How far a pass has come; the default is its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubPosition(Vec<u8>);

impl ScrubPosition {
    /// As bytes, to be kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From bytes that were kept. Any bytes are a place: those of no chunk the one behind it.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// What a part of a pass looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Where to go on; `None` at the end of the pass.
    pub next: Option<ScrubPosition>,
    /// Chunks looked at.
    pub chunks: u64,
    /// Bytes read from the disk.
    pub bytes: u64,
    /// What was bad, in the order of the pass.
    pub findings: Vec<Finding>,
}

/// A chunk of the index, decoded or not.
pub(crate) struct Entry {
    pub(crate) id: ForkId,
    pub(crate) chunk: u64,
    pub(crate) runs: Result<RunsRecord, String>,
}

/// A block that did not pass.
struct Suspect {
    block: u32,
    place: Place,
    crc: u32,
    fault: Fault,
}

impl Store {
    /// Makes sure that a pass that begins now sees everything there is.
    ///
    /// What the index has in its journal only, and once more in what is kept of the log, goes to
    /// tables, which the pass reads, and which are copied some seconds later. Where the index has
    /// no room for that, it is in the journal, of which the pass reads nothing.
    pub async fn scrub_begin(&self) -> Result<(), StoreError> {
        self.apply_in(Room::Last).await?;
        let inner = &self.0;
        if inner.log.kept() > 0 && inner.index.check_room().is_ok() {
            let settled = inner.settle_index().await;
            if let Err(error) = settled.and_then(|()| inner.log.remove_settled()) {
                tracing::warn!(%error, "segments of the log are kept that this scrub does not read");
            }
        }
        Ok(())
    }

    /// The files of the index and the copies of them, for [`Store::verify_index`].
    ///
    /// # Errors
    /// [`StoreError::Index`] when they cannot be looked for.
    pub async fn index_files(&self) -> Result<Vec<EngineFile>, StoreError> {
        let index = Arc::clone(&self.0.index);
        Ok(self.0.run(move || index.files()).await??)
    }

    /// Verifies a file of the index: how many bytes were read, and what is wrong with it.
    ///
    /// # Errors
    /// [`StoreError::Index`] when it cannot be read for another reason than damage.
    pub async fn verify_index(
        &self,
        file: EngineFile,
    ) -> Result<(u64, Option<BadFile>), StoreError> {
        let index = Arc::clone(&self.0.index);
        Ok(self.0.run(move || index.verify(&file)).await??)
    }

    /// Verifies chunks from `from` on until about `bytes` were read, at least one chunk. What is
    /// bad is told, not an error.
    ///
    /// Cost: nothing stays in the cache; the state's lock is held for a chunk's entry at a time.
    /// # Errors
    /// [`StoreError::Index`] when the index as a whole cannot be read; the part can be repeated.
    pub async fn scrub(&self, from: &ScrubPosition, bytes: u64) -> Result<Scrubbed, StoreError> {
        let inner = &self.0;
        let (entries, next) = inner.entries_from(from, bytes)?;
        let mut done = Scrubbed {
            next,
            ..Scrubbed::default()
        };
        for entry in entries {
            inner.scrub_entry(entry, &mut done).await?;
        }
        if done.next.is_none() {
            done.findings.extend(inner.find_doubted());
        }
        Counters::add(&inner.counters.scrub_chunks, done.chunks);
        Counters::add(&inner.counters.scrub_bytes, done.bytes);
        let bad = done.findings.iter().map(|f| f.blocks.len().max(1) as u64);
        Counters::add(&inner.counters.scrub_bad_blocks, bad.sum());
        Ok(done)
    }
}

impl Inner {
    /// The next entries of the index, and where those after them begin.
    pub(crate) fn entries_from(
        &self,
        from: &ScrubPosition,
        bytes: u64,
    ) -> Result<(Vec<Entry>, Option<ScrubPosition>), StoreError> {
        let start = match from.0.as_slice() {
            [] => Bound::Unbounded,
            key => Bound::Excluded(key),
        };
        let (mut entries, mut next) = (Vec::new(), None);
        let (mut found, mut failed) = (0, None);
        let reader = self.index.snapshot()?;
        reader.scan(CHUNKS, start, Bound::Unbounded, &mut |key, value| {
            match ChunkRecord::decode_key(key) {
                Ok((id, chunk)) => {
                    let runs = ChunkRecord::decode(key, value).map_err(|e| e.to_string());
                    found += runs.as_ref().map_or(0, |r| r.crcs.len() as u64) * BLOCK as u64;
                    entries.push(Entry { id, chunk, runs });
                }
                Err(error) => failed = Some(error),
            }
            if failed.is_none() && found < bytes && entries.len() < ENTRIES_MAX {
                return ControlFlow::Continue(());
            }
            next = Some(ScrubPosition(key.to_vec()));
            ControlFlow::Break(())
        })?;
        failed.map_or(Ok((entries, next)), Err)
    }

    async fn scrub_entry(&self, entry: Entry, done: &mut Scrubbed) -> Result<(), StoreError> {
        let (id, chunk) = (entry.id, entry.chunk);
        let (key, runs) = {
            let state = self.lock();
            // A fork that was removed has nothing that anybody could miss.
            let Some(fork) = state.forks().get(id) else {
                return Ok(());
            };
            let known = fork.chunks().get(&chunk).map(Chunk::to_runs);
            (fork.key().clone(), known.map_or(entry.runs, Ok))
        };
        done.chunks += 1;
        let runs = match runs {
            Ok(runs) => runs,
            Err(reason) => {
                done.findings.push(Finding {
                    key,
                    chunk,
                    blocks: 0..0,
                    disk: 0,
                    place: 0,
                    fault: Fault::Entry { reason },
                });
                return Ok(());
            }
        };
        done.findings.extend(self.find_lost(id, chunk, &runs)?);
        let suspects = self.verify(&runs, &mut done.bytes).await;
        if suspects.is_empty() {
            return Ok(());
        }
        self.load_entry(id, chunk)?;
        let state = self.lock();
        let entry = state.forks().get(id).and_then(|f| f.chunks().get(&chunk));
        let Some(entry) = entry else { return Ok(()) };
        for s in suspects {
            if entry.place(s.block) == Some((s.place, s.crc)) {
                tell(&mut done.findings, &key, chunk, s);
            }
        }
        Ok(())
    }

    /// Reads runs and returns the blocks that do not pass.
    async fn verify(&self, runs: &RunsRecord, bytes: &mut u64) -> Vec<Suspect> {
        let mut suspects = Vec::new();
        let mut crcs = runs.crcs.iter().copied();
        for run in &runs.runs {
            // What a fork inherited is looked at where it belongs.
            let mut at = if run.inherited { run.blocks } else { 0 };
            crcs.by_ref().take(at as usize).for_each(drop);
            while at < run.blocks {
                let blocks = (run.blocks - at).min(OPERATION_BLOCKS);
                let expected: Vec<u32> = crcs.by_ref().take(blocks as usize).collect();
                let (first, place) = (run.first + at, run.place.plus(at));
                *bytes += u64::from(blocks) * BLOCK as u64;
                if let Err(error) = self
                    .verify_run(first, place, &expected, &mut suspects)
                    .await
                {
                    if blocks == 1 {
                        suspects.push(unreadable(first, place, expected[0], &error));
                    } else {
                        // One by one, to tell those that are lost from their neighbours.
                        for (i, crc) in (0_u32..).zip(&expected) {
                            let (block, place) = (first + i, place.plus(i));
                            let one = std::slice::from_ref(crc);
                            if let Err(e) = self.verify_run(block, place, one, &mut suspects).await
                            {
                                suspects.push(unreadable(block, place, *crc, &e));
                            }
                        }
                    }
                }
                at += blocks;
            }
        }
        suspects
    }

    async fn verify_run(
        &self,
        first: u32,
        place: Place,
        expected: &[u32],
        suspects: &mut Vec<Suspect>,
    ) -> std::io::Result<()> {
        let mut buffers = Vec::new();
        let mut left = expected.len();
        while left > 0 {
            let blocks = [16, 4, 1].into_iter().find(|n| *n <= left).unwrap_or(1);
            buffers.push(self.pool.take(blocks));
            left -= blocks;
        }
        let file = self.disks.file(place)?;
        let read = file.read_at(place.offset(), buffers).await?;
        let found = read
            .iter()
            .flat_map(|b| b.chunks_exact(BLOCK))
            .map(checksum);
        for ((i, crc), found) in (0_u32..).zip(expected).zip(found) {
            if *crc != found {
                suspects.push(Suspect {
                    block: first + i,
                    place: place.plus(i),
                    crc: *crc,
                    fault: Fault::Checksum,
                });
            }
        }
        Ok(())
    }
}

fn unreadable(block: u32, place: Place, crc: u32, error: &std::io::Error) -> Suspect {
    let reason = error.to_string();
    Suspect {
        block,
        place,
        crc,
        fault: Fault::Unreadable { reason },
    }
}

/// Adds a bad block, to the last finding where it continues that.
fn tell(findings: &mut Vec<Finding>, key: &ForkKey, chunk: u64, s: Suspect) {
    let finding = Finding {
        key: key.clone(),
        chunk,
        blocks: s.block..s.block + 1,
        disk: s.place.disk(),
        place: s.place.block(),
        fault: s.fault,
    };
    if !findings
        .last_mut()
        .is_some_and(|last| last.absorb(&finding))
    {
        findings.push(finding);
    }
}
