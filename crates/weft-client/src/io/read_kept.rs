//! Reads of addressed files through kept names and chunks (CAPFS §3.4.2).
//!
//! The names say which bytes the read is of; chunks that are not kept are read as bytes of the
//! file, and belong to the read only if they have its names.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::task::coop::consume_budget;
use weft_layout::{
    CellIndex, Map, Pattern, Request, ServerSlot, Splitter, StridedPieces, View, ViewOffset,
};
use weft_sum::{ChunkName, without_zeros};

use super::read::{Lengths, Moved};
use super::read_names::SlotChunks;
use super::span::{Sink, Target};
use crate::cache::Names;
use crate::limits::KEPT_READ_TRIES;
use crate::policy::Kept;
use crate::{Error, OpenView};

/// Zeros for holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Chunks of a read by their names.
type Chunks = HashMap<ChunkName, Bytes>;

impl OpenView {
    /// Reads by names as the file's policy keeps them; `None`: the read has to do without.
    pub(super) async fn read_kept(
        &self,
        request: &Request,
        slots: &[ServerSlot],
        kept: Kept,
        memory: &mut impl Sink,
    ) -> Result<Option<Moved>, Error> {
        let Some(slots) = self.chunks_of(request, slots)? else {
            return Ok(None);
        };
        // A program that reads what is kept in a loop must not stop the task that hears of changes.
        consume_budget().await;
        for _ in 0..KEPT_READ_TRIES {
            let Some(names) = self.names_of(request, &slots, kept).await? else {
                return Ok(None);
            };
            let mut chunks = Chunks::new();
            let reads = slots.iter().zip(&names);
            let reads = reads.map(|(slot, names)| self.chunks_by_name(slot, names));
            let mut changed = false;
            for fetched in try_join_all(reads).await? {
                // Another application uses the file: its bytes are read in order.
                let Some((found, complete)) = fetched else {
                    return Ok(None);
                };
                chunks.extend(found);
                changed |= !complete;
            }
            if !changed {
                return self
                    .deal(request, &slots, &names, &chunks, memory)
                    .map(Some);
            }
            // The file was changed since its names were read.
            let file = &self.file.0;
            file.own_names.clear();
            for slot in &slots {
                let kept = &file.volume.shared.kept_names;
                kept.forget(slot.server, file.cells.file);
            }
        }
        Ok(None)
    }

    /// The chunks of one server, and whether all have their names; `None` if they cannot be read
    /// without a claim.
    async fn chunks_by_name(
        &self,
        slot: &SlotChunks,
        names: &Names,
    ) -> Result<Option<(Chunks, bool)>, Error> {
        let cache = &self.file.0.volume.shared.chunks;
        let mut found = Chunks::new();
        let mut missing: BTreeMap<CellIndex, Vec<(u64, ChunkName)>> = BTreeMap::new();
        for (cell, chunk) in &slot.wanted.chunks {
            let Some(name) = names.get(*cell, *chunk) else {
                continue;
            };
            match cache.get(&name) {
                Some(bytes) => drop(found.insert(name, bytes)),
                None => missing.entry(*cell).or_default().push((*chunk, name)),
            }
        }
        let wanted = missing.values().flatten().map(|(_, name)| *name);
        let on_disk = cache.find_on_disk(wanted.collect()).await;
        if !on_disk.is_empty() {
            found.extend(on_disk);
            for chunks in missing.values_mut() {
                chunks.retain(|(_, name)| !found.contains_key(name));
            }
            missing.retain(|_, chunks| !chunks.is_empty());
        }
        let reads = missing
            .iter()
            .map(|(cell, chunks)| self.fetch(slot, *cell, chunks));
        let mut complete = true;
        for fetched in try_join_all(reads).await? {
            let Some((fetched, all)) = fetched else {
                return Ok(None);
            };
            found.extend(fetched);
            complete &= all;
        }
        Ok(Some((found, complete)))
    }

