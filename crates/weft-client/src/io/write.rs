//! Fan-out of a write: one request and one stream per server, gathered from the caller's memory
//! without copying large pieces.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use weft_layout::{
    CellIndex, Endless, Pieces, Request, ServerSlot, Splitter, Storage, Strided, StridedCopy,
    StridedPieces, View, bytes_of, copy_all,
};
use weft_net::{CallError, Connection};
use weft_proto::io::{Pattern, WriteRequest};
use weft_proto::order::Claim;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Code, Failure};

use super::in_order::Staged;
use super::span::{Durability, Source};
use crate::policy::Kept;
use crate::volume::Repeat;
use crate::{Error, OpenView};

/// Payload bytes of one frame.
pub(crate) const FRAME_BYTES: usize = 512 << 10;
/// Slices of one frame; beyond, pieces are copied together.
const FRAME_SLICES: usize = 128;
/// Pieces from this size on travel as slices of the caller's memory.
const SLICE_MIN: usize = 4 << 10;
/// Entries of small strided pieces that are copied together.
const TOGETHER: usize = 64;

/// What is the same for all servers of a write.
struct Write<'a> {
    pattern: Pattern,
    request: &'a Request,
    source: Source,
    durability: Durability,
    ordered: bool,
    /// Large parts ask for the names of some of their chunks first.
    probes: bool,
}

/// Gathers one server's pieces from the caller's memory, a frame at a time.
pub(crate) struct Gather<'a> {
    splitter: Splitter<Endless>,
    source: &'a Source,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(pieces: Pieces, source: &'a Source) -> Gather<'a> {
        Gather {
            splitter: Splitter::whole(pieces),
            source,
        }
    }

    /// The next frame's payload; empty at the end.
    fn frame(&mut self) -> Vec<Bytes> {
        let mut frame = Frame {
            source: self.source,
            parts: Vec::new(),
            small: BytesMut::new(),
            copies: Vec::new(),
            room: FRAME_BYTES,
        };
        while frame.room > 0 {
            let Some(strided) = self.splitter.next(frame.room as u64) else {
                break;
            };
            frame.add(&strided);
        }
        frame.flush();
        frame.parts
    }

    fn finished(&mut self) -> bool {
        self.splitter.is_done()
    }
}

/// A frame's payload under construction.
struct Frame<'a> {
    source: &'a Source,
    parts: Vec<Bytes>,
    /// Small pieces, copied together.
    small: BytesMut,
    /// Copies into `small` that are still to be done.
    copies: Vec<StridedCopy>,
    /// Bytes that still fit.
    room: usize,
}

impl Frame<'_> {
    fn add(&mut self, strided: &StridedPieces) {
        let (rows, length) = if strided.is_contiguous_in_memory() {
            (1, strided.bytes())
        } else {
            (strided.count, strided.length)
        };
        if matches!(self.source, Source::Packed(_)) && rows > 1 && length < SLICE_MIN as u64 {
            return self.add_strided(strided);
        }
        for n in 0..rows {
            self.add_row(strided.memory_of(n), length);
        }
    }

    /// Small pieces at equal distances in one buffer.
    fn add_strided(&mut self, strided: &StridedPieces) {
        let (length, count) = (strided.length as usize, strided.count as usize);
        let from = strided.in_memory();
        let to = Strided::packed(self.grow(length * count), length);
        self.copies.push(StridedCopy {
            to,
            from,
            length,
            count,
        });
        if self.copies.len() == TOGETHER {
            self.copy();
        }
    }

    fn copy(&mut self) {
        if let Source::Packed(memory) = self.source {
            copy_all(&mut self.small, memory, &mut self.copies);
        }
        self.copies.clear();
    }

    /// Bytes with consecutive numbers, which need not be contiguous in memory.
    fn add_row(&mut self, mut number: u64, mut length: u64) {
        while length > 0 {
            let (bytes, range) = self.source.find(number, length);
            let taken = range.len();
            number += taken as u64;
            length -= taken as u64;
            if taken >= SLICE_MIN && self.parts.len() < FRAME_SLICES {
                self.flush();
                self.parts.push(bytes.slice(range));
                self.room -= taken;
            } else {
                let at = self.grow(taken);
                self.small[at..].copy_from_slice(&bytes[range]);
            }
        }
    }

    /// Extends the copied bytes by so many; returns where these begin.
    fn grow(&mut self, bytes: usize) -> usize {
        if self.small.is_empty() {
            self.small.reserve(self.room);
        }
        let at = self.small.len();
        self.small.resize(at + bytes, 0);
        self.room -= bytes;
        at
    }

    fn flush(&mut self) {
        self.copy();
        if !self.small.is_empty() {
            self.parts.push(self.small.split().freeze());
        }
    }
}

