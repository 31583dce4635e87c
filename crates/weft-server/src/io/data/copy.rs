//! Copies between cells that are both on this server: the bytes go from store to store without a
//! wire.
//!
//! The pieces of source and target are the same stream of bytes, split in two ways. Split in both
//! ways they form pairs, and adjacent pairs are joined, so that a long copy reads and writes long.
//! Ranges without data become holes of the target. Blocks are read, verified and written anew, not
//! shared.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use weft_layout::{CellIndex, CellOffset, Piece, Pieces};
use weft_proto::Failure;
use weft_proto::io::{CopyRangeReply, CopyRangeRequest};
use weft_store::{ForkKey, StoreError, Timestamp, Write};

use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::sharers::Change;
use crate::limits::{COPY_DEPTH, COPY_SEARCH_CHUNKS, COPY_SLICE_MIN, COPY_WINDOW_BYTES};

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

/// Pairs the bytes of two streams of pieces.
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
                let what = "source and target of a copy do not have the same number of bytes on this server";
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

/// The parameters of one copy.
struct Copy<'a> {
    from: Job,
    to: Job,
    chunk: u32,
    now: Timestamp,
    /// What the client's jobs may hold in memory.
    budget: &'a Semaphore,
}

impl IoService {
    pub(in crate::io) async fn copy_range(
        &self,
        request: CopyRangeRequest,
        budget: &Semaphore,
    ) -> Result<CopyRangeReply, Failure> {
        let copy = Copy {
            from: self.job(&request.from)?,
            to: self.job(&request.to)?.writable()?,
            chunk: request.chunk,
            now: self.now(),
            budget,
        };
        let pairs = Pairs {
            from: (copy.from.pieces()?, None),
            to: (copy.to.pieces()?, None),
        };
        let _gate = self.gates.enter(copy.to.file).await;
        self.may_grow(std::slice::from_ref(&copy.to)).await?;
        let copied = self.copy_pairs(&copy, pairs).await;
        self.tell_sharers(copy.to.file, Change::All).await;
        copied
    }

    async fn copy_pairs(&self, copy: &Copy<'_>, pairs: Pairs) -> Result<CopyRangeReply, Failure> {
        let mut open: BTreeMap<CellIndex, Pair> = BTreeMap::new();
        let mut bytes = 0;
        for pair in pairs {
            let pair = pair?;
            bytes += pair.length;
            match open.get_mut(&pair.from.0) {
                Some(last) if pair.continues(last) => last.length += pair.length,
                Some(last) => {
                    let done = std::mem::replace(last, pair);
                    self.copy_pair(copy, done).await?;
                }
                None => {
                    open.insert(pair.from.0, pair);
                }
            }
        }
        for pair in open.into_values() {
            self.copy_pair(copy, pair).await?;
        }
        Ok(CopyRangeReply { bytes })
    }

    async fn copy_pair(&self, copy: &Copy<'_>, pair: Pair) -> Result<(), Failure> {
        let (source, target) = (copy.from.key(pair.from.0), copy.to.key(pair.to.0));
        let end = pair.from.1 + pair.length;
        // Translates an offset in the source to one in the target.
        let there = |at: u64| at - pair.from.1 + pair.to.1;
        let mut at = pair.from.1;
        while at < end {
            let found = self.store.data_runs(
                &source,
                copy.from.checkpoint,
                CellOffset(at),
                COPY_SEARCH_CHUNKS,
            );
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

    async fn hole(
        &self,
        copy: &Copy<'_>,
        target: &ForkKey,
        range: Range<u64>,
    ) -> Result<(), Failure> {
        if range.is_empty() {
            return Ok(());
        }
        self.clear(&[(target.clone(), range)], copy.now).await
    }

    /// Copies data of the source; bytes that were truncated meanwhile become zeros.
    async fn copy_data(
        &self,
        copy: &Copy<'_>,
        source: &ForkKey,
        target: &ForkKey,
        data: Range<u64>,
        to: u64,
    ) -> Result<(), Failure> {
        let (mut at, mut in_flight) = (data.start, FuturesUnordered::new());
        loop {
            while at < data.end && in_flight.len() < COPY_DEPTH {
                let to = to + (at - data.start);
                // Windows end at block boundaries of the target.
                let window = at..data
                    .end
                    .min(at + COPY_WINDOW_BYTES - to % COPY_WINDOW_BYTES);
                at = window.end;
                in_flight.push(self.copy_window(copy, source, target, window, to));
            }
            match in_flight.next().await {
                Some(done) => done.map_err(|e| failure::of_store(&e))?,
                None => return Ok(()),
            }
        }
    }

    async fn copy_window(
        &self,
        copy: &Copy<'_>,
        source: &ForkKey,
        target: &ForkKey,
        window: Range<u64>,
        mut to: u64,
    ) -> Result<(), StoreError> {
        let length = window.end - window.start;
        let at = CellOffset(window.start);
        // The semaphore is never closed; without a permit only the bound would be softer.
        let _budget = copy.budget.acquire_many(length as u32).await.ok();
        let slices = match copy.from.checkpoint {
            None => self.store.read(source, at, length).await?,
            Some(number) => {
                self.store
                    .read_checkpoint(source, number, at, length)
                    .await?
            }
        };
        let read: usize = slices.iter().map(Bytes::len).sum();
        let mut writes = Vec::new();
        for data in coalesce(slices, read) {
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

/// Copies the slices into one, unless all but the last are long.
fn coalesce(slices: Vec<Bytes>, bytes: usize) -> Vec<Bytes> {
    let front = slices.len().saturating_sub(1);
    if slices[..front].iter().all(|s| s.len() >= COPY_SLICE_MIN) {
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
    fn copy_pairs_end_where_a_piece_of_either_stream_ends() {
        // The target is twenty bytes, so two BSUs, further on: cells 0, 2 pair with cells 2, 0.
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
