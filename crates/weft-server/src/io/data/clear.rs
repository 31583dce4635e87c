//! Ranges of cells that become zeros, and cells that become longer.

use std::ops::Range;

use weft_proto::Failure;
use weft_proto::io::{ClearRangeReply, ClearRangeRequest, ExtendCellsReply, ExtendCellsRequest};
use weft_store::{ForkKey, Timestamp};

use crate::failure;
use crate::io::IoService;
use crate::io::job::JoinedPieces;
use crate::limits::CLEAR_BATCH_RANGES;

impl IoService {
    pub(in crate::io) async fn clear_range(
        &self,
        request: ClearRangeRequest,
    ) -> Result<ClearRangeReply, Failure> {
        let (job, now) = (self.unbounded_job(&request.access)?.writable()?, self.now());
        let _gate = self.gates.enter(job.file).await;
        if let Some(ranges) = job.computed_ranges() {
            self.clear(&ranges, now).await?;
            return Ok(ClearRangeReply {});
        }
        let job = self.job(&request.access)?;
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
        self.clear(&ranges, now).await?;
        Ok(ClearRangeReply {})
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
        for (key, range) in ranges {
            let extended = self.store.extend(&key, request.chunk, range.end, now);
            extended.await.map_err(|e| failure::of_store(&e))?;
        }
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
