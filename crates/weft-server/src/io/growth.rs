//! How long files may become: what the metadata service says of files whose user, group or tree has
//! a bound.
//!
//! A limit is a size in canonical order, so a write is judged by where its last byte lies, without
//! a look at the cells: who stays below the limit is never kept from anything. Other forks have no
//! place in that order: what each write makes them longer by is taken off what is left. Limits are
//! in memory, and outlive a restart of the metadata service; in the end they end by themselves, so
//! that one that is gone stops nobody for ever. See `docs/design/0011-quotas.md`.

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

/// How long a limit holds that is not said again, for each time that clients have to come back to a
/// service that was started.
pub(crate) const LASTS: u32 = 3;

/// How long a write that was let through may take until it shows.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// How long what was said of a file that has just been attached outlives rounds that do not name
/// it: they may have begun before.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// Lengths of forks.
type Lengths = HashMap<ForkKey, u64>;

/// The limits of one server.
pub(super) struct Growth {
    /// How long one holds.
    lasts: Duration,
    /// There are some: asked before each write.
    any: AtomicBool,
    limits: Mutex<HashMap<u64, Limit>>,
}

struct Limit {
    size: u64,
    /// Bytes that other forks may still become longer by; each write takes its own off. `None`:
    /// nobody limits them.
    room: Option<u64>,
    /// How long forks are when writes that were let through are done, and when that was.
    promised: HashMap<ForkKey, (u64, Instant)>,
    until: Instant,
    /// It was said of this file alone, and a round that does not know of it yet takes nothing back
    /// up to then.
    fresh: Option<Instant>,
}

impl Limit {
    /// What is left of `most` where other forks are as long as this, or will be.
    fn measure(&mut self, most: Option<u64>, lengths: &Lengths, now: Instant) {
        // What has not come by now does not come any more.
        self.promised.retain(|key, (end, since)| {
            *since + UNDER_WAY > now && lengths.get(key).is_none_or(|length| length < end)
        });
        let longer = self.promised.iter().map(|(key, (end, _))| {
            let length = lengths.get(key).copied().unwrap_or(0);
            end.saturating_sub(length)
        });
        let all = lengths.values().copied().chain(longer);
        let all = all.fold(0, u64::saturating_add);
        self.room = most.map(|most| most.saturating_sub(all));
    }
}

impl Growth {
    /// `grace`: the time that clients have to come back to the metadata service.
    pub(super) fn new(grace: Duration) -> Growth {
        Growth {
            lasts: grace * LASTS,
            any: AtomicBool::new(false),
            limits: Mutex::default(),
        }
    }

    /// `lengths`: of the other forks of each file.
    fn set(&self, files: &[GrowthLimit], lengths: &[Lengths], keep: bool, now: Instant) {
        let mut limits = self.limits.lock();
        let promised = |file: &GrowthLimit| {
            let known = limits.get_mut(&file.file);
            known.map(|limit| std::mem::take(&mut limit.promised))
        };
        let promised: Vec<_> = files
            .iter()
            .filter(|f| f.limit.is_some())
            .map(promised)
            .collect();
        if keep {
            limits.retain(|_, limit| limit.until > now);
        } else {
            limits.retain(|_, limit| limit.fresh.is_some_and(|fresh| fresh > now));
        }
        let limited = files
            .iter()
            .zip(lengths)
            .filter(|(file, _)| file.limit.is_some());
        for ((file, lengths), promised) in limited.zip(promised) {
            let mut limit = Limit {
                size: file.limit.unwrap_or(u64::MAX),
                room: None,
                promised: promised.unwrap_or_default(),
                until: now + self.lasts,
                fresh: keep.then(|| now + FRESH),
            };
            limit.measure(file.others, lengths, now);
            limits.insert(file.file, limit);
        }
        self.any.store(!limits.is_empty(), Ordering::Release);
    }