impl OpenView {
    /// Writes what `request` touches. `ordered`: it touches bytes more than once, and the last
    /// write of each stays.
    pub(crate) async fn write_request(
        &self,
        request: &Request,
        source: Source,
        durability: Durability,
        ordered: bool,
    ) -> Result<u64, Error> {
        self.file.needs_write("write")?;
        let slots = self.map.slots(request)?;
        if !self.is_recorded() {
            return self
                .write_by_policy(request, &slots, source, durability, ordered)
                .await;
        }
        let noting = self
            .file
            .begin_change(|| self.recorded_write(request, &source));
        let moved = self
            .write_by_policy(request, &slots, source, durability, ordered)
            .await;
        noting.end(moved.is_ok());
        moved
    }

    async fn write_by_policy(
        &self,
        request: &Request,
        slots: &[ServerSlot],
        source: Source,
        durability: Durability,
        ordered: bool,
    ) -> Result<u64, Error> {
        let file = &self.file;
        let Some(chosen) = file.chosen() else {
            file.commit().await?;
            return self
                .write_now(request, slots, source, durability, ordered)
                .await;
        };
        let touched = || self.touched(request);
        let (delay, asked) = file.before_write(&chosen, touched)?;
        let delay = delay.filter(|_| durability == Durability::Process);
        let moved = async {
            file.do_pending().await?;
            file.do_asked_for(asked).await?;
            if let Some(delay) = delay {
                let later = self.write_later(request, slots, source, ordered, delay);
                return later.await;
            }
            file.commit().await?;
            self.write_now(request, slots, source, durability, ordered)
                .await
        };
        let moved = moved.await;
        let bytes = |moved: &u64| *moved;
        let after = file.after(&chosen, "write", moved, bytes, |opened, core, bytes| {
            opened.post_write(core, &touched(), bytes)
        });
        after.await
    }

    /// Writes without regard to writes that wait.
    pub(super) async fn write_now(
        &self,
        request: &Request,
        slots: &[ServerSlot],
        source: Source,
        durability: Durability,
        ordered: bool,
    ) -> Result<u64, Error> {
        let write = Write {
            pattern: self.pattern(request)?,
            request,
            source,
            durability,
            ordered,
            probes: self.probes_names(request),
        };
        let own = self.own_chunks(request, slots)?;
        self.file.0.own_names.changed(own.iter().cloned());
        // First: a cancelled write may have changed it, too.
        self.file.note_fork(&self.fork);
        let mut moved = if self.file.is_cautious() {
            self.write_in_order(&write, slots).await
        } else {
            let writes = slots.iter().map(|slot| self.write_slot(&write, *slot));
            // All of them to their end: after a failure no write may still change what servers are
            // asked for.
            join_all(writes).await.into_iter().sum()
        };
        if let Err(error) = &moved
            && self.file.becomes_cautious(error)
        {
            moved = self.write_in_order(&write, slots).await;
        }
        // Even a failed write may have moved the end of the file; where to, the servers know.
        let canonical = *self.map.view() == View::canonical() && self.fork == "data";
        let known = canonical && moved.is_ok();
        self.file.0.own_names.changed(own);
        let end = known.then(|| request.end());
        self.file.note_forgotten_write(end, self.time_written());
        moved
    }

    /// Whether large parts of a write of addressed chunks ask for some of them first.
    fn probes_names(&self, request: &Request) -> bool {
        let a = &self.file.0;
        if a.layout.storage() != Storage::Addressed {
            return false;
        }
        let anew = self.file.begins_anew(request.end());
        a.volume.shared.naming_pays.probes(anew)
    }

