//! A write: the stream is dealt out to the pieces as it arrives; credit goes back when the store has it.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use weft_layout::{CellIndex, CellOffset, Piece, Pieces};
use weft_net::Served;
use weft_proto::io::{WriteReply, WriteRequest};
use weft_proto::{Failure, Kind};
use weft_store::Write;

use super::{IoService, Job};
use crate::failure;
use crate::metrics::Stage;

/// Frames of one job that may be on their way into the store at once.
const DEPTH: usize = 4;

/// Deals a stream out to pieces.
struct Dealer {
    pieces: Pieces,
    rest: Option<Piece>,
    chunk: u32,
    /// Bytes may be touched twice, so what comes first goes first; else the disk's order is better.
    ordered: bool,
}

/// Bytes of a frame that lie in a row in a cell.
struct Dealt {
    cell: CellIndex,
    offset: u64,
    bytes: Range<usize>,
}

impl Dealer {
    /// The writes that these bytes, which follow those dealt before, amount to.
    fn deal(&mut self, job: &Job, data: &Bytes) -> Result<Vec<Write>, Failure> {
        let mut dealt: Vec<Dealt> = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let Some(piece) = self.rest.take().or_else(|| self.pieces.next()) else {
                return Err(failure::invalid(format!(
                    "the payload is {} bytes longer than the request's pieces",
                    data.len() - done
                )));
            };
            let taken = piece.length.min((data.len() - done) as u64);
            if taken < piece.length {
                self.rest = Some(Piece {
                    cell: piece.cell,
                    offset: CellOffset(piece.offset.0 + taken),
                    length: piece.length - taken,
                    memory: piece.memory + taken,
                });
            }
            let bytes = done..done + taken as usize;
            done = bytes.end;
            match dealt.last_mut() {
                Some(last)
                    if last.cell == piece.cell
                        && last.offset + last.bytes.len() as u64 == piece.offset.0 =>
                {
                    last.bytes.end = bytes.end;
                }
                _ => dealt.push(Dealt {
                    cell: piece.cell,
                    offset: piece.offset.0,
                    bytes,
                }),
            }
        }
        let place = |d: &Dealt| (d.cell, d.offset);
        if !self.ordered && !dealt.is_sorted_by_key(place) {
            dealt.sort_by_key(place);
        }
        let write = |d: Dealt| Write {
            key: job.key(d.cell),
            chunk: self.chunk,
            offset: CellOffset(d.offset),
            data: data.slice(d.bytes),
        };
        Ok(dealt.into_iter().map(write).collect())
    }

    fn finished(&mut self) -> bool {
        self.rest.is_none() && self.pieces.next().is_none()
    }
}

impl IoService {
    pub(super) async fn write(&self, mut call: Served) {
        let started = Instant::now();
        let result = match call.request::<WriteRequest>() {
            Ok(request) => self.receive(&request, &mut call).await,
            Err(e) => Err(failure::of_frame(&e)),
        };
        self.metrics
            .stage(Kind::Write, Stage::Total, started.elapsed());
        match result {
            Ok(bytes) => call.reply.done(&WriteReply { bytes }),
            Err(failure) => {
                tracing::debug!(client = call.peer.client, call = call.id, message = %failure.message, "write failed");
                call.reply.fail(&failure);
            }
        }
    }

    async fn receive(&self, request: &WriteRequest, call: &mut Served) -> Result<u64, Failure> {
        let job = self.job(&request.access)?.living()?;
        let _under_way = self.gates.enter(job.file).await;
        let mut dealer = Dealer {
            pieces: job.pieces()?,
            rest: None,
            chunk: request.chunk,
            ordered: request.ordered,
        };
        let now = self.now();
        // What comes later must stay, so nothing may overtake it.
        let depth = if request.ordered { 1 } else { DEPTH };
        let mut under_way = FuturesUnordered::new();
        let (mut bytes, mut disk) = (0, Duration::ZERO);
        loop {
            let arrived = tokio::select! {
                biased;
                Some(stored) = under_way.next() => {
                    let (result, took, len): (Result<(), _>, Duration, usize) = stored;
                    result.map_err(|e| failure::of_store(&e))?;
                    disk += took;
                    call.payload.release_chunk(len);
                    continue;
                }
                arrived = call.payload.next(), if under_way.len() < depth => arrived,
            };
            let Some(data) = arrived else { break };
            let len = data.len();
            bytes += len as u64;
            let writes = dealer.deal(&job, &data)?;
            let store = &self.store;
            under_way.push(async move {
                let started = Instant::now();
                (store.write(writes, now).await, started.elapsed(), len)
            });
        }
        while let Some((result, took, _)) = under_way.next().await {
            result.map_err(|e| failure::of_store(&e))?;
            disk += took;
        }
        if bytes != request.bytes || !dealer.finished() {
            return Err(failure::invalid(format!(
                "the payload ended after {bytes} of {} bytes; those were written",
                request.bytes
            )));
        }
        if request.sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        self.metrics.stage(Kind::Write, Stage::Disk, disk);
        Ok(bytes)
    }
}
