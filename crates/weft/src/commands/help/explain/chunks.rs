//! The chunks of a write, and which of them servers lack.

use serde::Serialize;
use weft_client::OfferedChunk;

use crate::terminal::output::{self, count};

/// The chunks that a write would fill.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ExplainedChunks {
    /// Chunks that it would fill as a whole.
    pub(crate) offered: u64,
    /// Those of them that their servers lack.
    pub(crate) lacking: u64,
    /// Bytes that would be sent: of lacking chunks, and of those that are filled in part.
    pub(crate) sent_bytes: u64,
    /// All bytes.
    pub(crate) bytes: u64,
    /// The first chunks on each server, lacking ones first.
    pub(crate) first: Vec<ExplainedChunk>,
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ExplainedChunk {
    pub(crate) server: u32,
    pub(crate) cell: u32,
    /// Within its cell.
    pub(crate) number: u64,
    /// Absent: zeros.
    pub(crate) name: Option<String>,
    pub(crate) lacking: bool,
}

impl ExplainedChunks {
    /// Of a write of so many bytes, with the first `shown` chunks of each server.
    pub(crate) fn new(
        chunks: &[OfferedChunk],
        bytes: u64,
        size: u64,
        shown: usize,
    ) -> ExplainedChunks {
        let mut first = Vec::new();
        for of_server in chunks.chunk_by(|one, other| one.server == other.server) {
            // What would be sent is what is asked for.
            let (sent, there): (Vec<&OfferedChunk>, Vec<&OfferedChunk>) =
                of_server.iter().partition(|c| c.lacking);
            first.extend(
                sent.into_iter()
                    .chain(there)
                    .take(shown)
                    .map(|chunk| ExplainedChunk {
                        server: chunk.server.0,
                        cell: chunk.cell.0,
                        number: chunk.number,
                        name: chunk.name.map(|name| name.to_string()),
                        lacking: chunk.lacking,
                    }),
            );
        }
        let (offered, lacking) = (
            chunks.len() as u64,
            chunks.iter().filter(|chunk| chunk.lacking).count() as u64,
        );
        ExplainedChunks {
            offered,
            lacking,
            sent_bytes: bytes - (offered - lacking) * size,
            bytes,
            first,
        }
    }

    /// One line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} as a whole, {} of them lacking: {} of {} would be sent",
            count(self.offered, "chunk"),
            self.lacking,
            output::bytes(self.sent_bytes),
            output::bytes(self.bytes)
        )
    }
}
