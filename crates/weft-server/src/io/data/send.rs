//! Copies to cells on other servers: the bytes go from server to server, not through a client.
//!
//! A source range in canonical order is one range of each cell, which is read in long windows. The
//! bytes of a window for one server go there as one ordinary write, whose request lists their
//! places in the target. So the receiver needs no code for copies: growth limits, checkpoints and
//! checksums are those of any write.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use weft_layout::{
    CellOffset, FileOffset, Grid, OFFSET_MAX, Pattern as Shape, Request, ServerId, ServerSlot,
    View, ViewOffset,
};
use weft_net::Caller;
use weft_proto::io::{Access, Pattern, SendRangeReply, SendRangeRequest, WriteRequest};
use weft_proto::stamp::{Position, ServerPosition};
use weft_proto::{Code, Failure, limits};
use weft_store::ForkKey;

use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::peers::failure as failure_at;
use crate::limits::{SEND_DEPTH, SEND_SLICE_MIN, SEND_WINDOW_BYTES, SEND_WINDOW_UNITS};

/// Where the bytes go.
struct SendTarget<'a> {
    grid: Grid,
    access: &'a Access,
    chunk: u32,
    /// By slot.
    servers: &'a [u32],
    /// Where the range begins in the source.
    source_start: u64,
    /// Where it begins in the target.
    target_start: u64,
}

/// The client that asks for a copy, and its budget.
pub(in crate::io) struct SendClient {
    budget: Arc<Semaphore>,
    caller: Caller,
}

impl SendClient {
    pub(in crate::io) fn new(budget: Arc<Semaphore>, caller: Caller) -> SendClient {
        SendClient { budget, caller }
    }

    /// Takes this many bytes of the budget.
    ///
    /// # Errors
    /// [`Code::Cancelled`] when the caller is gone.
    async fn reserve(&self, bytes: u64) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        // The semaphore is never closed; without a permit only the bound would be softer.
        let permit = self.budget.acquire_many(bytes as u32).await.ok();
        if self.caller.gone() {
            let what = "the caller of the copy is gone";
            return Err(Failure::new(Code::Cancelled, what));
        }
        Ok(permit)
    }
}

/// What one server gets of a window.
#[derive(Default)]
struct ServerShare {
    /// Offset and length of its runs in the target, ascending.
    runs: Vec<(u64, u64)>,
    bytes: u64,
    slices: Vec<Bytes>,
}

impl IoService {
    pub(in crate::io) async fn send_range(
        &self,
        request: SendRangeRequest,
        client: &SendClient,
    ) -> Result<SendRangeReply, Failure> {
        // Whether the target is lost is for its servers to check.
        let (from, to) = (
            self.job(&request.from)?,
            self.job_of_any(&request.to)?.writable()?,
        );
        let (start, length) = in_canonical_order(&from)?;
        let (there, as_long) = in_canonical_order(&to)?;
        let grid = *to.map.grid();
        if length != as_long || request.servers.len() != grid.servers() as usize {
            let what = "source and target of a copy differ in length, or the target's servers are not all named";
            return Err(failure::invalid(what));
        }
        let target = SendTarget {
            grid,
            access: &request.to,
            chunk: request.chunk,
            servers: &request.servers,
            source_start: start,
            target_start: there,
        };
        let ranges = from.computed_ranges().unwrap_or_default();
        let bytes: u64 = ranges.iter().map(|(_, r)| r.end - r.start).sum();
        if bytes > limits::TRANSFER_MAX {
            let what = format!(
                "one call sends at most {} bytes; this server has {bytes} of the range",
                limits::TRANSFER_MAX
            );
            return Err(failure::invalid(what));
        }
        let windows = windows(ranges, from.map.grid().bsu().min(grid.bsu()));
        let (failed, written) = (Mutex::new(None), Mutex::new(BTreeMap::new()));
        // After a failure the client copies the rest itself, so no write of this call may follow
        // the reply: all windows in flight are awaited.
        let sent = stream::iter(windows).for_each_concurrent(SEND_DEPTH, |(key, window)| {
            let (from, target, failed, written) = (&from, &target, &failed, &written);
            async move {
                if failed.lock().is_some() {
                    return;
                }
                let sent = self.send_window(from, target, client, key, window);
                match sent.await {
                    Ok(all) => all.into_iter().for_each(|at| note(&mut written.lock(), at)),
                    Err(failure) => drop(failed.lock().get_or_insert(failure)),
                }
            }
        });
        sent.await;
        if let Some(failure) = failed.into_inner() {
            return Err(failure);
        }
        let written = written.into_inner().into_iter();
        let at = |((server, incarnation), sequence)| ServerPosition {
            server,
            at: Position {
                incarnation,
                sequence,
            },
        };
        Ok(SendRangeReply {
            bytes,
            written: written.map(at).collect(),
        })
    }

