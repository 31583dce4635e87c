//! A batch's writes to one addressed fork, divided among its chunks.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weft_layout::{ADDRESSED_BIT, ChunkCode};

use crate::forks::by_chunk;
use crate::key::{ForkKey, Scattered};

/// What is written into one fork.
pub(super) struct ForkPatch {
    pub(super) key: ForkKey,
    pub(super) chunk: ChunkCode,
    /// The least length of the fork afterwards.
    pub(super) end: u64,
    data: Vec<Bytes>,
    chunks: BTreeMap<u64, Vec<Piece>>,
}

/// Bytes of one chunk. Of pieces that overlap, the later one wins.
#[derive(Clone, Copy)]
struct Piece {
    within: u32,
    length: u32,
    source: Source,
}

/// Where they come from.
#[derive(Clone, Copy)]
enum Source {
    /// The number of the write's data, and the offset there.
    Data(u32, usize),
    Zeros,
}

impl ForkPatch {
    pub(super) fn new(key: ForkKey, chunk: ChunkCode) -> Self {
        Self {
            key,
            chunk,
            end: 0,
            data: Vec::new(),
            chunks: BTreeMap::new(),
        }
    }

    /// The patches of all forks that writes touch, in the order in which they are touched first.
    pub(super) fn all_of(writes: Vec<Scattered>) -> Vec<ForkPatch> {
        let mut patches: Vec<ForkPatch> = Vec::new();
        for w in writes {
            let known = patches.iter_mut().rev().find(|patch| patch.key == w.key);
            if let Some(patch) = known {
                patch.add(w);
                continue;
            }
            let mut patch = ForkPatch::new(w.key.clone(), w.chunk);
            patch.add(w);
            patches.push(patch);
        }
        patches
    }

    fn add(&mut self, write: Scattered) {
        let data = self.data.len() as u32;
        for run in &write.runs {
            let (mut offset, mut at) = (run.offset.0, run.at);
            for _ in 0..run.count {
                self.add_range(offset..offset + run.length, |done| {
                    Source::Data(data, at + done as usize)
                });
                at += run.length as usize;
                offset += run.stride;
            }
            self.end = self.end.max(run.end());
        }
        self.data.push(write.data);
    }

    /// Zeros for a range, without growth.
    pub(super) fn add_zeros(&mut self, range: Range<u64>) {
        self.add_range(range, |_| Source::Zeros);
    }

    fn add_range(&mut self, range: Range<u64>, source: impl Fn(u64) -> Source) {
        let mut done = 0;
        for part in by_chunk(self.size(), range.start, range.end - range.start) {
            let length = part.bytes.end - part.bytes.start;
            self.chunks.entry(part.chunk).or_default().push(Piece {
                within: part.bytes.start,
                length,
                source: source(done),
            });
            done += u64::from(length);
        }
    }

    /// The size of a chunk.
    pub(super) fn size(&self) -> u32 {
        self.chunk & !ADDRESSED_BIT
    }

    /// The chunks that are touched, ascending.
    pub(super) fn chunks(&self) -> impl Iterator<Item = u64> {
        self.chunks.keys().copied()
    }

    /// Whether nothing of the chunk's earlier contents stays.
    pub(super) fn covers(&self, chunk: u64) -> bool {
        let mut end = 0;
        for piece in self.chunks.get(&chunk).into_iter().flatten() {
            if piece.within > end {
                return false;
            }
            end = end.max(piece.within + piece.length);
        }
        end == self.size()
    }

    /// The contents of a chunk, without the zeros at their end, of its earlier contents and the
    /// pieces. Not copied if one piece has all of it.
    pub(super) fn contents(&self, chunk: u64, base: &[Bytes]) -> Bytes {
        let pieces = self.chunks.get(&chunk).map_or(&[][..], Vec::as_slice);
        if let [piece] = pieces
            && let Source::Data(data, at) = piece.source
            && piece.within == 0
            && (base.is_empty() || piece.length == self.size())
        {
            let data = &self.data[data as usize];
            return without_zeros(&data.slice(at..at + piece.length as usize));
        }
        let old: usize = base.iter().map(Bytes::len).sum();
        let ends = pieces
            .iter()
            .map(|piece| (piece.within + piece.length) as usize);
        let length = ends.max().unwrap_or(0).max(old);
        let mut bytes = BytesMut::with_capacity(length);
        for part in base {
            bytes.extend_from_slice(part);
        }
        bytes.resize(length, 0);
        for piece in pieces {
            let to = &mut bytes[piece.within as usize..][..piece.length as usize];
            match piece.source {
                Source::Zeros => to.fill(0),
                Source::Data(data, at) => {
                    to.copy_from_slice(&self.data[data as usize][at..at + piece.length as usize]);
                }
            }
        }
        without_zeros(&bytes.freeze())
    }
}

/// Bytes up to the last one that is not 0.
fn without_zeros(bytes: &Bytes) -> Bytes {
    bytes.slice(..weft_sum::without_zeros(bytes))
}
