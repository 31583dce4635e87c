//! Asks servers which chunks of a write they lack, without writing.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weft_layout::{CellIndex, Request, ServerId, ServerSlot, Storage, ViewOffset};
use weft_proto::addressed::NameChunksRequest;
use weft_sum::ChunkName;

use super::by_name::{CellRange, ranges};
use super::span::Source;
use crate::limits::NAMED_CHUNKS_MAX;
use crate::volume::Repeat;
use crate::{Error, OpenView};

/// A chunk that a write would fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedChunk {
    /// Where it would lie.
    pub server: ServerId,
    /// Its cell.
    pub cell: CellIndex,
    /// Its number in the cell.
    pub number: u64,
    /// Its name; `None`: zeros, which have none and are never sent.
    pub name: Option<ChunkName>,
    /// The server has no chunk of this name: its bytes would be sent.
    pub lacking: bool,
}

/// Old names that no recipe has: they make a commit a question.
const NO_NAME: [u8; 32] = [0xff; 32];

impl OpenView {
    /// Which chunks a write of these bytes to the view's bytes `offset..` would fill as a whole,
    /// and which of them their servers lack. What it fills of others is always sent. Nothing is
    /// written. One request to a server for each range of a cell, and for every 16,383 chunks.
    ///
    /// # Errors
    /// [`Error::Refused`] where the file is plain, the bytes are scattered over more than 4 ranges
    /// on a server, or a server is of an older version.
    pub async fn offer(&self, offset: ViewOffset, data: Bytes) -> Result<Vec<OfferedChunk>, Error> {
        let layout = self.file.layout();
        let refused = |reason: &str| Error::invalid(self.what("offer chunks of"), reason);
        if layout.storage() != Storage::Addressed {
            return Err(refused("the file is plain, and its chunks have no names"));
        }
        let length = data.len() as u64;
        let request = Request::Contiguous { offset, length };
        let source = Source::Packed(data);
        let size = u64::from(layout.chunk());
        let mut offered = Vec::new();
        for slot in self.map.slots(&request)? {
            let ranges = ranges(self.map.pieces(&request, slot)?);
            let ranges = ranges.ok_or_else(|| {
                refused("the bytes are scattered over too many ranges to be sent by name")
            })?;
            for range in &ranges {
                let whole = range.whole_chunks(size);
                let (mut first, last) = (whole.start / size, whole.end / size);
                while first < last {
                    let next = last.min(first + NAMED_CHUNKS_MAX);
                    let part = self.offer_chunks(slot, range, first..next, &source);
                    offered.extend(part.await?);
                    first = next;
                }
            }
        }
        Ok(offered)
    }

    async fn offer_chunks(
        &self,
        slot: ServerSlot,
        range: &CellRange,
        chunks: Range<u64>,
        source: &Source,
    ) -> Result<Vec<OfferedChunk>, Error> {
        let layout = self.file.layout();
        let server = layout.servers()[slot.0 as usize];
        let size = u64::from(layout.chunk());
        let bytes = |chunk: u64| chunk * size..(chunk + 1) * size;
        let mut offered: Vec<OfferedChunk> = chunks
            .clone()
            .map(|number| OfferedChunk {
                server,
                cell: range.cell,
                number,
                name: range.name(&bytes(number), source),
                lacking: false,
            })
            .collect();
        let mut names = BytesMut::new();
        for chunk in &offered {
            names.extend_from_slice(&chunk.name.map_or([0; 32], |name| *name.as_bytes()));
        }
        let part = chunks.start * size..chunks.end * size;
        let question = NameChunksRequest {
            access: self.cell_access(range.cell, &[part], slot)?,
            chunk: layout.chunk_code(),
            names: names.freeze(),
            old: NO_NAME.repeat(offered.len()).into(),
            all: true,
            ..NameChunksRequest::default()
        };
        let what = format!("{} on server {server}", self.what("offer chunks of"));
        let volume = &self.file.0.volume;
        let reply = volume.io(&what, server, &question, Repeat::Safe).await?;
        for (n, chunk) in offered.iter_mut().enumerate() {
            let bits = reply.lacking.get(n / 8);
            chunk.lacking = bits.is_some_and(|bits| bits >> (n % 8) & 1 != 0);
        }
        Ok(offered)
    }
}
