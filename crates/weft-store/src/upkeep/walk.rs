//! The walk over the index that scrub and check share, and the findings that both report.

use std::ops::{Bound, ControlFlow};

use crate::engine::Inner;
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::limits::WALK_ENTRIES;
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{CHUNKS, ChunkRecord, ForkId, Place, RunsRecord};

/// How far a pass has come; the default is its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubPosition(Vec<u8>);

impl ScrubPosition {
    /// As bytes, to be stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From stored bytes. Any bytes are a position: if no chunk has this key, the pass goes on with
    /// the next one.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// An entry of a chunk in the index; an error if it cannot be decoded.
pub(super) struct ChunkEntry {
    pub(super) id: ForkId,
    pub(super) chunk: u64,
    pub(super) runs: Result<RunsRecord, String>,
}

impl Inner {
    /// The next entries of the index, with about `bytes` of blocks, and the position after them.
    pub(super) fn entries_from(
        &self,
        from: &ScrubPosition,
        bytes: u64,
    ) -> Result<(Vec<ChunkEntry>, Option<ScrubPosition>), StoreError> {
        let start = match from.0.as_slice() {
            [] => Bound::Unbounded,
            key => Bound::Excluded(key),
        };
        let (mut entries, mut next) = (Vec::new(), None);
        let (mut found, mut failed) = (0, None);
        let reader = self.index().snapshot()?;
        reader.scan(CHUNKS, start, Bound::Unbounded, &mut |key, value| {
            match ChunkRecord::decode_key(key) {
                Ok((id, chunk)) => {
                    let runs = ChunkRecord::decode(key, value).map_err(|e| e.to_string());
                    found += runs.as_ref().map_or(0, |r| r.crcs.len() as u64) * BLOCK as u64;
                    entries.push(ChunkEntry { id, chunk, runs });
                }
                Err(error) => failed = Some(error),
            }
            if failed.is_none() && found < bytes && entries.len() < WALK_ENTRIES {
                return ControlFlow::Continue(());
            }
            next = Some(ScrubPosition(key.to_vec()));
            ControlFlow::Break(())
        })?;
        failed.map_or(Ok((entries, next)), Err)
    }

    /// The fork's key and the chunk's runs: those in memory, which are newer, or else those of the
    /// index. `None` if the fork was removed: then nothing of it can be missing.
    pub(super) fn newest_runs(
        &self,
        entry: ChunkEntry,
    ) -> Option<(ForkKey, Result<RunsRecord, String>)> {
        let state = self.lock();
        let fork = state.forks().get(entry.id)?;
        let in_memory = fork.chunks().get(&entry.chunk).map(Chunk::to_runs);
        Some((fork.key().clone(), in_memory.map_or(entry.runs, Ok)))
    }
}

/// A finding about a chunk as a whole.
pub(super) fn chunk_finding(key: &ForkKey, chunk: u64, fault: Fault) -> Finding {
    Finding {
        key: key.clone(),
        chunk,
        blocks: 0..0,
        disk: 0,
        place: 0,
        fault,
    }
}

/// A finding about one block.
pub(super) fn block_finding(
    key: &ForkKey,
    chunk: u64,
    block: u32,
    place: Place,
    fault: Fault,
) -> Finding {
    Finding {
        key: key.clone(),
        chunk,
        blocks: block..block + 1,
        disk: place.disk(),
        place: place.block(),
        fault,
    }
}