    async fn send_window(
        &self,
        from: &Job,
        target: &SendTarget<'_>,
        client: &SendClient,
        key: ForkKey,
        window: Range<u64>,
    ) -> Result<Vec<ServerPosition>, Failure> {
        let _budget = client.reserve(window.end - window.start).await?;
        let (at, length) = (CellOffset(window.start), window.end - window.start);
        let slices = match from.checkpoint {
            None => self.store.read(&key, at, length).await,
            Some(number) => self.store.read_checkpoint(&key, number, at, length).await,
        };
        let slices = slices.map_err(|e| failure::of_store(&e))?;
        let shares = target.divide(from.map.grid(), &key, window, slices)?;
        let sends = shares
            .into_iter()
            .map(|(slot, share)| self.send_share(target, slot, share));
        let sent: Result<Vec<_>, Failure> = join_all(sends).await.into_iter().collect();
        Ok(sent?.into_iter().flatten().collect())
    }

    async fn send_share(
        &self,
        target: &SendTarget<'_>,
        slot: ServerSlot,
        share: ServerShare,
    ) -> Result<Option<ServerPosition>, Failure> {
        let server = ServerId(target.servers[slot.0 as usize]);
        let base = share.runs[0].0;
        let list = share
            .runs
            .iter()
            .map(|(at, n)| ((at - base).cast_signed(), *n));
        let request = Request::new(ViewOffset(base), &Shape::list(list));
        let request = request.map_err(|e| failure::invalid(e.to_string()))?;
        let write = WriteRequest {
            access: Access {
                pattern: Pattern::from_request(&request, true)
                    .map_err(|e| failure::of_convert(&e))?,
                slot: slot.0,
                ..target.access.clone()
            },
            chunk: target.chunk,
            bytes: share.bytes,
            ..WriteRequest::default()
        };
        let connection = self.peers.connection(server).await?;
        let written = async {
            let outgoing = connection
                .send(&write, coalesce(share.slices), true)
                .await?;
            outgoing.stamped_reply().await
        };
        let (written, stamp) = written.await.map_err(|e| failure_at(server, &e))?;
        if written.bytes != share.bytes {
            let what = format!(
                "server {server} wrote {} of {} bytes",
                written.bytes, share.bytes
            );
            return Err(Failure::new(Code::Internal, what));
        }
        let server = server.0;
        Ok(stamp.changed.map(|at| ServerPosition { server, at }))
    }
}

/// Splits ranges into windows; `unit` is the smaller BSU of source and target.
fn windows(
    ranges: Vec<(ForkKey, Range<u64>)>,
    unit: u64,
) -> impl Iterator<Item = (ForkKey, Range<u64>)> {
    let long = SEND_WINDOW_BYTES.min(unit.saturating_mul(SEND_WINDOW_UNITS));
    ranges.into_iter().flat_map(move |(key, range)| {
        let first = range.start / long;
        (first..range.end.div_ceil(long)).map(move |n| {
            let window = range.start.max(n * long)..range.end.min((n + 1) * long);
            (key.clone(), window)
        })
    })
}

/// Keeps the last position of each server and incarnation.
fn note(written: &mut BTreeMap<(u32, u64), u64>, at: ServerPosition) {
    let last = written.entry((at.server, at.at.incarnation)).or_default();
    *last = (*last).max(at.at.sequence);
}

impl SendTarget<'_> {
    /// What each slot gets of a window of a cell; zeros where the cell was truncated meanwhile.
    fn divide(
        &self,
        source: &Grid,
        key: &ForkKey,
        window: Range<u64>,
        slices: Vec<Bytes>,
    ) -> Result<BTreeMap<ServerSlot, ServerShare>, Failure> {
        let read: u64 = slices.iter().map(|s| s.len() as u64).sum();
        let missing = (window.end - window.start).saturating_sub(read);
        let mut slices = slices
            .into_iter()
            .chain((missing > 0).then(|| Bytes::from(vec![0; missing as usize])));
        let mut slice = Bytes::new();
        let mut shares: BTreeMap<ServerSlot, ServerShare> = BTreeMap::new();
        let mut at = window.start;
        while at < window.end {
            let placed = source.canonical(key.cell, CellOffset(at));
            let placed = placed.map_err(|e| failure::of_map(&e))?.0;
            let there = placed - self.source_start + self.target_start;
            let cell = self.grid.locate(FileOffset(there));
            let (cell, _) = cell.map_err(|e| failure::of_map(&e))?;
            // Up to the end of the BSU in source or target.
            let rest = |grid: &Grid, at: u64| grid.bsu() - at % grid.bsu();
            let mut left = (window.end - at)
                .min(rest(source, at))
                .min(rest(&self.grid, there));
            at += left;
            let share = shares.entry(self.grid.slot_of(cell)).or_default();
            match share.runs.last_mut() {
                Some((start, length)) if *start + *length == there => *length += left,
                _ => share.runs.push((there, left)),
            }
            share.bytes += left;
            while left > 0 {
                if slice.is_empty() {
                    slice = slices.next().unwrap_or_default();
                }
                let now = slice.split_to(slice.len().min(left as usize));
                left -= now.len() as u64;
                share.slices.push(now);
            }
        }
        Ok(shares)
    }
}

