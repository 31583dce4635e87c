//! Replay of the log: applying its frames to the state that the index holds.

mod truncations;

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use weft_kv::OrderedKv;
use weft_layout::FileId;

use crate::error::StoreError;
use crate::forks::by_chunk;
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{CHUNKS, ChunkRecord, ForkId, ItemRecord, Place, RunsRecord};
use crate::state::StoreState;

/// Bytes of a block that only the log has.
pub(crate) struct LogPiece {
    pub(crate) sequence: u64,
    /// The offset in the chunk.
    pub(crate) at: u32,
    pub(crate) data: Bytes,
}

/// Pieces by chunk and block, in the log's order.
pub(crate) type Overlay = BTreeMap<(ForkId, u64), BTreeMap<u32, Vec<LogPiece>>>;

/// Replays frames onto the state that the index holds.
pub(crate) struct Replay<'a> {
    pub(crate) state: &'a mut StoreState,
    pub(crate) index: &'a dyn OrderedKv,
    pub(crate) overlay: Overlay,
    /// By fork: whether the index has no chunk of it.
    pub(crate) without_chunks: HashMap<ForkId, bool>,
    /// The cost of chunks that items empty without naming them, in units of
    /// [`Head::logged`](crate::log::Head::logged).
    pub(crate) cost: u64,
}

