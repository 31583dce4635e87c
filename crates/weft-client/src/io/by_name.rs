//! Writes to addressed files that send the names of chunks first, and the bytes only of those that
//! a server lacks (`docs/design/0032-addressed-files.md`).
//!
//! Names cost a hash of the bytes and a round trip, and help only if a server has some of the
//! chunks. So after an answer that it has next to none, further writes through the volume send
//! their bytes at once, and only now and then one asks again (`session/naming_pays.rs`).

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weft_layout::{
    CellIndex, CellOffset, Endless, Piece, Pieces, Request, ServerSlot, Splitter, View, ViewOffset,
    bytes_of,
};
use weft_net::Connection;
use weft_proto::addressed::{NameChunksReply, NameChunksRequest};
use weft_proto::io::{Access, Pattern, View as WireView, WriteRequest};
use weft_proto::stamp::Stamp;
use weft_sum::ChunkName;

use super::span::{Durability, Source};
use super::write::FRAME_BYTES;
use crate::limits::{NAMED_CHUNKS_MAX, NAMED_PIECE_MIN, NAMED_PIECES_MAX, NAMED_RANGES_MAX};
use crate::session::Naming;
use crate::volume::Repeat;
use crate::{Error, OpenView};

/// Bytes of a cell that are hashed before other tasks of the thread run: about a third of a
/// millisecond.
const HASHED_AT_ONCE: u64 = 1 << 20;

/// A contiguous range of one cell that a write fills, and where its bytes are.
pub(super) struct CellRange {
    pub(super) cell: CellIndex,
    pub(super) start: u64,
    /// In the order of the cell; `memory` is the number of the first byte in the request.
    pieces: Vec<Piece>,
}

impl CellRange {
    pub(super) fn end(&self) -> u64 {
        self.pieces
            .last()
            .map_or(self.start, |p| p.offset.0 + p.length)
    }

    /// The whole chunks of this size within the range.
    pub(super) fn whole_chunks(&self, size: u64) -> Range<u64> {
        let start = self.start.next_multiple_of(size);
        start..(self.end() / size * size).max(start)
    }

    /// The name of a part of the range; zeros have none.
    pub(super) fn name(&self, part: &Range<u64>, source: &Source) -> Option<ChunkName> {
        let slices = self.slices(part, source);
        ChunkName::of_slices(slices.iter().map(AsRef::as_ref))
    }

    /// The slices of a part of the range.
    fn slices(&self, part: &Range<u64>, source: &Source) -> Vec<Bytes> {
        let first = self
            .pieces
            .partition_point(|p| p.offset.0 + p.length <= part.start);
        let mut slices = Vec::new();
        let mut at = part.start;
        for piece in &self.pieces[first..] {
            if at >= part.end {
                break;
            }
            let end = part.end.min(piece.offset.0 + piece.length);
            while at < end {
                let number = piece.memory + (at - piece.offset.0);
                let (bytes, range) = source.find(number, end - at);
                at += range.len() as u64;
                slices.push(bytes.slice(range));
            }
        }
        slices
    }
}

/// The ranges of cells that pieces fill; `None` if they are too many, too small, not in ascending
/// order in each cell, or overlap.
pub(super) fn ranges(pieces: Pieces) -> Option<Vec<CellRange>> {
    let mut splitter = Splitter::whole(pieces);
    let mut ranges: Vec<CellRange> = Vec::new();
    let mut count = 0;
    while let Some(strided) = splitter.next(u64::MAX) {
        count += strided.count;
        if count > NAMED_PIECES_MAX || strided.length < NAMED_PIECE_MIN && count > 64 {
            return None;
        }
        for n in 0..strided.count {
            let piece = Piece {
                cell: strided.cell,
                offset: CellOffset(strided.offset.0 + n * strided.stride),
                length: strided.length,
                memory: strided.memory_of(n),
            };
            let is_full = ranges.len() == NAMED_RANGES_MAX;
            let last = ranges
                .iter_mut()
                .rev()
                .find(|range| range.cell == piece.cell);
            match last {
                Some(range) if range.end() == piece.offset.0 => range.pieces.push(piece),
                Some(range) if range.end() > piece.offset.0 => return None,
                // A request for each range, and not for each server, has to pay as well.
                _ if is_full => return None,
                _ => ranges.push(CellRange {
                    cell: piece.cell,
                    start: piece.offset.0,
                    pieces: vec![piece],
                }),
            }
        }
    }
    Some(ranges)
}