    /// Reads chunks of one cell, ascending, as bytes of the file; keeps them under the names that
    /// they have.
    async fn fetch(
        &self,
        slot: &SlotChunks,
        cell: CellIndex,
        chunks: &[(u64, ChunkName)],
    ) -> Result<Option<(Chunks, bool)>, Error> {
        let size = slot.wanted.size;
        let file = &self.file;
        let view = View::Cell(cell);
        let view = OpenView::new(file.clone(), Map::new(*self.map.grid(), view)?, &self.fork);
        let first = chunks.first().map_or(0, |(chunk, _)| chunk * size);
        let request = if let [_] = chunks {
            Request::Contiguous {
                offset: ViewOffset(first),
                length: size,
            }
        } else {
            let list = chunks
                .iter()
                .map(|(chunk, _)| ((chunk * size - first).cast_signed(), size));
            Request::new(ViewOffset(first), &Pattern::list(list))?
        };
        let mut buffers = vec![vec![0; size as usize]; chunks.len()];
        let mut memory = Target::parts(buffers.iter_mut().map(Vec::as_mut_slice));
        let slots = [slot.slot];
        match view.read_slots(&request, &slots, &mut memory, None).await {
            Ok(_) => {}
            Err(error) if file.becomes_cautious(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let cache = &file.0.volume.shared.chunks;
        let (mut found, mut complete) = (Chunks::with_capacity(chunks.len()), true);
        for ((_, name), mut bytes) in chunks.iter().zip(buffers) {
            bytes.truncate(without_zeros(&bytes));
            let bytes = Bytes::from(bytes);
            let is = (!bytes.is_empty()).then(|| ChunkName::of(&bytes));
            complete &= is == Some(*name);
            if let Some(is) = is {
                cache.put(is, bytes.clone());
                found.insert(is, bytes);
            }
            consume_budget().await;
        }
        Ok(Some((found, complete)))
    }

    /// Deals the bytes of chunks into memory.
    fn deal(
        &self,
        request: &Request,
        slots: &[SlotChunks],
        names: &[Names],
        chunks: &Chunks,
        memory: &mut impl Sink,
    ) -> Result<Moved, Error> {
        let mut moved = Moved::default();
        for (slot, names) in slots.iter().zip(names) {
            let lengths = Lengths::of(names.lengths());
            let ends = lengths
                .all()
                .iter()
                .map(|(cell, length)| self.map.extent(*cell, *length));
            let pieces = self.map.pieces(request, slot.slot)?;
            let pieces = pieces.below(ends.max().unwrap_or(0));
            let mut splitter = Splitter::new(pieces, lengths);
            while let Some(strided) = splitter.next(u64::MAX) {
                deal_pieces(&strided, slot.wanted.size, names, chunks, memory);
                moved.bytes += strided.bytes();
            }
            moved.lengths.extend(splitter.into_lengths().into_all());
        }
        Ok(moved)
    }
}

fn deal_pieces(
    strided: &StridedPieces,
    size: u64,
    names: &Names,
    chunks: &Chunks,
    memory: &mut impl Sink,
) {
    for n in 0..strided.count {
        let mut at = strided.offset.0 + n * strided.stride;
        let (end, mut to) = (at + strided.length, strided.memory_of(n) as usize);
        while at < end {
            let within = (at % size) as usize;
            let length = (end - at).min(size - at % size) as usize;
            let name = names.get(strided.cell, at / size);
            let bytes = name.and_then(|name| chunks.get(&name));
            let mut left = length;
            if let Some(bytes) = bytes
                && within < bytes.len()
            {
                let range = within..bytes.len().min(within + length);
                left -= range.len();
                memory.put(to, bytes, range.clone());
                to += range.len();
            }
            while left > 0 {
                let zeros = left.min(ZEROS.len());
                memory.put(to, &Bytes::from_static(&ZEROS), 0..zeros);
                (left, to) = (left - zeros, to + zeros);
            }
            at += length as u64;
        }
    }
}
