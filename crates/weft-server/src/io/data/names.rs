//! Writes of chunks by their names.

use bytes::Bytes;
use weft_net::Peer;
use weft_proto::Failure;
use weft_proto::addressed::{NameChunksReply, NameChunksRequest};
use weft_store::{ChunkName, NamedChunks, NamedOutcome};

use crate::failure::{self, invalid};
use crate::io::IoService;
use crate::io::sharers::Change;
use crate::limits::NAMED_CHUNKS_MAX;

/// Bytes of a name.
const NAME_BYTES: usize = 32;

impl IoService {
    pub(in crate::io) async fn name_chunks(
        &self,
        request: NameChunksRequest,
        peer: &Peer,
    ) -> Result<NameChunksReply, Failure> {
        let job = self.job(&request.access)?.writable()?;
        let named = named(&job.computed_ranges().unwrap_or_default(), &request)?;
        let _gate = self.gates.enter(job.file).await;
        self.forced.check(job.file, peer)?;
        self.may_grow(std::slice::from_ref(&job)).await?;
        let outcome = self.store.name_chunks(named, self.now()).await;
        if !matches!(outcome, Ok(NamedOutcome::Changed(_))) {
            self.tell_sharers(job.file, Change::Job(&job)).await;
        }
        let reply = match outcome.map_err(|e| failure::of_store(&e))? {
            NamedOutcome::Changed(lacking) => NameChunksReply {
                lacking: bits(&lacking),
                changed: true,
            },
            NamedOutcome::Lacking(lacking) => NameChunksReply {
                lacking: bits(&lacking),
                changed: false,
            },
        };
        if request.sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        Ok(reply)
    }
}

/// What a request asks of the store.
fn named(
    ranges: &[(weft_store::ForkKey, std::ops::Range<u64>)],
    request: &NameChunksRequest,
) -> Result<NamedChunks, Failure> {
    let (size, _) = weft_layout::of_chunk_code(request.chunk);
    let size = u64::from(size.max(1));
    let [(key, range)] = ranges else {
        return Err(invalid(
            "chunks are named in one contiguous range of one cell",
        ));
    };
    if !range.start.is_multiple_of(size) {
        return Err(invalid("a range of named chunks begins where a chunk does"));
    }
    let chunks = (range.end - range.start).div_ceil(size);
    if chunks > NAMED_CHUNKS_MAX {
        let what = format!("one call names at most {NAMED_CHUNKS_MAX} chunks, not {chunks}");
        return Err(invalid(what));
    }
    let names = entries(&request.names, chunks)?;
    let old = match request.old.len() {
        0 => None,
        _ => Some(entries(&request.old, chunks)?),
    };
    Ok(NamedChunks {
        key: key.clone(),
        chunk: request.chunk,
        first: range.start / size,
        names,
        end: range.end,
        old,
        all: request.all,
    })
}

fn entries(names: &Bytes, chunks: u64) -> Result<Vec<Option<ChunkName>>, Failure> {
    let (all, rest) = names.as_chunks::<NAME_BYTES>();
    if all.len() as u64 != chunks || !rest.is_empty() {
        let what = format!(
            "{} bytes are not the names of {chunks} chunks, {NAME_BYTES} bytes each",
            names.len()
        );
        return Err(invalid(what));
    }
    let entry =
        |name: &[u8; NAME_BYTES]| (*name != [0; NAME_BYTES]).then(|| ChunkName::from_bytes(*name));
    Ok(all.iter().map(entry).collect())
}

/// A bit for each of these positions.
fn bits(positions: &[usize]) -> Bytes {
    let mut bits = vec![0_u8; positions.last().map_or(0, |last| last / 8 + 1)];
    for at in positions {
        bits[at / 8] |= 1 << (at % 8);
    }
    bits.into()
}