    /// The chunks of a write that the attachment may have names of its own of.
    fn own_chunks(
        &self,
        request: &Request,
        slots: &[ServerSlot],
    ) -> Result<Vec<(CellIndex, Range<u64>)>, Error> {
        let own = matches!(self.file.values().names, Kept::Own { .. });
        if !own || self.fork != "data" {
            return Ok(Vec::new());
        }
        let Some(chunks) = self.chunks_of(request, slots)? else {
            self.file.0.own_names.clear();
            return Ok((0..self.map.grid().cells())
                .map(|cell| (CellIndex(cell), 0..u64::MAX))
                .collect());
        };
        let chunks = chunks.into_iter().flat_map(|slot| slot.wanted.chunks);
        Ok(chunks
            .map(|(cell, chunk)| (cell, chunk..chunk + 1))
            .collect())
    }

    async fn write_in_order(&self, write: &Write<'_>, slots: &[ServerSlot]) -> Result<u64, Error> {
        let stage = |slot, claim| self.stage_slot(write, slot, claim);
        // Boxed: otherwise every writer's future is as large as this one.
        Box::pin(self.change_in_order("write", slots, write.durability, stage)).await
    }

    /// Sends one server its part of a write with a claim.
    async fn stage_slot(
        &self,
        write: &Write<'_>,
        slot: ServerSlot,
        claim: Claim,
    ) -> Result<Staged, CallError> {
        let server = self.file.0.layout.servers()[slot.0 as usize];
        let map = |e: weft_layout::MapError| {
            CallError::Failed(Failure::new(Code::Invalid, e.to_string()))
        };
        let pieces = self.map.pieces(write.request, slot).map_err(map)?;
        let volume = &self.file.0.volume;
        let connection = volume.server_connection(server).await?;
        let along = volume.shared.ended_operations.take(server);
        let call = WriteRequest {
            access: self.access(&write.pattern, slot),
            chunk: self.file.0.layout.chunk_code(),
            bytes: bytes_of(pieces.clone(), Endless),
            sync: write.durability == Durability::Power,
            ordered: write.ordered,
            claim: Some(Claim {
                ended: along.operations(),
                ..claim
            }),
            written: 0,
        };
        let gather = Gather::new(pieces, &write.source);
        let sent = send_frames(&connection, &call, gather).await;
        along.delivered();
        let (reply, stamp) = sent?;
        Ok(Staged {
            bytes: reply.bytes,
            granted: reply.granted,
            stamp,
        })
    }

    async fn write_slot(&self, write: &Write<'_>, slot: ServerSlot) -> Result<u64, Error> {
        let server = self.file.0.layout.servers()[slot.0 as usize];
        let pieces = self.map.pieces(write.request, slot)?;
        if self.file.0.layout.storage() == Storage::Addressed && !write.ordered {
            // Boxed: otherwise every writer's future is as large as this one.
            let how = (write.durability, write.probes);
            let by_name = self.write_by_name(pieces.clone(), &write.source, slot, how);
            if let Some(bytes) = Box::pin(by_name).await? {
                return Ok(bytes);
            }
        }
        let bytes = bytes_of(pieces.clone(), Endless);
        let write_over = |connection: Connection| {
            let call = WriteRequest {
                access: self.access(&write.pattern, slot),
                chunk: self.file.0.layout.chunk_code(),
                bytes,
                sync: write.durability == Durability::Power,
                ordered: write.ordered,
                claim: None,
                written: self.time_written().unwrap_or(0),
            };
            let gather = Gather::new(pieces.clone(), &write.source);
            async move { send_frames(&connection, &call, gather).await }
        };
        let volume = &self.file.0.volume;
        let sent = volume
            .on_server(server, Repeat::SameBytes, write_over)
            .await;
        let (reply, stamp) = sent.map_err(|e| {
            let what = format!("{} on server {server}", self.what("write"));
            Error::of_write(what, &self.file.0.path, e)
        })?;
        if write.durability == Durability::Process {
            self.file.note_acknowledged(server, &stamp);
        }
        Ok(reply.bytes)
    }
}

/// Sends a call with its payload and waits for the answer, and for what the server says of the
/// change.
pub(crate) async fn send_frames<C: Call>(
    connection: &Connection,
    call: &C,
    mut gather: Gather<'_>,
) -> Result<(C::Reply, Stamp), CallError> {
    let first = gather.frame();
    let mut last = gather.finished();
    let mut outgoing = connection.send(call, first, last).await?;
    while !last && !outgoing.answered() {
        let frame = gather.frame();
        last = gather.finished();
        outgoing.more(frame, last).await?;
    }
    outgoing.stamped_reply().await
}
