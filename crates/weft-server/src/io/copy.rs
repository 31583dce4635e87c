//! Copying between cells that both lie here: the bytes go from the store to the store and see no
//! wire.
//!
//! The pieces of the source and those of the target are the same stream of bytes cut in two ways;
//! cut in both they are pairs, and pairs that continue each other are put together, so that a long
//! copy reads and writes long. What the source has no data for becomes a hole of the target. Blocks
//! are read, checked and written anew: sharing them comes with checkpoints.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use weft_layout::{CellIndex, CellOffset, Piece, Pieces};
use weft_proto::Failure;
use weft_proto::io::{CopyRangeReply, CopyRangeRequest};
use weft_store::{ForkKey, StoreError, Timestamp, Write};

use super::{IoService, Job};
use crate::failure;

/// Bytes read and written at a time.
const WINDOW: u64 = 1 << 20;
/// Windows on their way at once, so that the disk reads one while it writes another.
const DEPTH: usize = 4;
/// Chunks that are looked at for data at a time.
const CHUNKS: usize = 1024;
/// Slices shorter than this are put together before they are written.
const SLICE_MIN: usize = 32 << 10;

/// Bytes of one source cell and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    from: (CellIndex, u64),
    to: (CellIndex, u64),
    length: u64,
}

impl Pair {
    fn continues(&self, last: &Pair) -> bool {
        let (from, to) = (last.from, last.to);
        self.from == (from.0, from.1 + last.length) && self.to == (to.0, to.1 + last.length)
    }
}

/// The pairs of two streams of pieces.
struct Pairs {
    from: (Pieces, Option<Piece>),
    to: (Pieces, Option<Piece>),
}

fn refill(side: &mut (Pieces, Option<Piece>)) -> Option<Piece> {
    side.1.take().or_else(|| side.0.next())
}

fn rest(piece: Piece, taken: u64) -> Option<Piece> {
    (taken < piece.length).then(|| Piece {
        offset: CellOffset(piece.offset.0 + taken),
        length: piece.length - taken,
        memory: piece.memory + taken,
        ..piece
    })
}

impl Iterator for Pairs {
    type Item = Result<Pair, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let (from, to) = match (refill(&mut self.from), refill(&mut self.to)) {
            (Some(from), Some(to)) => (from, to),
            (None, None) => return None,
            _ => {
                let what = "source and target of a copy have not as many bytes on this server";
                return Some(Err(failure::invalid(what)));
            }
        };
        let length = from.length.min(to.length);
        (self.from.1, self.to.1) = (rest(from, length), rest(to, length));
        Some(Ok(Pair {
            from: (from.cell, from.offset.0),
            to: (to.cell, to.offset.0),
            length,
        }))
    }
}

/// What a copy needs to know all the way.
struct Copy {
    from: Job,
    to: Job,
    chunk: u32,
    now: Timestamp,
}

impl Copy {
    /// The checkpoint that the bytes are of.
    fn kept(&self) -> Option<u64> {
        (self.from.checkpoint != 0).then_some(self.from.checkpoint)
    }
}

impl IoService {
    pub(super) async fn copy_range(
        &self,
        request: CopyRangeRequest,
    ) -> Result<CopyRangeReply, Failure> {
        let copy = Copy {
            from: self.job(&request.from)?,
            to: self.job(&request.to)?.living()?,
            chunk: request.chunk,
            now: self.now(),
        };
        let pairs = Pairs {
            from: (copy.from.pieces()?, None),
            to: (copy.to.pieces()?, None),
        };
        let _under_way = self.gates.enter(copy.to.file).await;
        self.may_grow(std::slice::from_ref(&copy.to)).await?;
        let mut open: BTreeMap<CellIndex, Pair> = BTreeMap::new();
        let mut bytes = 0;
        for pair in pairs {
            let pair = pair?;
            bytes += pair.length;
            match open.get_mut(&pair.from.0) {
                Some(last) if pair.continues(last) => last.length += pair.length,
                Some(last) => {
                    let done = std::mem::replace(last, pair);
                    self.copy_pair(&copy, done).await?;
                }
                None => {
                    open.insert(pair.from.0, pair);
                }
            }
        }
        for pair in open.into_values() {
            self.copy_pair(&copy, pair).await?;
        }
        Ok(CopyRangeReply { bytes })
    }

