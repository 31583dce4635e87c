//! How long files may become: what the metadata service says of files whose user, group or tree has a bound.
//!
//! A limit is a size in canonical order, so a write is judged by where its last byte lies, without a look at the cells: who
//! stays below the limit is never kept from anything. Limits are in memory and end by themselves: a metadata service that is
//! gone stops nobody for longer than [`LASTS`]. See `docs/design/0011-quotas.md`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::{FileId, Grid};
use weft_proto::quota::{GrowthLimit, LimitGrowthReply, LimitGrowthRequest};
use weft_proto::{Code, Failure, limits};
use weft_store::ForkName;

use super::{IoService, Job};
use crate::failure;

/// How long a limit holds that is not said again.
const LASTS: Duration = Duration::from_secs(5);

/// How long what was said of a file that has just been attached outlives rounds that do not name it: they may have begun before.
const FRESH: Duration = Duration::from_secs(1);

/// The limits of one server.
#[derive(Default)]
pub(super) struct Growth {
    /// There are some: asked before each write.
    any: AtomicBool,
    limits: Mutex<HashMap<u64, Limit>>,
}

#[derive(Clone, Copy)]
struct Limit {
    size: u64,
    until: Instant,
    /// It was said of this file alone, and a round that does not know of it yet takes nothing back up to then.
    fresh: Option<Instant>,
}

impl Growth {
    fn set(&self, files: &[GrowthLimit], keep: bool, now: Instant) {
        let mut limits = self.limits.lock();
        if keep {
            limits.retain(|_, limit| limit.until > now);
        } else {
            limits.retain(|_, limit| limit.fresh.is_some_and(|fresh| fresh > now));
        }
        for file in files {
            if let Some(size) = file.limit {
                let until = now + LASTS;
                let fresh = keep.then(|| now + FRESH);
                limits.insert(file.file, Limit { size, until, fresh });
            }
        }
        self.any.store(!limits.is_empty(), Ordering::Release);
    }

    /// The largest size that a write may give this file.
    fn of(&self, file: FileId) -> Option<u64> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let limit = self.limits.lock().get(&file.0).copied()?;
        (limit.until > Instant::now()).then_some(limit.size)
    }
}

impl IoService {
    pub(super) async fn limit_growth(
        &self,
        request: LimitGrowthRequest,
    ) -> Result<LimitGrowthReply, Failure> {
        if request.files.len() > limits::GROWTH_BATCH_MAX {
            let what = format!(
                "the growth of {} files: at most {} in one call",
                request.files.len(),
                limits::GROWTH_BATCH_MAX
            );
            return Err(failure::invalid(what));
        }
        // A limit comes before the look at the size: nothing grows beyond it in between.
        self.growth
            .set(&request.files, request.keep, Instant::now());
        let mut sizes = Vec::with_capacity(request.files.len());
        for file in &request.files {
            let grid = Grid::try_from(&file.grid).map_err(|e| failure::of_convert(&e))?;
            // Also of a file that is lost here: the others' bounds must not wait for it.
            let forks = self.store.forks(super::file_id(file.file)?).await;
            let forks = forks.map_err(|e| failure::of_store(&e))?;
            let data = forks
                .iter()
                .filter(|(key, _)| key.fork == ForkName::data() && key.cell.0 < grid.cells());
            let size = data.map(|(key, status)| grid.file_size(key.cell, status.length));
            sizes.push(size.max().unwrap_or(0));
        }
        Ok(LimitGrowthReply { sizes })
    }

    /// Refuses a write that would make its file longer than a quota lets it become, before it changes anything.
    ///
    /// Cost: of a file without a limit a look at a flag, or a look-up; else a walk over the request's pieces, but for
    /// contiguous requests.
    pub(super) fn may_grow(&self, job: &Job) -> Result<(), Failure> {
        let Some(limit) = self.growth.of(job.file) else {
            return Ok(());
        };
        if job.fork != ForkName::data() || job.size_after()? <= limit {
            return Ok(());
        }
        let what = format!(
            "file {} would grow beyond {limit} bytes, and a quota of its user, group or tree allows no more; \
             `weft quota show` tells which",
            job.file
        );
        Err(Failure::new(Code::QuotaExceeded, what))
    }
}

impl Job {
    /// The size in canonical order that the file has at least when this was written.
    fn size_after(&self) -> Result<u64, Failure> {
        let grid = self.map.grid();
        if let Some(ranges) = self.worked_out() {
            let ends = ranges
                .iter()
                .map(|(key, range)| grid.file_size(key.cell, range.end));
            return Ok(ends.max().unwrap_or(0));
        }
        let ends = self
            .pieces()?
            .map(|piece| grid.file_size(piece.cell, piece.offset.0 + piece.length));
        Ok(ends.max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(file: u64, limit: Option<u64>) -> GrowthLimit {
        GrowthLimit {
            file,
            limit,
            ..GrowthLimit::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn limits_are_replaced_kept_and_end_by_themselves() {
        let growth = Growth::default();
        growth.set(
            &[limit(1, Some(10)), limit(2, Some(20))],
            false,
            Instant::now(),
        );
        assert_eq!(growth.of(FileId(1)), Some(10));
        // Asking changes nothing.
        growth.set(&[limit(1, None)], true, Instant::now());
        assert_eq!(growth.of(FileId(1)), Some(10));
        tokio::time::advance(LASTS / 2).await;
        growth.set(&[limit(2, Some(25))], true, Instant::now());
        assert_eq!(
            (growth.of(FileId(1)), growth.of(FileId(2))),
            (Some(10), Some(25))
        );
        tokio::time::advance(LASTS / 2).await;
        assert_eq!(
            (growth.of(FileId(1)), growth.of(FileId(2))),
            (None, Some(25))
        );
        growth.set(&[limit(3, Some(0))], false, Instant::now());
        assert_eq!(
            (growth.of(FileId(2)), growth.of(FileId(3))),
            (None, Some(0))
        );
        // A round that began before a file was attached does not know of it.
        growth.set(&[limit(4, Some(40))], true, Instant::now());
        growth.set(&[limit(3, Some(0))], false, Instant::now());
        assert_eq!(growth.of(FileId(4)), Some(40));
        tokio::time::advance(FRESH).await;
        growth.set(&[limit(3, Some(0))], false, Instant::now());
        assert_eq!(growth.of(FileId(4)), None);
        growth.set(&[], false, Instant::now());
        assert!(!growth.any.load(Ordering::Acquire));
    }
}
