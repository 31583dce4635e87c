//! Scrub: reading all stored blocks again and comparing them with their checksums.
//!
//! A pass walks the index in the order of its keys, some chunks at a time, past the cache. It
//! begins with an application of the log, so that the index has everything that was written before;
//! what is written later was just computed and needs no check. Blocks in use are never overwritten:
//! a block that fails its checksum is bad if the chunk's entry still refers to it afterwards, and
//! was replaced meanwhile if not. The contents of an addressed chunk are compared with its name as
//! well.
//!
//! A pass's position is one key: it holds nothing between two steps and goes on wherever it
//! stopped.

use std::sync::Arc;

use weft_kv::{DamagedFile, EngineFile};

use crate::counters::Counters;
use crate::engine::{IndexBudget, Inner, Store};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::forks::Fork;
use crate::key::{ADDRESSED, ChunkName, ForkKey, name_of_chunk};
use crate::limits::OPERATION_BLOCKS;
use crate::pool::BLOCK;
use crate::record::{ForkId, Place, RunsRecord, checksum};
use crate::upkeep::walk::{ChunkEntry, ScrubPosition, block_finding, chunk_finding};

/// What a step of a pass checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Where the next step begins; `None` at the end of the pass.
    pub next: Option<ScrubPosition>,
    /// Chunks checked.
    pub chunks: u64,
    /// Bytes read from the disk.
    pub bytes: u64,
    /// What was bad, in the order of the pass.
    pub findings: Vec<Finding>,
}

/// A block that failed its check.
struct Suspect {
    block: u32,
    place: Place,
    crc: u32,
    fault: Fault,
}

impl Store {
    /// Begins a pass: makes sure that it covers everything written before.
    ///
    /// What the index has only in its journal, with retained log segments as the second copy, goes
    /// to tables, which the pass reads and which are copied some seconds later. If the index has no
    /// space for that, it stays in the journal, which the pass does not read.
    pub async fn scrub_begin(&self) -> Result<(), StoreError> {
        self.apply_with(IndexBudget::Reserve).await?;
        let inner = &self.0;
        if inner.log().retained() > 0 && inner.index().check_space().is_ok() {
            let flushed = inner.flush_index().await;
            if let Err(error) = flushed.and_then(|()| inner.log().remove_settled()) {
                tracing::warn!(%error, "this scrub does not read some retained segments of the log");
            }
        }
        Ok(())
    }

    /// The files of the index and their copies, for [`Store::verify_index`].
    ///
    /// # Errors
    /// [`StoreError::Index`] if they cannot be listed.
    pub async fn index_files(&self) -> Result<Vec<EngineFile>, StoreError> {
        let index = Arc::clone(self.0.index());
        Ok(self.0.run(move || index.files()).await??)
    }

    /// Verifies a file of the index; returns how many bytes were read, and what is damaged.
    ///
    /// # Errors
    /// [`StoreError::Index`] if it cannot be read for another reason than damage.
    pub async fn verify_index(
        &self,
        file: EngineFile,
    ) -> Result<(u64, Option<DamagedFile>), StoreError> {
        let index = Arc::clone(self.0.index());
        Ok(self.0.run(move || index.verify(&file)).await??)
    }

    /// Verifies chunks from `from` on until about `bytes` were read, at least one chunk. A bad
    /// block is a finding, not an error.
    ///
    /// Cost: nothing stays in the cache; the state's lock is held for one chunk's entry at a time.
    /// # Errors
    /// [`StoreError::Index`] if the index as a whole cannot be read; the step can be repeated.
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
        note_damaged_chunks(inner, &done.findings);
        if done.next.is_none() {
            done.findings.extend(inner.find_doubted());
        }
        Counters::add(&inner.counters().scrub_chunks, done.chunks);
        Counters::add(&inner.counters().scrub_bytes, done.bytes);
        let bad = done.findings.iter().map(|f| f.blocks.len().max(1) as u64);
        Counters::add(&inner.counters().scrub_bad_blocks, bad.sum());
        Ok(done)
    }
}

/// Has later puts of addressed chunks that were found damaged write them anew.
fn note_damaged_chunks(inner: &Inner, findings: &[Finding]) {
    let chunks = findings.iter().filter(|f| f.key.file == ADDRESSED);
    for name in chunks.filter_map(|f| name_of_chunk(&f.key.fork)) {
        inner.chunk_holds().note_damaged(name);
    }
}