impl Replay<'_> {
    /// Applies one item.
    pub(crate) fn item(
        &mut self,
        sequence: u64,
        modified: i64,
        item: &ItemRecord,
    ) -> Result<(), StoreError> {
        match item {
            ItemRecord::Fork { id, chunk, key } => {
                self.state.used_id(*id);
                if self.state.check_alive(key.file).is_ok() {
                    self.state.set_fork(*id, *chunk, key, modified);
                }
            }
            ItemRecord::Data { id, offset, data } => {
                self.data(sequence, modified, *id, *offset, data)?;
            }
            ItemRecord::Pieces { id, runs, data } => {
                for run in runs {
                    for n in 0..run.count {
                        let piece = run.after(n);
                        let bytes = data.slice(piece.at..piece.at + run.length as usize);
                        self.data(sequence, modified, *id, piece.offset.0, &bytes)?;
                    }
                }
            }
            ItemRecord::Map {
                id,
                chunk,
                as_of,
                end,
                runs,
            } => {
                if self.state.forks().contains(*id) {
                    self.map(*id, *chunk, *as_of, runs)?;
                    self.extend(*id, *end, modified);
                    if *end > 0 {
                        self.prove(*id, *chunk, runs);
                    }
                }
            }
            ItemRecord::Truncate { id, length } => {
                self.truncate(sequence, modified, *id, *length)?;
            }
            ItemRecord::Cut { id, length } => {
                self.truncate_deferred(sequence, modified, *id, *length)?;
            }
            ItemRecord::Empty { id, from, to } => self.empty(*id, *from..*to)?,
            ItemRecord::Operation { file, op } => {
                if !self.state.has_done(*file, *op) {
                    self.state.record_op(*file, *op);
                }
            }
            ItemRecord::Remove { id } => {
                self.overlay.retain(|(fork, _), _| fork != id);
                self.state.remove(*id, sequence);
            }
            ItemRecord::Delete { file } => self.delete(sequence, *file),
            ItemRecord::Synced { .. } | ItemRecord::Touched(_) => {}
            ItemRecord::Doubt {
                id,
                chunk,
                key,
                end,
                length,
            } => self.doubt((*id, *chunk, key), modified, *end, *length)?,
            ItemRecord::DoubtAll { below } => self.state.doubt_all(*below),
            ItemRecord::Trust { file: Some(file) } => self.state.trust(*file),
            ItemRecord::Trust { file: None } => self.state.trust_all(),
            ItemRecord::Checkpoint { file, number } => {
                self.state.add_checkpoint(*file, *number, modified);
            }
            ItemRecord::Keep { id, number } => self.state.keep(*id, *number),
            ItemRecord::Derive {
                id,
                parent,
                chunk,
                length,
                modified,
                key,
            } => {
                self.state.used_id(*id);
                if self.state.check_alive(key.file).is_ok() {
                    self.state
                        .derive(*id, *parent, *chunk, key, *length, *modified);
                    // Also if it is of a checkpoint: then a fork too many counts as touched.
                    self.state.touches().touch(*id);
                }
            }
            ItemRecord::Forget { file, number } => self.state.forget_checkpoint(*file, *number),
            ItemRecord::Adopt { from, to, chunk } => {
                self.load_stored(*from, *chunk)?;
                self.load_stored(*to, *chunk)?;
                self.state.adopt(*from, *to, *chunk, 0);
            }
            ItemRecord::Own { id, chunk } => self.load_private(*id, *chunk)?,
            ItemRecord::Merged { from, to } => {
                self.overlay.retain(|(fork, _), _| fork != from);
                self.state.merge(*from, *to);
            }
            ItemRecord::Clear { id, offset, length } => {
                self.clear(sequence, modified, *id, *offset..*offset + *length)?;
            }
        }
        Ok(())
    }

    fn delete(&mut self, sequence: u64, file: FileId) {
        let known = self.state.forks().file(file);
        let gone: Vec<ForkId> = known.map_or_else(Vec::new, |f| {
            f.forks()
                .values()
                .chain(f.checkpoint_forks())
                .copied()
                .collect()
        });
        self.overlay.retain(|(fork, _), _| !gone.contains(fork));
        self.state.delete(file, sequence);
    }

    /// What only the log has. The entries of its chunks are in memory then.
    pub(crate) fn finish(mut self) -> Result<Overlay, StoreError> {
        let overlay = std::mem::take(&mut self.overlay);
        for &(id, n) in overlay.keys() {
            self.load_private(id, n)?;
        }
        Ok(overlay)
    }

    fn extend(&mut self, id: ForkId, end: u64, modified: i64) {
        // The map of a flush has neither an end nor a time.
        if end > 0 {
            let length = self.state.forks()[id].length().max(end);
            self.state.touch(id, length, modified);
        }
    }

    fn data(
        &mut self,
        sequence: u64,
        modified: i64,
        id: ForkId,
        offset: u64,
        data: &Bytes,
    ) -> Result<(), StoreError> {
        let Some(fork) = self.state.forks().get(id) else {
            return Ok(());
        };
        if fork.chunk() == 0 {
            return Err(StoreError::Corrupt {
                what: "a data item of the log",
                at: format!("sequence {sequence}: the fork has no chunk size"),
            });
        }
        let size = fork.chunk();
        for range in by_chunk(size, offset, data.len() as u64) {
            let blocks = self.overlay.entry((id, range.chunk)).or_default();
            let mut at = range.bytes.start;
            while at < range.bytes.end {
                let block = at / BLOCK as u32;
                let stop = range.bytes.end.min((block + 1) * BLOCK as u32);
                let from = (range.chunk * u64::from(size) + u64::from(at) - offset) as usize;
                let data = data.slice(from..from + (stop - at) as usize);
                blocks
                    .entry(block)
                    .or_default()
                    .push(LogPiece { sequence, at, data });
                at = stop;
            }
        }
        let end = offset + data.len() as u64;
        self.extend(id, end, modified);
        self.state.doubts_mut().prove(id, &(offset..end));
        Ok(())
    }

    /// Takes the blocks of a direct write out of doubt.
    fn prove(&mut self, id: ForkId, n: u64, runs: &RunsRecord) {
        let size = u64::from(self.state.forks()[id].chunk());
        let at = |block: u32| n * size + (u64::from(block) * BLOCK as u64).min(size);
        for run in &runs.runs {
            let bytes = at(run.first)..at(run.first + run.blocks);
            self.state.doubts_mut().prove(id, &bytes);
        }
    }

    fn map(&mut self, id: ForkId, n: u64, as_of: u64, runs: &RunsRecord) -> Result<(), StoreError> {
        self.load_private(id, n)?;
        let blocks = self.state.forks()[id].chunk().div_ceil(BLOCK as u32);
        if runs
            .runs
            .last()
            .is_some_and(|r| r.first + r.blocks > blocks)
        {
            return Err(StoreError::Corrupt {
                what: "a map item of the log",
                at: format!("fork {}, chunk {n}", id.0),
            });
        }
        let mut overlay = self.overlay.get_mut(&(id, n));
        for (block, place, crc) in each(runs) {
            if place.is_lost() {
                self.state.lose_block(id, n, block, Some(0));
            } else if place.is_coded() {
                self.state.code_block(id, n, block, crc, 0);
            } else {
                self.state.place_block(id, n, block, place, crc, 0);
            }
            if let Some(blocks) = overlay.as_deref_mut()
                && let Some(pieces) = blocks.get_mut(&block)
            {
                pieces.retain(|p| p.sequence > as_of);
                if pieces.is_empty() {
                    blocks.remove(&block);
                }
            }
        }
        self.state.mark_changed(id, n);
        Ok(())
    }

    /// Loads a chunk's entry as a private one of the fork: copied from the parent if the fork
    /// shares it. The log has all of the parent's changes before.
    fn load_private(&mut self, id: ForkId, n: u64) -> Result<(), StoreError> {
        self.load_stored(id, n)?;
        let mut at = id;
        while let Some(fork) = self.state.forks().get(at)
            && fork.chunks().get(&n).is_some_and(Chunk::shows_parent)
            && let Some(parent) = fork.parent()
        {
            at = parent;
            self.load_stored(at, n)?;
        }
        if at == id {
            return Ok(());
        }
        self.state.copy_entry(id, at, n);
        // A missing parent was merged: then the index has the private entry of this fork, if there
        // is one.
        self.state.hide_parent(id, n);
        // The index has only the parent's entry, and later items assume that the fork has a private
        // one.
        self.state.mark_changed(id, n);
        Ok(())
    }

    /// Loads a chunk's entry as it is in the index.
    fn load_stored(&mut self, id: ForkId, n: u64) -> Result<(), StoreError> {
        let Some(fork) = self.state.forks().get(id) else {
            return Ok(());
        };
        if fork.chunks().contains_key(&n) {
            return Ok(());
        }
        // Looked up once for each fork: most items are of forks that the index does not have.
        let absent = match self.without_chunks.get(&id) {
            Some(absent) => *absent,
            None => !has_chunks(self.index, id)?,
        };
        self.without_chunks.insert(id, absent);
        if absent {
            let chunk = Chunk::absent(fork.inherits(n));
            self.state.load_chunk(id, n, chunk);
            return Ok(());
        }
        let key = ChunkRecord::key(id, n);
        let chunk = match self.index.snapshot()?.get(CHUNKS, &key)? {
            Some(value) => Chunk::from_runs(&ChunkRecord::decode(&key, &value)?),
            None => Chunk::absent(fork.inherits(n)),
        };
        self.state.load_chunk(id, n, chunk);
        Ok(())
    }
}

/// Blocks of runs with their places and checksums.
pub(crate) fn each(runs: &RunsRecord) -> impl Iterator<Item = (u32, Place, u32)> + '_ {
    let blocks = runs
        .runs
        .iter()
        .flat_map(|r| (0..r.blocks).map(|i| (r.first + i, r.place.plus(i))));
    blocks
        .zip(&runs.crcs)
        .map(|((block, place), crc)| (block, place, *crc))
}

/// Whether the index has any chunk of a fork.
fn has_chunks(index: &dyn OrderedKv, id: ForkId) -> Result<bool, StoreError> {
    let (low, high) = (ChunkRecord::key(id, 0), ChunkRecord::key(id, u64::MAX));
    let mut any = false;
    index.snapshot()?.scan(
        CHUNKS,
        Bound::Included(&low),
        Bound::Included(&high),
        &mut |_, _| {
            any = true;
            ControlFlow::Break(())
        },
    )?;
    Ok(any)
}
