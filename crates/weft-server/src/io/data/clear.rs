//! Ranges of cells that become zeros, and cells that become longer.

use std::ops::Range;

use weft_layout::{CellOffset, Piece, StridedPieces};
use weft_net::Peer;
use weft_proto::io::{
    Access, ClearRangeReply, ClearRangeRequest, ExtendCellsReply, ExtendCellsRequest,
};
use weft_proto::order::Claim;
use weft_proto::{Code, Failure};
use weft_store::{ForkKey, Timestamp};

use crate::failure;
use crate::io::IoService;
use crate::io::job::{Job, JoinedPieces};
use crate::io::order::{Asking, Effect, Extents, ForkExtents, Mode};
use crate::io::sharers::Change;
use crate::limits::CLEAR_BATCH_RANGES;

impl IoService {
    pub(in crate::io) async fn clear_range(
        &self,
        request: ClearRangeRequest,
        peer: &Peer,
    ) -> Result<ClearRangeReply, Failure> {
        if let Some(claim) = request.claim {
            return self.clear_in_order(&request.access, claim, peer).await;
        }
        let (job, now) = (self.unbounded_job(&request.access)?.writable()?, self.now());
        let _gate = self.gates.enter(job.file).await;
        self.forced.check(job.file, peer)?;
        if let Some(ranges) = job.computed_ranges() {
            let cleared = self.clear(&ranges, now).await;
            self.tell_sharers(job.file, Change::Job(&job)).await;
            cleared?;
            return Ok(ClearRangeReply { granted: false });
        }
        let job = self.job(&request.access)?;
        let cleared = self.clear_pieces(&job, now).await;
        self.tell_sharers(job.file, Change::All).await;
        cleared?;
        Ok(ClearRangeReply { granted: false })
    }

    async fn clear_pieces(&self, job: &Job, now: Timestamp) -> Result<(), Failure> {
        let mut joined = JoinedPieces::default();
        let mut ranges: Vec<(ForkKey, Range<u64>)> = Vec::new();
        for piece in job.pieces()? {
            let done = joined.add(piece);
            ranges.extend(done.map(|p| job.range(&p)));
            if ranges.len() >= CLEAR_BATCH_RANGES {
                self.clear(&std::mem::take(&mut ranges), now).await?;
            }
        }
        ranges.extend(joined.rest().map(|p| job.range(&p)));
        self.clear(&ranges, now).await
    }

    /// Clears ranges of which the store can clear all at one moment.
    async fn clear_in_order(
        &self,
        access: &Access,
        claim: Claim,
        peer: &Peer,
    ) -> Result<ClearRangeReply, Failure> {
        let job = self.unbounded_job(access)?.writable()?;
        let ranges = match job.computed_ranges() {
            Some(ranges) => ranges,
            None => self.job(access)?.first_ranges()?,
        };
        if ranges.len() >= CLEAR_BATCH_RANGES {
            let what = format!(
                "an operation that is atomic clears fewer than {CLEAR_BATCH_RANGES} ranges on each server"
            );
            return Err(Failure::new(Code::TooLarge, what));
        }
        let mut extents = ForkExtents::new(job.fork.clone());
        for (key, range) in &ranges {
            extents.add(&StridedPieces::from(Piece {
                cell: key.cell,
                offset: CellOffset(range.start),
                length: range.end - range.start,
                memory: 0,
            }));
        }
        let asking = Asking {
            client: peer.client,
            claim,
            file: job.file,
            mode: Mode::Exclusive,
            extents: Extents::Some(extents),
        };
        if !asking.claim.alone {
            let granted = self.begin(asking, Effect::Clear(ranges)).await?;
            return Ok(ClearRangeReply { granted });
        }
        let granted = self.claim_alone(&asking).await?;
        let cleared = self.clear(&ranges, self.now()).await;
        self.tell_of_claimed(job.file, &asking.extents).await;
        drop(granted);
        cleared?;
        Ok(ClearRangeReply { granted: true })
    }

    /// Extends cells to the ends of the request's ranges.
    pub(in crate::io) async fn extend_cells(
        &self,
        request: ExtendCellsRequest,
    ) -> Result<ExtendCellsReply, Failure> {
        let (job, now) = (self.unbounded_job(&request.access)?.writable()?, self.now());
        let ranges = job.computed_ranges().ok_or_else(|| {
            failure::invalid(
                "only a contiguous range in canonical order, or of one cell, can be extended",
            )
        })?;
        let _gate = self.gates.enter(job.file).await;
        self.may_grow(std::slice::from_ref(&job)).await?;
        let mut extended = Ok(());
        for (key, range) in ranges {
            extended = self.store.extend(&key, request.chunk, range.end, now).await;
            if extended.is_err() {
                break;
            }
        }
        self.tell_sharers(job.file, Change::All).await;
        extended.map_err(|e| failure::of_store(&e))?;
        Ok(ExtendCellsReply {})
    }

    pub(in crate::io) async fn clear(
        &self,
        ranges: &[(ForkKey, Range<u64>)],
        now: Timestamp,
    ) -> Result<(), Failure> {
        for batch in ranges.chunks(CLEAR_BATCH_RANGES) {
            let cleared = self.store.clear(batch, now).await;
            cleared.map_err(|e| failure::of_store(&e))?;
        }
        Ok(())
    }
}
