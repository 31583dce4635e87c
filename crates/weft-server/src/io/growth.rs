//! How long files may become: what the metadata service says of files whose user, group or tree has a bound.
//!
//! A limit is a size in canonical order, so a write is judged by where its last byte lies, without a look at the cells: who
//! stays below the limit is never kept from anything. Other forks have no place in that order: what each write makes them longer by
//! is taken off what is left. Limits are in memory and end by themselves: a metadata service that is
//! gone stops nobody for longer than [`LASTS`]. See `docs/design/0011-quotas.md`.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::{CellIndex, FileId, Grid};
use weft_proto::quota::{GrowthLimit, LimitGrowthReply, LimitGrowthRequest};
use weft_proto::{Code, Failure, limits};
use weft_store::{ForkKey, ForkName};

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
    /// Bytes that other forks may become longer by; each write takes its own off.
    room: u64,
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
                let room = file.room;
                let limit = Limit {
                    size,
                    room,
                    until,
                    fresh,
                };
                limits.insert(file.file, limit);
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

    /// Takes `more` bytes off what a file's other forks may become longer by; what is left where that is less.
    fn take(&self, file: FileId, more: u64) -> Result<(), u64> {
        let mut limits = self.limits.lock();
        let limit = limits
            .get_mut(&file.0)
            .filter(|limit| limit.until > Instant::now());
        let Some(limit) = limit else { return Ok(()) };
        limit.room = limit.room.checked_sub(more).ok_or(limit.room)?;
        Ok(())
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
        let mut reply = LimitGrowthReply::default();
        for file in &request.files {
            let grid = Grid::try_from(&file.grid).map_err(|e| failure::of_convert(&e))?;
            // Also of a file that is lost here: the others' bounds must not wait for it.
            let forks = self.store.forks(super::file_id(file.file)?).await;
            let forks = forks.map_err(|e| failure::of_store(&e))?;
            let (mut size, mut others) = (0, 0_u64);
            for (key, status) in forks.iter().filter(|(key, _)| key.cell.0 < grid.cells()) {
                if key.fork == ForkName::data() {
                    size = grid.file_size(key.cell, status.length).max(size);
                } else {
                    others = others.saturating_add(status.length);
                }
            }
            reply.sizes.push(size);
            reply.others.push(others);
        }
        Ok(reply)
    }

    /// Refuses a write that would make its file, or its other forks, longer than a quota lets them become, before it changes
    /// anything.
    ///
    /// Cost: of a file without a limit a look at a flag, or a look-up; else a walk over the request's pieces, but for
    /// contiguous requests.
    pub(super) async fn may_grow(&self, jobs: &[Job]) -> Result<(), Failure> {
        let mut forks: HashMap<FileId, Vec<&Job>> = HashMap::new();
        for job in jobs {
            let Some(limit) = self.growth.of(job.file) else {
                continue;
            };
            if job.fork != ForkName::data() {
                forks.entry(job.file).or_default().push(job);
            } else if job.size_after()? > limit {
                let what = format!("file {} would grow beyond {limit} bytes", job.file);
                return Err(exceeded(&what));
            }
        }
        for (file, jobs) in forks {
            let more = self.longer_by(&jobs).await?;
            if let Err(left) = self.growth.take(file, more) {
                let what = format!(
                    "forks of file {file} would become {more} bytes longer, where {left} are left"
                );
                return Err(exceeded(&what));
            }
        }
        Ok(())
    }

    /// The bytes that the forks of writes become longer by on this server, when all are done.
    async fn longer_by(&self, jobs: &[&Job]) -> Result<u64, Failure> {
        let mut ends: BTreeMap<ForkKey, u64> = BTreeMap::new();
        for job in jobs {
            for (cell, end) in job.ends()? {
                let known = ends.entry(job.key(cell)).or_default();
                *known = end.max(*known);
            }
        }
        let mut more = 0_u64;
        for (key, end) in ends {
            let status = self.store.status(&key).await;
            let status = status.map_err(|e| failure::of_store(&e))?;
            let length = status.map_or(0, |status| status.length);
            more = more.saturating_add(end.saturating_sub(length));
        }
        Ok(more)
    }
}

fn exceeded(what: &str) -> Failure {
    let why = "and a quota of its user, group or tree allows no more";
    let what = format!("{what}, {why}; `weft quota show` tells which");
    Failure::new(Code::QuotaExceeded, what)
}

impl Job {
    /// The size in canonical order that the file has at least when this was written.
    fn size_after(&self) -> Result<u64, Failure> {
        let grid = self.map.grid();
        let sizes = self.ends()?.into_iter();
        let sizes = sizes.map(|(cell, end)| grid.file_size(cell, end));
        Ok(sizes.max().unwrap_or(0))
    }

    /// One past the last byte that is touched, of each cell.
    fn ends(&self) -> Result<BTreeMap<CellIndex, u64>, Failure> {
        let mut ends = BTreeMap::new();
        let mut note = |cell, end: u64| {
            let known = ends.entry(cell).or_insert(end);
            *known = end.max(*known);
        };
        if let Some(ranges) = self.worked_out() {
            for (key, range) in ranges {
                note(key.cell, range.end);
            }
        } else {
            for piece in self.pieces()? {
                note(piece.cell, piece.offset.0 + piece.length);
            }
        }
        Ok(ends)
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
    async fn what_other_forks_take_is_taken_off_until_it_is_said_again() {
        let growth = Growth::default();
        let said = GrowthLimit {
            room: 100,
            ..limit(1, Some(10))
        };
        growth.set(&[said], false, Instant::now());
        assert_eq!(growth.take(FileId(1), 60), Ok(()));
        assert_eq!(growth.take(FileId(1), 41), Err(40));
        assert_eq!(growth.take(FileId(1), 40), Ok(()));
        assert_eq!(growth.take(FileId(1), 1), Err(0));
        assert_eq!(growth.take(FileId(2), 1000), Ok(()), "nobody limits it");
        growth.set(&[said], false, Instant::now());
        assert_eq!(growth.take(FileId(1), 100), Ok(()));
        tokio::time::advance(LASTS).await;
        assert_eq!(growth.take(FileId(1), 1), Ok(()));
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
