//! Copying to cells that lie on other servers: the bytes go from server to server, and no client
//! carries them.
//!
//! A range of the source in canonical order is one range of each cell, which is read in long
//! windows; what a window holds for one server goes there as one ordinary write whose request lists
//! where its bytes are in the target. So the other side needs to know nothing of copies: limits of
//! growth, checkpoints and checksums are those of any write.

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

use super::peers::failure as failure_at;
use super::{CLIENT_BUDGET, IoService, Job};
use crate::failure;

/// Bytes read at a time, at most: a client's budget has several.
const WINDOW: u64 = 2 << 20;
const _: () = assert!(CLIENT_BUDGET >= 2 * WINDOW as usize);
/// Units of source or target in a window, at most: what one write lists is bounded.
const UNITS: u64 = 16 << 10;
/// Windows of one call on their way at once, as far as its client's budget allows.
const DEPTH: usize = 4;
/// Slices shorter than this are put together before they are sent.
const SLICE_MIN: usize = 16 << 10;

/// Where the bytes go.
struct Target<'a> {
    grid: Grid,
    access: &'a Access,
    chunk: u32,
    /// By slot.
    servers: &'a [u32],
    /// Where the range begins in the source, and where here.
    begins: (u64, u64),
}

/// For whom it is done.
pub(super) struct Sender {
    budget: Arc<Semaphore>,
    caller: Caller,
}

impl Sender {
    pub(super) fn new(budget: Arc<Semaphore>, caller: Caller) -> Sender {
        Sender { budget, caller }
    }

    /// Room for so many bytes, unless nobody waits for them any more.
    async fn room(&self, bytes: u64) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        // The semaphore is never closed; without a permit the bound would only be softer.
        let room = self.budget.acquire_many(bytes as u32).await.ok();
        if self.caller.gone() {
            let what = "its caller does not wait for the copy any more";
            return Err(Failure::new(Code::Cancelled, what));
        }
        Ok(room)
    }
}

/// What one server is sent of a window.
#[derive(Default)]
struct Share {
    /// Where its bytes go, ascending, and how many.
    runs: Vec<(u64, u64)>,
    bytes: u64,
    slices: Vec<Bytes>,
}