    async fn copy_pair(&self, copy: &Copy, pair: Pair) -> Result<(), Failure> {
        let (source, target) = (copy.from.key(pair.from.0), copy.to.key(pair.to.0));
        let end = pair.from.1 + pair.length;
        // From a place in the source to its place in the target.
        let there = |at: u64| at - pair.from.1 + pair.to.1;
        let mut at = pair.from.1;
        while at < end {
            let found = self
                .store
                .data_runs(&source, copy.kept(), CellOffset(at), CHUNKS);
            let found = found.await;
            let found = found.map_err(|e| failure::of_store(&e))?;
            let reached = found.next.map_or(end, |next| next.0.min(end));
            for run in found.runs {
                let data = run.start.min(reached)..run.end.min(reached);
                self.hole(copy, &target, there(at)..there(data.start))
                    .await?;
                self.copy_data(copy, &source, &target, data.clone(), there(data.start))
                    .await?;
                at = data.end;
            }
            self.hole(copy, &target, there(at)..there(reached)).await?;
            at = reached;
        }
        let extended = self
            .store
            .extend(&target, copy.chunk, there(end), copy.now)
            .await;
        extended.map_err(|e| failure::of_store(&e))
    }

    async fn hole(&self, copy: &Copy, target: &ForkKey, range: Range<u64>) -> Result<(), Failure> {
        if range.is_empty() {
            return Ok(());
        }
        self.clear(&[(target.clone(), range)], copy.now).await
    }

    /// Copies bytes that the source has; those that were cut off meanwhile are zeros of the target.
    async fn copy_data(
        &self,
        copy: &Copy,
        source: &ForkKey,
        target: &ForkKey,
        data: Range<u64>,
        to: u64,
    ) -> Result<(), Failure> {
        let (mut at, mut under_way) = (data.start, FuturesUnordered::new());
        loop {
            while at < data.end && under_way.len() < DEPTH {
                let to = to + (at - data.start);
                // Windows end where blocks of the target do.
                let window = at..data.end.min(at + WINDOW - to % WINDOW);
                at = window.end;
                under_way.push(self.copy_window(copy, source, target, window, to));
            }
            match under_way.next().await {
                Some(done) => done.map_err(|e| failure::of_store(&e))?,
                None => return Ok(()),
            }
        }
    }

    async fn copy_window(
        &self,
        copy: &Copy,
        source: &ForkKey,
        target: &ForkKey,
        window: Range<u64>,
        mut to: u64,
    ) -> Result<(), StoreError> {
        let length = window.end - window.start;
        let at = CellOffset(window.start);
        let slices = match copy.kept() {
            None => self.store.read(source, at, length).await?,
            Some(number) => {
                self.store
                    .read_checkpoint(source, number, at, length)
                    .await?
            }
        };
        let read: usize = slices.iter().map(Bytes::len).sum();
        let mut writes = Vec::new();
        for data in long(slices, read) {
            let length = data.len() as u64;
            writes.push(Write {
                key: target.clone(),
                chunk: copy.chunk,
                offset: CellOffset(to),
                data,
            });
            to += length;
        }
        self.store.write(writes, copy.now).await?;
        let missing = length - read as u64;
        if missing > 0 {
            let range = to..to + missing;
            self.store
                .clear(&[(target.clone(), range)], copy.now)
                .await?;
        }
        Ok(())
    }
}

/// The slices as they are, if all but the last are long; else their bytes in one.
fn long(slices: Vec<Bytes>, bytes: usize) -> Vec<Bytes> {
    let front = slices.len().saturating_sub(1);
    if slices[..front].iter().all(|s| s.len() >= SLICE_MIN) {
        return slices;
    }
    let mut one = BytesMut::with_capacity(bytes);
    for slice in slices {
        one.extend_from_slice(&slice);
    }
    vec![one.freeze()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::{Grid, Map, Request, ServerSlot, View, ViewOffset};

    fn pieces(offset: u64, length: u64, slot: u32) -> (Pieces, Option<Piece>) {
        let map = Map::new(Grid::new(4, 10, 2).unwrap(), View::canonical()).unwrap();
        let request = Request::Contiguous {
            offset: ViewOffset(offset),
            length,
        };
        (map.pieces(&request, ServerSlot(slot)).unwrap(), None)
    }

    #[test]
    fn pairs_are_the_streams_cut_in_both_ways() {
        // Twenty bytes later and one BSU on: cells 0, 2 meet cells 2, 0.
        let pairs = Pairs {
            from: pieces(5, 40, 0),
            to: pieces(25, 40, 0),
        };
        let pairs: Vec<Pair> = pairs.map(Result::unwrap).collect();
        let pair = |from: (u32, u64), to: (u32, u64), length| Pair {
            from: (CellIndex(from.0), from.1),
            to: (CellIndex(to.0), to.1),
            length,
        };
        assert_eq!(
            pairs,
            [
                pair((0, 5), (2, 5), 5),
                pair((2, 0), (0, 10), 10),
                pair((0, 10), (2, 10), 5),
            ]
        );
    }

    #[test]
    fn streams_of_unequal_length_are_refused() {
        let mut pairs = Pairs {
            from: pieces(0, 40, 0),
            to: pieces(0, 20, 0),
        };
        assert!(pairs.any(|pair| pair.is_err()));
    }
}