impl Inner {
    async fn scrub_entry(&self, entry: ChunkEntry, done: &mut Scrubbed) -> Result<(), StoreError> {
        let (id, chunk) = (entry.id, entry.chunk);
        let Some((key, runs)) = self.newest_runs(entry) else {
            return Ok(());
        };
        done.chunks += 1;
        let runs = match runs {
            Ok(runs) => runs,
            Err(reason) => {
                let fault = Fault::Entry { reason };
                done.findings.push(chunk_finding(&key, chunk, fault));
                return Ok(());
            }
        };
        let lost = self.find_lost(id, chunk, &runs)?;
        // What is lost is missing in the contents.
        let name = (key.file == ADDRESSED && lost.is_empty())
            .then(|| name_of_chunk(&key.fork))
            .flatten();
        done.findings.extend(lost);
        let mut contents = name.map(|_| Vec::new());
        let suspects = self.verify(&runs, &mut done.bytes, contents.as_mut()).await;
        if suspects.is_empty() {
            if let (Some(name), Some(contents)) = (name, contents)
                && let Some(finding) = self.compare(id, &key, chunk, (name, contents)).await?
            {
                done.findings.push(finding);
            }
            return Ok(());
        }
        self.load_entry(id, chunk)?;
        let state = self.lock();
        let entry = state.forks().get(id).and_then(|f| f.chunks().get(&chunk));
        let Some(entry) = entry else { return Ok(()) };
        for s in suspects {
            if entry.place(s.block) == Some((s.place, s.crc)) {
                let finding = block_finding(&key, chunk, s.block, s.place, s.fault);
                add_finding(&mut done.findings, finding);
            }
        }
        Ok(())
    }

    /// Compares the blocks of an addressed chunk with its name.
    async fn compare(
        &self,
        id: ForkId,
        key: &ForkKey,
        chunk: u64,
        (name, mut contents): (ChunkName, Vec<u8>),
    ) -> Result<Option<Finding>, StoreError> {
        let length = self.lock().forks().get(id).map(Fork::length);
        let Some(length) = length else {
            return Ok(None);
        };
        contents.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        let found = self.run(move || ChunkName::of(&contents)).await?;
        let is_there = self.lock().forks().get(id).is_some();
        Ok((found != name && is_there).then(|| chunk_finding(key, chunk, Fault::Name)))
    }

    /// Reads runs and returns the blocks that fail; adds what was read to `contents`, zeros where
    /// nothing is.
    async fn verify(
        &self,
        runs: &RunsRecord,
        bytes: &mut u64,
        mut contents: Option<&mut Vec<u8>>,
    ) -> Vec<Suspect> {
        let mut suspects = Vec::new();
        let mut crcs = runs.crcs.iter().copied();
        for run in &runs.runs {
            // Inherited blocks are checked in the fork that owns them.
            let mut at = if run.inherited { run.blocks } else { 0 };
            crcs.by_ref().take(at as usize).for_each(drop);
            while at < run.blocks {
                let blocks = (run.blocks - at).min(OPERATION_BLOCKS);
                let expected: Vec<u32> = crcs.by_ref().take(blocks as usize).collect();
                let (first, place) = (run.first + at, run.place.plus(at));
                *bytes += u64::from(blocks) * BLOCK as u64;
                if let Err(error) = self
                    .verify_run(
                        (first, place),
                        &expected,
                        &mut suspects,
                        contents.as_deref_mut(),
                    )
                    .await
                {
                    if blocks == 1 {
                        suspects.push(unreadable(first, place, expected[0], &error));
                    } else {
                        // One by one, to separate the unreadable blocks from their neighbours.
                        for (i, crc) in (0_u32..).zip(&expected) {
                            let (block, place) = (first + i, place.plus(i));
                            let one = std::slice::from_ref(crc);
                            let verified = self.verify_run(
                                (block, place),
                                one,
                                &mut suspects,
                                contents.as_deref_mut(),
                            );
                            if let Err(e) = verified.await {
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
        (first, place): (u32, Place),
        expected: &[u32],
        suspects: &mut Vec<Suspect>,
        contents: Option<&mut Vec<u8>>,
    ) -> std::io::Result<()> {
        let mut buffers = Vec::new();
        let mut left = expected.len();
        while left > 0 {
            let blocks = [16, 4, 1].into_iter().find(|n| *n <= left).unwrap_or(1);
            buffers.push(self.pool().take(blocks));
            left -= blocks;
        }
        let file = self.disks().file(place)?;
        let read = file.read_at(place.offset(), buffers).await?;
        if let Some(contents) = contents {
            contents.resize(first as usize * BLOCK, 0);
            for buffer in &read {
                contents.extend_from_slice(buffer);
            }
        }
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

/// Adds a finding about a block, to the last finding if it continues that one.
fn add_finding(findings: &mut Vec<Finding>, finding: Finding) {
    if !findings
        .last_mut()
        .is_some_and(|last| last.absorb(&finding))
    {
        findings.push(finding);
    }
}
