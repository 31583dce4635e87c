//! The leader of a benchmark: points one after the other, each in rounds of one step by all
//! clients.

use std::path::PathBuf;
use std::process::Command;

use weft_crew::Interrupts;

use super::clients::Clients;
use super::sort;
use crate::error::SuiteError;
use crate::point::{Case, Point};
use crate::row::Measured;
use crate::sweep::{Sweep, TargetKind};
use crate::target::{OpenTarget, Target};
use crate::task::Job;

/// A benchmark as it was asked for.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The binary: it starts volumes, and executes itself as a client.
    pub program: PathBuf,
    /// The binary's subcommand that calls [`run_worker`](crate::run_worker).
    pub worker: &'static str,
    /// Where to measure.
    pub target: Target,
    /// A folder on the local disk, for points that are measured beside the target.
    pub local: PathBuf,
    /// Which points, and how.
    pub sweep: Sweep,
}

impl Bench {
    /// Measures all points of a case. `progress` hears what is measured next, and which of how many
    /// points that is.
    ///
    /// # Errors
    /// A [`SuiteError`]; also where the user interrupts. What was made is removed then, too.
    pub async fn run(
        &self,
        case: Case,
        mut progress: impl FnMut(usize, usize, &Point),
    ) -> Result<Vec<Measured>, SuiteError> {
        let interrupts = Interrupts::listen()?;
        let sweep = Sweep {
            place: self.target.place().await?,
            ..self.sweep.clone()
        };
        let points = case.points(&sweep)?;
        let servers = points.iter().map(|p| p.servers).max().unwrap_or(1);
        let local = sweep.place == TargetKind::Own || points.iter().any(|p| p.local);
        let local = local.then_some(self.local.as_path());
        let mut stage = self.target.open(&self.program, servers, local).await?;
        let mut run = Run {
            bench: self,
            sweep: &sweep,
            points: &points,
            interrupts,
        };
        let done = if case == Case::Sort {
            run.sorts(&mut stage, &mut progress).await
        } else {
            run.rounds(&mut stage, &mut progress).await
        };
        let closed = stage.close().await;
        let measured = done?;
        closed?;
        Ok(measured)
    }
}

/// One benchmark that runs. When its work ends, also by a signal, no process of it is left that
/// could still make files.
struct Run<'a> {
    bench: &'a Bench,
    sweep: &'a Sweep,
    points: &'a [Point],
    interrupts: Interrupts,
}

impl Run<'_> {
    async fn sorts(
        &mut self,
        stage: &mut OpenTarget,
        progress: &mut impl FnMut(usize, usize, &Point),
    ) -> Result<Vec<Measured>, SuiteError> {
        let sorted = async {
            let mut measured = Vec::new();
            for (i, point) in self.points.iter().enumerate() {
                progress(i, self.points.len(), point);
                let program = &self.bench.program;
                measured.extend(sort::point(program, self.sweep, stage, point).await?);
            }
            Ok(measured)
        };
        unless_interrupted(&mut self.interrupts, sorted).await
    }

    async fn rounds(
        &mut self,
        stage: &mut OpenTarget,
        progress: &mut impl FnMut(usize, usize, &Point),
    ) -> Result<Vec<Measured>, SuiteError> {
        let number = self.points.iter().map(|p| p.parts.len()).max().unwrap_or(1);
        let job = Job {
            volume: stage.place(),
        };
        let command = || {
            let mut command = Command::new(&self.bench.program);
            command.arg(self.bench.worker);
            command
        };
        let mut clients = Clients::start(command, job, number).await?;
        let all = clients.all(self.sweep, stage, self.points, progress);
        let done = unless_interrupted(&mut self.interrupts, all).await;
        match done {
            Ok(measured) => {
                clients.finish().await?;
                Ok(measured)
            }
            Err(error) => {
                clients.stop().await;
                Err(error)
            }
        }
    }
}

/// Works until the end or a signal; the work is dropped then.
async fn unless_interrupted<T>(
    interrupts: &mut Interrupts,
    work: impl Future<Output = Result<T, SuiteError>>,
) -> Result<T, SuiteError> {
    tokio::select! {
        done = work => done,
        how = interrupts.wait() => Err(SuiteError::Interrupted(how)),
    }
}
