//! Replay of items that remove bytes: truncations, deferred truncations, cleared ranges.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow, Range};

use bytes::Bytes;
use weft_kv::OrderedKv;
use weft_layout::OFFSET_MAX;

use super::{LogPiece, Replay};
use crate::error::StoreError;
use crate::forks::{Fork, edge, edges, numbers, whole_blocks, within};
use crate::key::ForkKey;
use crate::log::MAP_COST;
use crate::pool::BLOCK;
use crate::record::{CHUNKS, ChunkRecord, ForkId};

static ZEROS: [u8; BLOCK] = [0; BLOCK];

impl Replay<'_> {
    pub(super) fn truncate(
        &mut self,
        sequence: u64,
        modified: i64,
        id: ForkId,
        length: u64,
    ) -> Result<(), StoreError> {
        let Some(fork) = self.state.forks().get(id) else {
            return Ok(());
        };
        let size = fork.chunk();
        // The index may be newer than this item: it may have the new length already, but not yet
        // the zeros after it. So the fork is truncated whatever its length is; later items say
        // again what lies beyond.
        self.state.forget_length(id, OFFSET_MAX);
        if size != 0 {
            let first = length / u64::from(size);
            for n in stored_chunks(self.index, id, first..u64::MAX)? {
                self.load_private(id, n)?;
            }
            self.drop_beyond(id, size, length);
        }
        self.cost += MAP_COST * self.state.truncate(id, length, modified, 0);
        self.zero_edge(sequence, id, size, length);
        Ok(())
    }

    /// As [`Replay::truncate`], but empties only the chunk that the length divides; later chunks
    /// are emptied by later items, or once the store is open.
    pub(super) fn truncate_deferred(
        &mut self,
        sequence: u64,
        modified: i64,
        id: ForkId,
        length: u64,
    ) -> Result<(), StoreError> {
        let Some(size) = self.state.forks().get(id).map(Fork::chunk) else {
            return Ok(());
        };
        if size == 0 {
            return Err(StoreError::Corrupt {
                what: "a cut item of the log",
                at: format!("sequence {sequence}: the fork has no chunk size"),
            });
        }
        if !length.is_multiple_of(u64::from(size)) {
            self.load_private(id, length / u64::from(size))?;
        }
        self.drop_beyond(id, size, length);
        self.state.truncate_deferred(id, length, modified, 0);
        self.zero_edge(sequence, id, size, length);
        Ok(())
    }

    /// Puts bytes of a fork in doubt and extends it to at least this length; finishes its deferred
    /// truncation first.
    pub(super) fn doubt(
        &mut self,
        (id, chunk, key): (ForkId, u32, &ForkKey),
        modified: i64,
        end: u64,
        length: u64,
    ) -> Result<(), StoreError> {
        if self.state.check_alive(key.file).is_err() {
            return Ok(());
        }
        self.state.used_id(id);
        if !self.state.forks().contains(id) {
            self.state.set_fork(id, chunk, key, modified);
        }
        let fork = &self.state.forks()[id];
        let (old, modified) = (fork.length(), fork.modified());
        if length > old {
            let first = fork.end_chunk();
            self.empty(id, first..u64::MAX)?;
            self.state.end_deferred_truncation(id);
            self.state.touch(id, length, modified);
        }
        self.state.doubt_below(id, end);
        Ok(())
    }

    /// Empties chunks of a fork.
    pub(super) fn empty(&mut self, id: ForkId, chunks: Range<u64>) -> Result<(), StoreError> {
        if !self.state.forks().contains(id) {
            return Ok(());
        }
        for n in stored_chunks(self.index, id, chunks.clone())? {
            self.load_stored(id, n)?;
        }
        self.cost += MAP_COST * self.state.empty_chunks(id, chunks.clone(), 0);
        let pieces = self.overlay.range((id, chunks.start)..(id, chunks.end));
        let pieces: Vec<u64> = pieces.map(|((_, n), _)| *n).collect();
        for n in pieces {
            self.overlay.remove(&(id, n));
        }
        Ok(())
    }

    /// Drops pieces of blocks that lie wholly beyond a length.
    fn drop_beyond(&mut self, id: ForkId, size: u32, length: u64) {
        let (first, inside) = (length / u64::from(size), (length % u64::from(size)) as u32);
        let mut beyond = self.overlay.split_off(&(id, first));
        let mut others = beyond.split_off(&(ForkId(id.0 + 1), 0));
        self.overlay.append(&mut others);
        if let Some(mut blocks) = beyond.remove(&(id, first)) {
            blocks.retain(|block, _| *block < inside.div_ceil(BLOCK as u32));
            if !blocks.is_empty() {
                self.overlay.insert((id, first), blocks);
            }
        }
    }

    fn zero_edge(&mut self, sequence: u64, id: ForkId, size: u32, length: u64) {
        if let Some((n, block)) = edge(size, OFFSET_MAX, length) {
            let at = (length % u64::from(size)) as u32;
            let end = size.min((block + 1) * BLOCK as u32);
            self.zero(sequence, id, n, at..end);
        }
    }

    /// Clears a range, whatever the index has there: later items say it again.
    pub(super) fn clear(
        &mut self,
        sequence: u64,
        modified: i64,
        id: ForkId,
        range: Range<u64>,
    ) -> Result<(), StoreError> {
        let Some(size) = self.state.forks().get(id).map(Fork::chunk) else {
            return Ok(());
        };
        if size == 0 {
            return Err(StoreError::Corrupt {
                what: "a clear item of the log",
                at: format!("sequence {sequence}: the fork has no chunk size"),
            });
        }
        let all = numbers(size, &range);
        for n in stored_chunks(self.index, id, all.clone())? {
            self.load_private(id, n)?;
        }
        let placed = self.state.forks()[id].chunks().range(all.clone());
        let pieces = self.overlay.range((id, all.start)..(id, all.end));
        let known = placed.map(|(n, _)| *n).chain(pieces.map(|((_, n), _)| *n));
        let known: BTreeSet<u64> = known.collect();
        for n in known {
            let touched = within(size, &range, n);
            let whole = whole_blocks(&touched, size);
            if let Some(blocks) = self.overlay.get_mut(&(id, n)) {
                blocks.retain(|block, _| !whole.contains(block));
                if blocks.is_empty() {
                    self.overlay.remove(&(id, n));
                }
            }
            self.state.empty(id, n, whole, 0);
            self.cost += MAP_COST;
            for edge in edges(&touched, size) {
                self.zero(sequence, id, n, edge);
            }
        }
        let length = self.state.forks()[id].length();
        self.state.touch(id, length, modified);
        Ok(())
    }

    /// Zeroes bytes of one block, if it holds any.
    fn zero(&mut self, sequence: u64, id: ForkId, n: u64, bytes: Range<u32>) {
        let block = bytes.start / BLOCK as u32;
        let placed = self.state.forks()[id]
            .chunks()
            .get(&n)
            .and_then(|c| c.place(block));
        let pieces = self
            .overlay
            .get(&(id, n))
            .is_some_and(|b| b.contains_key(&block));
        // A lost block has no bytes to zero, unless it was written again meanwhile.
        let has_bytes = placed.is_some_and(|(place, _)| !place.is_lost());
        if has_bytes || pieces {
            let (at, data) = (bytes.start, Bytes::from_static(&ZEROS[..bytes.len()]));
            let blocks = self.overlay.entry((id, n)).or_default();
            blocks
                .entry(block)
                .or_default()
                .push(LogPiece { sequence, at, data });
        }
    }
}

/// Which of a fork's chunks in a range are in the index.
fn stored_chunks(
    index: &dyn OrderedKv,
    id: ForkId,
    wanted: Range<u64>,
) -> Result<Vec<u64>, StoreError> {
    let (low, high) = (
        ChunkRecord::key(id, wanted.start),
        ChunkRecord::key(id, wanted.end),
    );
    let mut found = Vec::new();
    let mut failed = None;
    index.snapshot()?.scan(
        CHUNKS,
        Bound::Included(&low),
        Bound::Excluded(&high),
        &mut |key, _| {
            match ChunkRecord::decode_key(key) {
                Ok((_, n)) => found.push(n),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    failed.map_or(Ok(found), Err)
}