impl IoService {
    pub(super) async fn send_range(
        &self,
        request: SendRangeRequest,
        sender: &Sender,
    ) -> Result<SendRangeReply, Failure> {
        // What is held of the target is the business of its servers.
        let (from, to) = (
            self.job(&request.from)?,
            self.job_of_any(&request.to)?.living()?,
        );
        let (start, length) = in_canonical_order(&from)?;
        let (there, as_long) = in_canonical_order(&to)?;
        let grid = *to.map.grid();
        if length != as_long || request.servers.len() != grid.servers() as usize {
            let what =
                "source and target of a copy are not equally long, or not all servers are named";
            return Err(failure::invalid(what));
        }
        let target = Target {
            grid,
            access: &request.to,
            chunk: request.chunk,
            servers: &request.servers,
            begins: (start, there),
        };
        let ranges = from.worked_out().unwrap_or_default();
        let bytes: u64 = ranges.iter().map(|(_, r)| r.end - r.start).sum();
        if bytes > limits::TRANSFER_MAX {
            let what = format!(
                "one call sends at most {} bytes; this server has {bytes} of the range",
                limits::TRANSFER_MAX
            );
            return Err(failure::invalid(what));
        }
        let unit = from.map.grid().bsu().min(grid.bsu());
        let long = WINDOW.min(unit.saturating_mul(UNITS));
        let windows = ranges.into_iter().flat_map(|(key, range)| {
            let first = range.start / long;
            (first..range.end.div_ceil(long)).map(move |n| {
                let window = range.start.max(n * long)..range.end.min((n + 1) * long);
                (key.clone(), window)
            })
        });
        let (failed, written) = (Mutex::new(None), Mutex::new(BTreeMap::new()));
        // Who hears of a failure does what is missing by himself: nothing of this may come later.
        let sent = stream::iter(windows).for_each_concurrent(DEPTH, |(key, window)| {
            let (from, target, failed, written) = (&from, &target, &failed, &written);
            async move {
                if failed.lock().is_some() {
                    return;
                }
                let sent = self.send_window(from, target, sender, key, window);
                match sent.await {
                    Ok(all) => all.into_iter().for_each(|at| note(&mut written.lock(), at)),
                    Err(failure) => drop(failed.lock().get_or_insert(failure)),
                }
            }
        });
        sent.await;
        match failed.into_inner() {
            None => {
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
            Some(failure) => Err(failure),
        }
    }

    async fn send_window(
        &self,
        from: &Job,
        target: &Target<'_>,
        sender: &Sender,
        key: ForkKey,
        window: Range<u64>,
    ) -> Result<Vec<ServerPosition>, Failure> {
        let _room = sender.room(window.end - window.start).await?;
        let (at, length) = (CellOffset(window.start), window.end - window.start);
        let slices = match from.checkpoint {
            0 => self.store.read(&key, at, length).await,
            number => self.store.read_checkpoint(&key, number, at, length).await,
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
        target: &Target<'_>,
        slot: ServerSlot,
        share: Share,
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
            let outgoing = connection.send(&write, long(share.slices), true).await?;
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

/// Keeps the last of a server's positions under each of its incarnations.
fn note(written: &mut BTreeMap<(u32, u64), u64>, at: ServerPosition) {
    let last = written.entry((at.server, at.at.incarnation)).or_default();
    *last = (*last).max(at.at.sequence);
}

impl Target<'_> {
    /// What each slot gets of a window of a cell; zeros where the cell has ended meanwhile.
    fn divide(
        &self,
        source: &Grid,
        key: &ForkKey,
        window: Range<u64>,
        slices: Vec<Bytes>,
    ) -> Result<BTreeMap<ServerSlot, Share>, Failure> {
        let read: u64 = slices.iter().map(|s| s.len() as u64).sum();
        let missing = (window.end - window.start).saturating_sub(read);
        let mut slices = slices
            .into_iter()
            .chain((missing > 0).then(|| Bytes::from(vec![0; missing as usize])));
        let mut slice = Bytes::new();
        let mut shares: BTreeMap<ServerSlot, Share> = BTreeMap::new();
        let mut at = window.start;
        while at < window.end {
            let placed = source.canonical(key.cell, CellOffset(at));
            let placed = placed.map_err(|e| failure::of_map(&e))?.0;
            let there = placed - self.begins.0 + self.begins.1;
            let cell = self.grid.locate(FileOffset(there));
            let (cell, _) = cell.map_err(|e| failure::of_map(&e))?;
            // To where the BSU ends, here or there.
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

/// The slices as they are, if they are long; else their bytes in one.
fn long(slices: Vec<Bytes>) -> Vec<Bytes> {
    let bytes: usize = slices.iter().map(Bytes::len).sum();
    if bytes >= slices.len() * SLICE_MIN {
        return slices;
    }
    let mut one = BytesMut::with_capacity(bytes);
    for slice in slices {
        one.extend_from_slice(&slice);
    }
    vec![one.freeze()]
}

/// Where a contiguous request in canonical order begins, and its length.
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
            let what = "what is sent to other servers is contiguous, in canonical order, and ends where files may";
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
    fn a_window_is_divided_among_the_servers_that_it_goes_to() {
        let (source, grid) = (Grid::new(3, 4, 3).unwrap(), Grid::new(2, 6, 2).unwrap());
        let target = Target {
            grid,
            access: &Access::default(),
            chunk: 4096,
            servers: &[7, 8],
            begins: (6, 11),
        };
        let key = ForkKey {
            file: FileId(1),
            cell: CellIndex(1),
            fork: ForkName::data(),
        };
        // Its bytes 2 to 9 are the file's 6, 7, 16 to 19 and 28; the last two were cut off
        // meanwhile.
        let slices = vec![Bytes::from_static(b"ab"), Bytes::from_static(b"cde")];
        let shares = target.divide(&source, &key, 2..9, slices).unwrap();
        let of = |slot| {
            let share: &Share = &shares[&ServerSlot(slot)];
            let bytes = share.slices.concat();
            assert_eq!(share.bytes, bytes.len() as u64);
            (share.runs.clone(), bytes)
        };
        // 11, 12, 21 to 24, 33: of each twelve, the first six are of one cell.
        assert_eq!(of(0), (vec![(12, 1), (24, 1)], b"b\0".to_vec()));
        assert_eq!(of(1), (vec![(11, 1), (21, 3), (33, 1)], b"acde\0".to_vec()));
    }

    #[test]
    fn what_is_no_range_of_a_file_is_refused() {
        let job = |view, offset, length| Job {
            map: Map::new(Grid::new(3, 4, 3).unwrap(), view).unwrap(),
            request: Request::Contiguous {
                offset: ViewOffset(offset),
                length,
            },
            slot: ServerSlot(0),
            file: FileId(1),
            fork: ForkName::data(),
            checkpoint: 0,
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
