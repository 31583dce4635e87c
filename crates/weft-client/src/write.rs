//! Fan-out of a write: one request and one stream per server, cut from the caller's memory without copying large
//! pieces.

use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use weft_layout::{Piece, Pieces, Request, ServerSlot, View};
use weft_net::CallError;
use weft_proto::io::{Pattern, WriteRequest};

use crate::span::Source;
use crate::volume::Repeat;
use crate::{Error, OpenView};

/// Payload bytes of one frame.
const FRAME_BYTES: usize = 512 << 10;
/// Slices of one frame; beyond, pieces are copied together.
const FRAME_SLICES: usize = 128;
/// Pieces from this size on travel as slices of the caller's memory.
const SLICE_MIN: usize = 4 << 10;

/// What written bytes survive when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The death of any server's process.
    Process,
    /// Power loss.
    Power,
}

/// What is the same for all servers of a write.
struct Write<'a> {
    pattern: Pattern,
    request: &'a Request,
    source: Source,
    durability: Durability,
    ordered: bool,
}

/// Cuts one server's pieces from the caller's memory, a frame at a time.
struct Gather<'a> {
    pieces: Pieces,
    source: &'a Source,
    /// What is left of the piece begun.
    rest: Option<Piece>,
}

impl Gather<'_> {
    /// The next frame's payload; empty at the end.
    fn frame(&mut self) -> Vec<Bytes> {
        let mut parts: Vec<Bytes> = Vec::new();
        let mut small = BytesMut::new();
        let mut room = FRAME_BYTES;
        while room > 0 {
            let Some(mut piece) = self.rest.take().or_else(|| self.pieces.next()) else {
                break;
            };
            let (bytes, range) = self
                .source
                .find(piece.memory, piece.length.min(room as u64));
            let taken = range.len();
            room -= taken;
            piece.memory += taken as u64;
            piece.length -= taken as u64;
            self.rest = (piece.length > 0).then_some(piece);
            if taken >= SLICE_MIN && parts.len() < FRAME_SLICES {
                if !small.is_empty() {
                    parts.push(small.split().freeze());
                }
                parts.push(bytes.slice(range));
            } else {
                if small.is_empty() {
                    small.reserve(room + taken);
                }
                small.extend_from_slice(&bytes[range]);
            }
        }
        if !small.is_empty() {
            parts.push(small.freeze());
        }
        parts
    }

    fn finished(&self) -> bool {
        self.rest.is_none() && self.pieces.clone().next().is_none()
    }
}

impl OpenView {
    /// Writes what `request` touches. `ordered`: it touches bytes more than once, and the later stay.
    pub(crate) async fn write_request(
        &self,
        request: &Request,
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
        };
        let slots = self.map.slots(request)?;
        let writes = slots.iter().map(|slot| self.write_slot(&write, *slot));
        let moved = try_join_all(writes).await;
        // Even a failed write may have moved the end of the file.
        let canonical = *self.map.view() == View::canonical() && self.fork == "data";
        self.file.note_write(canonical.then(|| request.end()));
        Ok(moved?.into_iter().sum())
    }

    async fn write_slot(&self, write: &Write<'_>, slot: ServerSlot) -> Result<u64, Error> {
        let server = self.file.0.layout.servers()[slot.0 as usize];
        let pieces = self.map.pieces(write.request, slot)?;
        let bytes = pieces.clone().map(|p| p.length).sum();
        let mut tries = 0;
        loop {
            let call = WriteRequest {
                access: self.access(&write.pattern, slot),
                chunk: self.file.0.layout.chunk(),
                bytes,
                sync: write.durability == Durability::Power,
                ordered: write.ordered,
            };
            let gather = Gather {
                pieces: pieces.clone(),
                source: &write.source,
                rest: None,
            };
            match self.send(&call, gather, server).await {
                Ok(moved) => return Ok(moved),
                Err(e) if tries == 0 && self.file.0.volume.try_again(&e, Repeat::Unsafe).await => {
                    tries += 1;
                }
                Err(e) => {
                    let what = format!("{} on server {server}", self.what("write"));
                    return Err(Error::of_call(what, e));
                }
            }
        }
    }

    async fn send(
        &self,
        call: &WriteRequest,
        mut gather: Gather<'_>,
        server: weft_layout::ServerId,
    ) -> Result<u64, CallError> {
        let connection = self.file.0.volume.server_connection(server).await?;
        let first = gather.frame();
        let mut last = gather.finished();
        let mut outgoing = connection.send(call, first, last).await?;
        while !last && !outgoing.answered() {
            let frame = gather.frame();
            last = gather.finished();
            outgoing.more(frame, last).await?;
        }
        Ok(outgoing.reply().await?.bytes)
    }
}
