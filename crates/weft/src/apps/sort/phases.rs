//! The phases of a sort on the leader's side: workers, barriers, and the check of the result.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde::Serialize;
use weft_crew::Crew;

use super::job::{SortJob, SortReport};
use super::mesh::{Mesh, Phase};
use crate::apps::crew::worker_command;
use crate::apps::record::RecordDigest;
use crate::args::Global;

/// The summary of one phase over all workers.
#[derive(Debug, Serialize)]
pub(crate) struct PhaseSummary {
    pub(crate) phase: String,
    pub(crate) seconds: f64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) mib_per_second: f64,
    pub(crate) requests: u64,
    /// The working time of each worker; for the rest of `seconds` it waited for others.
    pub(crate) worker_seconds: Vec<f64>,
}

/// The results of all phases.
#[derive(Default)]
pub(super) struct Phases {
    pub(super) done: Vec<PhaseSummary>,
    /// The digest of the loaded records.
    pub(super) digest: RecordDigest,
}

impl PhaseSummary {
    fn new(phase: Phase, began: Instant, reports: &[SortReport]) -> PhaseSummary {
        let seconds = began.elapsed().as_secs_f64();
        let sum = |of: fn(&SortReport) -> u64| reports.iter().map(of).sum();
        let (bytes_read, bytes_written) = (sum(|r| r.read), sum(|r| r.written));
        PhaseSummary {
            phase: phase.name(),
            seconds,
            bytes_read,
            bytes_written,
            mib_per_second: mib_per_second(bytes_read + bytes_written, seconds),
            requests: sum(|r| r.requests),
            worker_seconds: reports.iter().map(|r| r.seconds).collect(),
        }
    }
}

/// Runs all phases with a worker for each job, and checks the result. `synced` syncs the result
/// while the workers read it back.
pub(super) async fn work(
    global: &Global,
    mesh: &Mesh,
    jobs: &[SortJob],
    synced: impl Future<Output = Result<()>>,
) -> Result<Phases> {
    let mut crew = Crew::start(worker_command(global, "sort-worker")?, jobs).await?;
    match all(&mut crew, mesh, synced).await {
        Ok(phases) => {
            crew.finish().await?;
            Ok(phases)
        }
        Err(error) => {
            crew.stop().await;
            Err(error)
        }
    }
}

async fn all(
    crew: &mut Crew,
    mesh: &Mesh,
    synced: impl Future<Output = Result<()>>,
) -> Result<Phases> {
    let mut synced = Some(synced);
    let mut phases = Phases::default();
    let mut result = RecordDigest::default();
    for (i, phase) in mesh.phases().into_iter().enumerate() {
        if i > 0 {
            crew.release().await?;
        }
        let began = Instant::now();
        let bar = progress(mesh, phase);
        let barrier = crew.barrier::<SortReport>(|bytes| bar.inc(bytes));
        let reports = match synced.take_if(|_| phase == Phase::Verify) {
            Some(synced) => {
                let synced = async {
                    synced
                        .await
                        .context("cannot sync the result: nothing was replaced")
                };
                tokio::try_join!(async { Ok(barrier.await?) }, synced)?.0
            }
            None => barrier.await?,
        };
        bar.finish_and_clear();
        for report in &reports {
            match phase {
                Phase::Load => phases.digest.add(report.digest),
                Phase::Verify => result.add(report.digest),
                Phase::Rows(_) | Phase::Cells(_) => {}
            }
        }
        if let Some(record) = reports.iter().filter_map(|r| r.disorder).min() {
            bail!(
                "internal error: record {record} of the result is out of order; nothing was replaced; please report this"
            );
        }
        phases.done.push(PhaseSummary::new(phase, began, &reports));
    }
    if phases.digest != result || result.records != mesh.records {
        bail!(
            "the result has {} records and the file {} (checksums {:016x} and {:016x}): nothing was replaced; sort it again",
            result.records,
            mesh.records,
            result.sum,
            phases.digest.sum
        );
    }
    Ok(phases)
}

fn progress(mesh: &Mesh, phase: Phase) -> ProgressBar {
    let all = mesh.cell_bytes() * u64::from(mesh.cells);
    let real = mesh.records * mesh.record;
    let written = if mesh.is_final(phase) { real } else { all };
    let total = match phase {
        Phase::Load => real + written,
        Phase::Rows(_) => 2 * all,
        Phase::Cells(_) => all + written,
        Phase::Verify => real,
    };
    crate::terminal::progress::of_bytes(&phase.name(), total)
}

/// MiB per second; 0 where there was no time to measure.
pub(crate) fn mib_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 / f64::from(1 << 20) / seconds
    } else {
        0.0
    }
}
