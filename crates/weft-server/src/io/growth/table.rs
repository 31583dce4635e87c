//! The table of growth limits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::FileId;
use weft_proto::quota::GrowthLimit;
use weft_store::ForkKey;

use crate::limits::{GROWTH_ATTACH_GRACE, GROWTH_LIMIT_GRACES, GROWTH_PROMISE_TIMEOUT};

/// The lengths of forks.
pub(super) type ForkLengths = HashMap<ForkKey, u64>;

/// The limits of one server.
pub(in crate::io) struct GrowthLimits {
    /// How long one holds.
    lifetime: Duration,
    /// Whether there are any: read before each write.
    any: AtomicBool,
    limits: Mutex<HashMap<u64, FileLimit>>,
}

/// What happens to the limits of files that a request does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherLimits {
    Keep,
    Remove,
}

/// A fork that a write makes longer.
pub(super) struct ForkGrowth {
    pub(super) key: ForkKey,
    /// Its length now.
    pub(super) length: u64,
    /// Its length after the write.
    pub(super) end: u64,
}

/// Why growth is not admitted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QuotaShort {
    pub(super) left: u64,
    pub(super) needed: u64,
}

struct FileLimit {
    size: u64,
    /// Bytes by which other forks may still grow, less what admitted writes add. `None`: no limit.
    forks_left: Option<u64>,
    /// The lengths of forks after the admitted writes, and when these were admitted.
    promised: HashMap<ForkKey, (u64, Instant)>,
    until: Instant,
    /// The limit came with an attach: until then, rounds that do not know of it yet do not remove
    /// it.
    fresh_until: Option<Instant>,
}

impl FileLimit {
    /// Computes what is left of `most`, given the lengths of the forks and the promised ones.
    fn measure(&mut self, most: Option<u64>, lengths: &ForkLengths, now: Instant) {
        // A promise that is not kept by its timeout never will be.
        self.promised.retain(|key, (end, since)| {
            *since + GROWTH_PROMISE_TIMEOUT > now
                && lengths.get(key).is_none_or(|length| length < end)
        });
        let longer = self.promised.iter().map(|(key, (end, _))| {
            let length = lengths.get(key).copied().unwrap_or(0);
            end.saturating_sub(length)
        });
        let all = lengths.values().copied().chain(longer);
        let all = all.fold(0, u64::saturating_add);
        self.forks_left = most.map(|most| most.saturating_sub(all));
    }
}

impl GrowthLimits {
    /// `grace`: the time that clients have to come back to the metadata service.
    pub(in crate::io) fn new(grace: Duration) -> GrowthLimits {
        GrowthLimits {
            lifetime: grace * GROWTH_LIMIT_GRACES,
            any: AtomicBool::new(false),
            limits: Mutex::default(),
        }
    }

    /// Sets the limits of `files`. `lengths`: of the other forks of each file.
    pub(super) fn set(
        &self,
        files: &[GrowthLimit],
        lengths: &[ForkLengths],
        others: OtherLimits,
        now: Instant,
    ) {
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
        match others {
            OtherLimits::Keep => limits.retain(|_, limit| limit.until > now),
            OtherLimits::Remove => {
                limits.retain(|_, limit| limit.fresh_until.is_some_and(|until| until > now));
            }
        }
        let limited = files
            .iter()
            .zip(lengths)
            .filter(|(file, _)| file.limit.is_some());
        for ((file, lengths), promised) in limited.zip(promised) {
            let mut limit = FileLimit {
                size: file.limit.unwrap_or(u64::MAX),
                forks_left: None,
                promised: promised.unwrap_or_default(),
                until: now + self.lifetime,
                fresh_until: (others == OtherLimits::Keep).then(|| now + GROWTH_ATTACH_GRACE),
            };
            limit.measure(file.others, lengths, now);
            limits.insert(file.file, limit);
        }
        self.any.store(!limits.is_empty(), Ordering::Release);
    }