    /// The largest size that a write may give this file.
    fn of(&self, file: FileId) -> Option<u64> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let limits = self.limits.lock();
        let limit = limits.get(&file.0)?;
        (limit.until > Instant::now()).then_some(limit.size)
    }

    /// Lets forks become as long as this, and takes what that is more than they are or were
    /// promised off what is left; what is left where that is less, with how much it is.
    fn take(&self, file: FileId, ends: Vec<(ForkKey, u64, u64)>) -> Result<(), (u64, u64)> {
        let now = Instant::now();
        let mut limits = self.limits.lock();
        let limit = limits.get_mut(&file.0).filter(|limit| limit.until > now);
        let Some(limit) = limit else { return Ok(()) };
        let Some(room) = limit.room else {
            return Ok(());
        };
        let mut more = 0_u64;
        for (key, end, length) in &ends {
            let promised = limit.promised.get(key).map_or(0, |promised| promised.0);
            more = more.saturating_add(end.saturating_sub(promised.max(*length)));
        }
        limit.room = Some(room.checked_sub(more).ok_or((room, more))?);
        for (key, end, length) in ends.into_iter().filter(|(_, end, length)| end > length) {
            let promised = limit.promised.entry(key).or_insert((length, now));
            *promised = (end.max(promised.0), now);
        }
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
        let mut lengths = Vec::with_capacity(request.files.len());
        for file in &request.files {
            lengths.push(self.grown_here(file).await?.1);
        }
        // A limit comes before the look at the size: nothing grows beyond it in between.
        self.growth
            .set(&request.files, &lengths, request.keep, Instant::now());
        let mut reply = LimitGrowthReply::default();
        for file in &request.files {
            let (size, others) = self.grown_here(file).await?;
            reply.sizes.push(size);
            reply
                .others
                .push(others.into_values().fold(0, u64::saturating_add));
        }
        Ok(reply)
    }

    /// The size that a file's cells here give it, and how long its other forks are. Also of a file
    /// that is lost or was deleted here: the others' bounds must not wait for it.
    async fn grown_here(&self, file: &GrowthLimit) -> Result<(u64, Lengths), Failure> {
        let grid = Grid::try_from(&file.grid).map_err(|e| failure::of_convert(&e))?;
        let forks = self.store.forks(super::file_id(file.file)?).await;
        let (mut size, mut others) = (0, Lengths::new());
        let mut note = |key: ForkKey, length: u64| {
            if key.fork == ForkName::data() {
                size = grid.file_size(key.cell, length).max(size);
            } else {
                others.insert(key, length);
            }
        };
        for (key, status) in forks.unwrap_or_default() {
            if key.cell.0 < grid.cells() {
                note(key, status.length);
            }
        }
        Ok((size, others))
    }

    /// Refuses a write that would make its file, or its other forks, longer than a quota lets them
    /// become, before it changes anything.
    ///
    /// Cost: of a file without a limit a look at a flag, or a look-up; else a walk over the
    /// request's pieces, but for contiguous requests.
    pub(super) async fn may_grow(&self, jobs: &[Job]) -> Result<(), Failure> {
        let mut forks: HashMap<FileId, Vec<&Job>> = HashMap::new();
        for job in jobs {
            let Some(limit) = self.growth.of(job.file) else {
                continue;
            };
            if job.fork != ForkName::data() {
                forks.entry(job.file).or_default().push(job);
            } else if job.size_after()? > limit {
                let what = format!("it may become {limit} bytes long at the moment");
                return Err(exceeded(&what));
            }
        }
        for (file, jobs) in forks {
            let ends = self.ends_of(&jobs).await?;
            if let Err((left, more)) = self.growth.take(file, ends) {
                let what =
                    format!("its forks would become {more} bytes longer, where {left} are left");
                return Err(exceeded(&what));
            }
        }
        Ok(())
    }

    /// The forks of writes: how long they are when all are done, and now.
    async fn ends_of(&self, jobs: &[&Job]) -> Result<Vec<(ForkKey, u64, u64)>, Failure> {
        let mut ends: BTreeMap<ForkKey, u64> = BTreeMap::new();
        for job in jobs {
            for (cell, end) in job.ends()? {
                let known = ends.entry(job.key(cell)).or_default();
                *known = end.max(*known);
            }
        }
        let mut all = Vec::with_capacity(ends.len());
        for (key, end) in ends {
            let status = self.store.status(&key).await;
            let status = status.map_err(|e| failure::of_store(&e))?;
            all.push((key, end, status.map_or(0, |status| status.length)));
        }
        Ok(all)
    }
}