impl OpenView {
    /// Writes a server's part of a write to an addressed file by names, as far as that pays.
    /// `None`: it does not, and nothing was written.
    pub(super) async fn write_by_name(
        &self,
        pieces: Pieces,
        source: &Source,
        slot: ServerSlot,
        (durability, asks): (Durability, bool),
    ) -> Result<Option<u64>, Error> {
        let attachment = &self.file.0;
        let layout = &attachment.layout;
        let pays = &attachment.volume.shared.naming_pays;
        let size = u64::from(layout.chunk());
        if bytes_of(pieces.clone(), Endless) < size {
            return Ok(None);
        }
        let Some(ranges) = ranges(pieces) else {
            return Ok(None);
        };
        let whole = |range: &CellRange| range.whole_chunks(size);
        if ranges.iter().all(|range| whole(range).is_empty()) {
            return Ok(None);
        }
        let chunks = ranges
            .iter()
            .map(|range| whole(range).end - whole(range).start);
        let chunks = chunks.sum::<u64>() / size;
        let naming = pays.ask(chunks, asks);
        if naming == Naming::None {
            return Ok(None);
        }
        let mut probed = None;
        if let Naming::Probe(count) = naming {
            // In the middle: what a program changes is often at the beginning.
            let longest = ranges
                .iter()
                .enumerate()
                .max_by_key(|(_, range)| range.end() - range.start);
            let (n, range) = longest.map_or((0, &ranges[0]), |(n, range)| (n, range));
            let all = whole(range);
            let start = all.start + (all.end - all.start) / size / 2 * size;
            let probe = start..(start + count * size).min(all.end);
            let missing = self
                .name_chunks(range, probe.clone(), source, slot, durability)
                .await?;
            if missing.first() == Some(&probe) {
                return Ok(None);
            }
            probed = Some((n, probe, missing));
        }
        let mut moved = 0;
        for (n, range) in ranges.into_iter().enumerate() {
            let (end, whole) = (range.end(), whole(&range));
            let mut missing = Vec::new();
            missing.push(range.start..whole.start.min(end));
            let mut at = whole.start;
            let (mut before, mut known) = (whole.end..whole.end, Vec::new());
            if let Some((_, probe, missing)) = probed.take_if(|(probed, ..)| *probed == n) {
                (before, known) = (probe, missing);
            }
            while at < whole.end {
                if at == before.start {
                    missing.append(&mut known);
                    at = before.end;
                    continue;
                }
                let stop = if at < before.start {
                    before.start
                } else {
                    whole.end
                };
                let to = stop.min(at + NAMED_CHUNKS_MAX * size);
                let part = self.name_chunks(&range, at..to, source, slot, durability);
                missing.extend(part.await?);
                at = to;
            }
            missing.push(whole.end.min(end)..end);
            missing.retain(|part| !part.is_empty());
            self.write_missing(&range, &missing, source, slot, durability)
                .await?;
            moved += end - range.start;
        }
        Ok(Some(moved))
    }

    /// Names the chunks of a part of a range; returns the parts that the server lacks.
    async fn name_chunks(
        &self,
        range: &CellRange,
        part: Range<u64>,
        source: &Source,
        slot: ServerSlot,
        durability: Durability,
    ) -> Result<Vec<Range<u64>>, Error> {
        let layout = &self.file.0.layout;
        let size = u64::from(layout.chunk());
        let chunks = || (part.start / size..part.end / size).map(|n| n * size..(n + 1) * size);
        let mut names = BytesMut::new();
        for chunk in chunks() {
            let name = range.name(&chunk, source);
            names.extend_from_slice(&name.map_or([0; 32], |name| *name.as_bytes()));
            if chunk.end.is_multiple_of(HASHED_AT_ONCE) {
                // Other calls of this thread need not wait for all of a large write.
                tokio::task::yield_now().await;
            }
        }
        let list = [part.clone()];
        let request = NameChunksRequest {
            access: self.cell_access(range.cell, &list, slot)?,
            chunk: layout.chunk_code(),
            names: names.freeze(),
            sync: durability == Durability::Power,
            ..NameChunksRequest::default()
        };
        let call = |connection: Connection| {
            let request = request.clone();
            async move { connection.call_stamped(&request).await }
        };
        let (reply, _): (NameChunksReply, Stamp) = self.on_slot(slot, durability, call).await?;
        let lacks = |n: usize| {
            reply
                .lacking
                .get(n / 8)
                .is_some_and(|b| b >> (n % 8) & 1 != 0)
        };
        let mut missing: Vec<Range<u64>> = Vec::new();
        let (mut count, mut lacking) = (0, 0);
        for (n, chunk) in chunks().enumerate() {
            count += 1;
            if !lacks(n) {
                continue;
            }
            lacking += 1;
            match missing.last_mut() {
                Some(before) if before.end == chunk.start => before.end = chunk.end,
                _ => missing.push(chunk),
            }
        }
        self.file.0.volume.shared.naming_pays.note(count, lacking);
        Ok(missing)
    }

