//! Calls that set growth limits, and the check before each write.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;
use weft_layout::{FileId, Grid};
use weft_proto::quota::{GrowthLimit, LimitGrowthReply, LimitGrowthRequest};
use weft_proto::{Code, Failure, limits};
use weft_store::{ForkKey, ForkName};

use super::table::{ForkGrowth, ForkLengths, OtherLimits, QuotaShort};
use crate::failure;
use crate::io::IoService;
use crate::io::job::{Job, file_id};

impl IoService {
    pub(in crate::io) async fn limit_growth(
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
        let others = if request.keep {
            OtherLimits::Keep
        } else {
            OtherLimits::Remove
        };
        // Limits are set before sizes are read, so no file grows beyond its limit in between.
        self.growth
            .set(&request.files, &lengths, others, Instant::now());
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

    /// The size that the cells on this server give a file, and the lengths of its other forks. A
    /// file that is lost or deleted here counts as empty: the limits of others must not wait for
    /// it.
    async fn grown_here(&self, file: &GrowthLimit) -> Result<(u64, ForkLengths), Failure> {
        let grid = Grid::try_from(&file.grid).map_err(|e| failure::of_convert(&e))?;
        let forks = self.store.forks(file_id(file.file)?).await;
        let (mut size, mut others) = (0, ForkLengths::new());
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

    /// Refuses writes that would make a file, or its other forks, longer than its quota allows,
    /// before they change anything.
    ///
    /// Cost: for a file without a limit a flag or a look-up; otherwise a walk over the request's
    /// pieces, except for contiguous requests.
    pub(in crate::io) async fn may_grow(&self, jobs: &[Job]) -> Result<(), Failure> {
        let mut forks: HashMap<FileId, Vec<&Job>> = HashMap::new();
        for job in jobs {
            let Some(limit) = self.growth.of(job.file) else {
                continue;
            };
            if job.fork != ForkName::data() {
                forks.entry(job.file).or_default().push(job);
            } else if job.size_after()? > limit {
                let what = format!("it may be at most {limit} bytes long at the moment");
                return Err(exceeded(&what));
            }
        }
        for (file, jobs) in forks {
            let growth = self.growth_of(&jobs).await?;
            if let Err(QuotaShort { left, needed }) = self.growth.admit(file, growth) {
                let what = format!("its forks would grow by {needed} bytes, and {left} are left");
                return Err(exceeded(&what));
            }
        }
        Ok(())
    }

    /// How the forks of writes grow.
    async fn growth_of(&self, jobs: &[&Job]) -> Result<Vec<ForkGrowth>, Failure> {
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
            let length = status.map_or(0, |status| status.length);
            all.push(ForkGrowth { key, length, end });
        }
        Ok(all)
    }
}

/// The client, which knows the path, adds how to find the quota.
fn exceeded(what: &str) -> Failure {
    let why = "a quota of its user, group or tree leaves no more";
    Failure::new(Code::QuotaExceeded, format!("{what}: {why}"))
}