/// The client, who knows what the file is called, adds how to find out which quota it is.
fn exceeded(what: &str) -> Failure {
    let why = "a quota of its user, group or tree leaves no more";
    Failure::new(Code::QuotaExceeded, format!("{what}: {why}"))
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

    fn set(growth: &Growth, files: &[GrowthLimit], keep: bool) {
        let lengths: Vec<Lengths> = files.iter().map(|_| Lengths::new()).collect();
        growth.set(files, &lengths, keep, Instant::now());
    }

    fn fork(name: &str) -> ForkKey {
        ForkKey {
            file: FileId(1),
            cell: CellIndex(0),
            fork: ForkName::new(name).unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_other_forks_take_is_counted_once_whatever_is_under_way() {
        let growth = Growth::new(UNDER_WAY);
        let said = GrowthLimit {
            others: Some(100),
            ..limit(1, Some(10))
        };
        let set = |lengths: &[(&str, u64)]| {
            let lengths = lengths.iter().map(|(name, length)| (fork(name), *length));
            growth.set(&[said], &[lengths.collect()], false, Instant::now());
        };
        let take = |name, end, length| growth.take(FileId(1), vec![(fork(name), end, length)]);
        set(&[]);
        // Writes one behind the other that are all under way.
        for end in [20, 40, 60, 40] {
            assert_eq!(take("a", end, 0), Ok(()));
        }
        assert_eq!(take("b", 41, 0), Err((40, 41)));
        // Part of them has landed.
        set(&[("a", 20)]);
        assert_eq!(take("b", 41, 0), Err((40, 41)));
        assert_eq!(take("b", 40, 0), Ok(()));
        assert_eq!(take("a", 61, 60), Err((0, 1)));
        set(&[("a", 60), ("b", 40)]);
        assert_eq!(take("a", 60, 60), Ok(()));
        assert_eq!(take("a", 61, 60), Err((0, 1)));
        // One was removed.
        set(&[("a", 60)]);
        assert_eq!(take("a", 100, 60), Ok(()));
        // What was refused or failed later keeps its room for a while only.
        tokio::time::advance(UNDER_WAY).await;
        set(&[("a", 60)]);
        assert_eq!(take("b", 40, 0), Ok(()));
        assert_eq!(growth.take(FileId(2), vec![(fork("a"), 1000, 0)]), Ok(()));
        let unlimited = limit(1, Some(10));
        growth.set(&[unlimited], &[Lengths::new()], false, Instant::now());
        assert_eq!(
            take("a", 1000, 0),
            Ok(()),
            "an older service says nothing of them"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn limits_are_replaced_kept_and_end_by_themselves() {
        let growth = Growth::new(Duration::from_secs(2));
        let lasts = growth.lasts;
        set(&growth, &[limit(1, Some(10)), limit(2, Some(20))], false);
        assert_eq!(growth.of(FileId(1)), Some(10));
        // Asking changes nothing.
        set(&growth, &[limit(1, None)], true);
        assert_eq!(growth.of(FileId(1)), Some(10));
        tokio::time::advance(lasts / 2).await;
        set(&growth, &[limit(2, Some(25))], true);
        assert_eq!(
            (growth.of(FileId(1)), growth.of(FileId(2))),
            (Some(10), Some(25))
        );
        tokio::time::advance(lasts / 2).await;
        assert_eq!(
            (growth.of(FileId(1)), growth.of(FileId(2))),
            (None, Some(25))
        );
        set(&growth, &[limit(3, Some(0))], false);
        assert_eq!(
            (growth.of(FileId(2)), growth.of(FileId(3))),
            (None, Some(0))
        );
        // A round that began before a file was attached does not know of it.
        set(&growth, &[limit(4, Some(40))], true);
        set(&growth, &[limit(3, Some(0))], false);
        assert_eq!(growth.of(FileId(4)), Some(40));
        tokio::time::advance(FRESH).await;
        set(&growth, &[limit(3, Some(0))], false);
        assert_eq!(growth.of(FileId(4)), None);
        set(&growth, &[], false);
        assert!(!growth.any.load(Ordering::Acquire));
    }
}