    /// Writes parts of a range with their bytes.
    async fn write_missing(
        &self,
        range: &CellRange,
        parts: &[Range<u64>],
        source: &Source,
        slot: ServerSlot,
        durability: Durability,
    ) -> Result<(), Error> {
        if parts.is_empty() {
            return Ok(());
        }
        let request = WriteRequest {
            access: self.cell_access(range.cell, parts, slot)?,
            chunk: self.file.0.layout.chunk_code(),
            bytes: parts.iter().map(|part| part.end - part.start).sum(),
            sync: durability == Durability::Power,
            ..WriteRequest::default()
        };
        let slices: Vec<Bytes> = parts
            .iter()
            .flat_map(|part| range.slices(part, source))
            .collect();
        let send = |connection: Connection| {
            let (request, mut frames) = (request.clone(), Frames(slices.clone().into()));
            async move {
                let first = frames.next().unwrap_or_default();
                let mut later = frames.next();
                let mut outgoing = connection.send(&request, first, later.is_none()).await?;
                while let Some(frame) = later {
                    if outgoing.answered() {
                        break;
                    }
                    later = frames.next();
                    outgoing.more(frame, later.is_none()).await?;
                }
                outgoing.stamped_reply().await
            }
        };
        self.on_slot(slot, durability, send).await.map(drop)
    }

    /// Makes a call on a slot's server and takes note of what it acknowledges.
    async fn on_slot<R, F: Future<Output = Result<(R, Stamp), weft_net::CallError>>>(
        &self,
        slot: ServerSlot,
        durability: Durability,
        call: impl Fn(Connection) -> F,
    ) -> Result<(R, Stamp), Error> {
        let attachment = &self.file.0;
        let server = attachment.layout.servers()[slot.0 as usize];
        let done = attachment
            .volume
            .on_server(server, Repeat::SameBytes, call)
            .await;
        let done = done.map_err(|e| {
            let what = format!("{} on server {server}", self.what("write"));
            Error::of_write(what, &attachment.path, e)
        })?;
        if durability == Durability::Process {
            self.file.note_acknowledged(server, &done.1);
        }
        Ok(done)
    }

    /// The access to ascending parts of one cell.
    pub(super) fn cell_access(
        &self,
        cell: CellIndex,
        parts: &[Range<u64>],
        slot: ServerSlot,
    ) -> Result<Access, Error> {
        let base = parts.first().map_or(0, |part| part.start);
        let request = match parts {
            [part] => Request::Contiguous {
                offset: ViewOffset(part.start),
                length: part.end - part.start,
            },
            parts => {
                let list = parts
                    .iter()
                    .map(|part| ((part.start - base).cast_signed(), part.end - part.start));
                Request::new(ViewOffset(base), &weft_layout::Pattern::list(list))?
            }
        };
        let pattern = Pattern::from_request(&request, true)
            .map_err(|e| Error::of_convert("send a request", &e))?;
        Ok(Access {
            view: WireView::from(&View::Cell(cell)),
            ..self.access(&pattern, slot)
        })
    }
}

/// Slices as the payloads of frames.
struct Frames(VecDeque<Bytes>);

impl Iterator for Frames {
    type Item = Vec<Bytes>;

    fn next(&mut self) -> Option<Vec<Bytes>> {
        let (mut frame, mut room) = (Vec::new(), FRAME_BYTES);
        while room > 0
            && let Some(mut slice) = self.0.pop_front()
        {
            if slice.len() > room {
                self.0.push_front(slice.split_off(room));
            }
            room -= slice.len();
            frame.push(slice);
        }
        (!frame.is_empty()).then_some(frame)
    }
}