/// Copies the slices into one, unless they are long on average.
fn coalesce(slices: Vec<Bytes>) -> Vec<Bytes> {
    let bytes: usize = slices.iter().map(Bytes::len).sum();
    if bytes >= slices.len() * SEND_SLICE_MIN {
        return slices;
    }
    let mut one = BytesMut::with_capacity(bytes);
    for slice in slices {
        one.extend_from_slice(&slice);
    }
    vec![one.freeze()]
}

/// Offset and length of a contiguous request in canonical order.
fn in_canonical_order(job: &Job) -> Result<(u64, u64), Failure> {
    let legal = |offset: u64, length: u64| {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= OFFSET_MAX)
    };
    match job.request {
        Request::Contiguous { offset, length }
            if *job.map.view() == View::canonical() && legal(offset.0, length) =>
        {
            Ok((offset.0, length))
        }
        _ => {
            let what = "only a contiguous range in canonical order, within the size limit of files, can be sent to other servers";
            Err(failure::invalid(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::{CellIndex, FileId, Map};
    use weft_store::ForkName;

    /// Cell 1 of three, BSUs of 4, to two cells with BSUs of 6, five bytes further on.
    #[test]
    fn a_window_is_divided_among_its_target_servers() {
        let (source, grid) = (Grid::new(3, 4, 3).unwrap(), Grid::new(2, 6, 2).unwrap());
        let target = SendTarget {
            grid,
            access: &Access::default(),
            chunk: 4096,
            servers: &[7, 8],
            source_start: 6,
            target_start: 11,
        };
        let key = ForkKey {
            file: FileId(1),
            cell: CellIndex(1),
            fork: ForkName::data(),
        };
        // Its bytes 2 to 9 are the file's 6, 7, 16 to 19 and 28; the last two were
        // truncated since.
        let slices = vec![Bytes::from_static(b"ab"), Bytes::from_static(b"cde")];
        let shares = target.divide(&source, &key, 2..9, slices).unwrap();
        let of = |slot| {
            let share: &ServerShare = &shares[&ServerSlot(slot)];
            let bytes = share.slices.concat();
            assert_eq!(share.bytes, bytes.len() as u64);
            (share.runs.clone(), bytes)
        };
        // 11, 12, 21 to 24, 33: of each twelve, the first six are of one cell.
        assert_eq!(of(0), (vec![(12, 1), (24, 1)], b"b\0".to_vec()));
        assert_eq!(of(1), (vec![(11, 1), (21, 3), (33, 1)], b"acde\0".to_vec()));
    }

    #[test]
    fn ranges_beyond_the_size_limit_or_not_in_canonical_order_are_refused() {
        let job = |view, offset, length| Job {
            map: Map::new(Grid::new(3, 4, 3).unwrap(), view).unwrap(),
            request: Request::Contiguous {
                offset: ViewOffset(offset),
                length,
            },
            slot: ServerSlot(0),
            file: FileId(1),
            fork: ForkName::data(),
            checkpoint: None,
        };
        let canonical = View::canonical();
        let legal = in_canonical_order(&job(canonical, OFFSET_MAX - 5, 5));
        assert_eq!(legal.unwrap(), (OFFSET_MAX - 5, 5));
        for (view, offset, length) in [
            (canonical, OFFSET_MAX - 5, 6),
            (canonical, u64::MAX - 3, 100),
            (canonical, 0, u64::MAX),
            (View::Cell(CellIndex(1)), 0, 10),
        ] {
            let refused = in_canonical_order(&job(view, offset, length));
            assert_eq!(refused.unwrap_err().code(), Code::Invalid);
        }
    }
}
