//! Fan-out of a write: one request and one stream per server, cut from the caller's memory without copying large
//! pieces.

use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use weft_layout::{Pieces, Request, ServerSlot, View, ViewOffset};
use weft_net::CallError;
use weft_proto::io::{Pattern, WriteRequest};

use crate::volume::Repeat;
use crate::{Error, OpenView};

/// Payload bytes of one frame.
const FRAME_BYTES: usize = 512 << 10;
/// Slices of one frame; beyond, pieces are copied together.
const FRAME_SLICES: usize = 128;
/// Pieces from this size on travel as slices of the caller's memory.
const SLICE_MIN: usize = 4 << 10;

/// Cuts one server's pieces from the caller's memory, a frame at a time.
struct Gather {
    pieces: Pieces,
    data: Bytes,
    rest: Bytes,
}

impl Gather {
    /// The next frame's payload; empty at the end.
    fn frame(&mut self) -> Vec<Bytes> {
        let mut parts: Vec<Bytes> = Vec::new();
        let mut small = BytesMut::new();
        let mut room = FRAME_BYTES;
        while room > 0 {
            if self.rest.is_empty() {
                let Some(piece) = self.pieces.next() else {
                    break;
                };
                let at = piece.memory as usize;
                self.rest = self.data.slice(at..at + piece.length as usize);
            }
            let taken = self.rest.split_to(self.rest.len().min(room));
            room -= taken.len();
            if taken.len() >= SLICE_MIN && parts.len() < FRAME_SLICES {
                if !small.is_empty() {
                    parts.push(small.split().freeze());
                }
                parts.push(taken);
            } else {
                small.extend_from_slice(&taken);
            }
        }
        if !small.is_empty() {
            parts.push(small.freeze());
        }
        parts
    }

    fn finished(&self) -> bool {
        self.rest.is_empty() && self.pieces.clone().next().is_none()
    }
}

impl OpenView {
    pub(crate) async fn write_request(
        &self,
        offset: ViewOffset,
        data: Bytes,
        sync: bool,
    ) -> Result<u64, Error> {
        let request = Request::Contiguous {
            offset,
            length: data.len() as u64,
        };
        let pattern = OpenView::pattern(&request)?;
        let slots = self.map.slots(&request)?;
        let writes = slots
            .iter()
            .map(|slot| self.write_slot(pattern, &request, *slot, &data, sync));
        let moved = try_join_all(writes).await;
        // Even a failed write may have moved the end of the file.
        let canonical = *self.map.view() == View::canonical() && self.fork == "data";
        self.file
            .note_write(canonical.then(|| offset.0 + data.len() as u64));
        Ok(moved?.into_iter().sum())
    }

    async fn write_slot(
        &self,
        pattern: Pattern,
        request: &Request,
        slot: ServerSlot,
        data: &Bytes,
        sync: bool,
    ) -> Result<u64, Error> {
        let server = self.file.0.layout.servers()[slot.0 as usize];
        let pieces = self.map.pieces(request, slot)?;
        let bytes = pieces.clone().map(|p| p.length).sum();
        let mut tries = 0;
        loop {
            let call = WriteRequest {
                access: self.access(pattern, slot),
                chunk: self.file.0.layout.chunk(),
                bytes,
                sync,
            };
            let gather = Gather {
                pieces: pieces.clone(),
                data: data.clone(),
                rest: Bytes::new(),
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
        mut gather: Gather,
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