    /// The largest size that a write may give this file.
    pub(super) fn of(&self, file: FileId) -> Option<u64> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let limits = self.limits.lock();
        let limit = limits.get(&file.0)?;
        (limit.until > Instant::now()).then_some(limit.size)
    }

    /// Admits writes, and subtracts what they add to forks beyond earlier promises from what is
    /// left.
    ///
    /// # Errors
    /// When they need more than is left; nothing is admitted then.
    pub(super) fn admit(&self, file: FileId, forks: Vec<ForkGrowth>) -> Result<(), QuotaShort> {
        let now = Instant::now();
        let mut limits = self.limits.lock();
        let limit = limits.get_mut(&file.0).filter(|limit| limit.until > now);
        let Some(limit) = limit else { return Ok(()) };
        let Some(left) = limit.forks_left else {
            return Ok(());
        };
        let mut needed = 0_u64;
        for fork in &forks {
            let promised = limit.promised.get(&fork.key);
            let promised = promised.map_or(0, |promised| promised.0);
            needed = needed.saturating_add(fork.end.saturating_sub(promised.max(fork.length)));
        }
        let rest = left.checked_sub(needed);
        limit.forks_left = Some(rest.ok_or(QuotaShort { left, needed })?);
        for fork in forks.into_iter().filter(|fork| fork.end > fork.length) {
            let promised = limit.promised.entry(fork.key).or_insert((fork.length, now));
            *promised = (fork.end.max(promised.0), now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::OtherLimits::{Keep, Remove};
    use super::*;
    use weft_layout::CellIndex;
    use weft_store::ForkName;

    fn limit(file: u64, limit: Option<u64>) -> GrowthLimit {
        GrowthLimit {
            file,
            limit,
            ..GrowthLimit::default()
        }
    }

    fn set(growth: &GrowthLimits, files: &[GrowthLimit], others: OtherLimits) {
        let lengths: Vec<ForkLengths> = files.iter().map(|_| ForkLengths::new()).collect();
        growth.set(files, &lengths, others, Instant::now());
    }

    fn fork(name: &str) -> ForkKey {
        ForkKey {
            file: FileId(1),
            cell: CellIndex(0),
            fork: ForkName::new(name).unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn growth_of_other_forks_is_counted_once_with_writes_in_flight() {
        let growth = GrowthLimits::new(GROWTH_PROMISE_TIMEOUT);
        let said = GrowthLimit {
            others: Some(100),
            ..limit(1, Some(10))
        };
        let set = |lengths: &[(&str, u64)]| {
            let lengths = lengths.iter().map(|(name, length)| (fork(name), *length));
            growth.set(&[said], &[lengths.collect()], Remove, Instant::now());
        };
        let grow = |name, end, length| {
            vec![ForkGrowth {
                key: fork(name),
                length,
                end,
            }]
        };
        let take = |name, end, length| growth.admit(FileId(1), grow(name, end, length));
        let short = |left, needed| Err(QuotaShort { left, needed });
        set(&[]);
        // Successive writes, all in flight.
        for end in [20, 40, 60, 40] {
            assert_eq!(take("a", end, 0), Ok(()));
        }
        assert_eq!(take("b", 41, 0), short(40, 41));
        // Some of them are stored.
        set(&[("a", 20)]);
        assert_eq!(take("b", 41, 0), short(40, 41));
        assert_eq!(take("b", 40, 0), Ok(()));
        assert_eq!(take("a", 61, 60), short(0, 1));
        set(&[("a", 60), ("b", 40)]);
        assert_eq!(take("a", 60, 60), Ok(()));
        assert_eq!(take("a", 61, 60), short(0, 1));
        // A fork was removed.
        set(&[("a", 60)]);
        assert_eq!(take("a", 100, 60), Ok(()));
        // A failed write keeps its bytes charged only for a while.
        tokio::time::advance(GROWTH_PROMISE_TIMEOUT).await;
        set(&[("a", 60)]);
        assert_eq!(take("b", 40, 0), Ok(()));
        assert_eq!(growth.admit(FileId(2), grow("a", 1000, 0)), Ok(()));
        let unlimited = limit(1, Some(10));
        growth.set(&[unlimited], &[ForkLengths::new()], Remove, Instant::now());
        assert_eq!(
            take("a", 1000, 0),
            Ok(()),
            "an older service sends no limit for them"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn limits_are_replaced_kept_and_expire() {
        let growth = GrowthLimits::new(Duration::from_secs(2));
        let lifetime = growth.lifetime;
        set(&growth, &[limit(1, Some(10)), limit(2, Some(20))], Remove);
        assert_eq!(growth.of(FileId(1)), Some(10));
        // Asking changes nothing.
        set(&growth, &[limit(1, None)], Keep);
        assert_eq!(growth.of(FileId(1)), Some(10));
        tokio::time::advance(lifetime / 2).await;
        set(&growth, &[limit(2, Some(25))], Keep);
        assert_eq!(
            (growth.of(FileId(1)), growth.of(FileId(2))),
            (Some(10), Some(25))
        );
        tokio::time::advance(lifetime / 2).await;
        assert_eq!(
            (growth.of(FileId(1)), growth.of(FileId(2))),
            (None, Some(25))
        );
        set(&growth, &[limit(3, Some(0))], Remove);
        assert_eq!(
            (growth.of(FileId(2)), growth.of(FileId(3))),
            (None, Some(0))
        );
        // A round that began before a file was attached does not know of it.
        set(&growth, &[limit(4, Some(40))], Keep);
        set(&growth, &[limit(3, Some(0))], Remove);
        assert_eq!(growth.of(FileId(4)), Some(40));
        tokio::time::advance(GROWTH_ATTACH_GRACE).await;
        set(&growth, &[limit(3, Some(0))], Remove);
        assert_eq!(growth.of(FileId(4)), None);
        set(&growth, &[], Remove);
        assert!(!growth.any.load(Ordering::Acquire));
    }
}
