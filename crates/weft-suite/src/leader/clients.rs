//! The worker processes of a benchmark: each round, all of them take one step of a point.

use std::process::Stdio;

use tokio::process::Command;
use weft_crew::{Crew, CrewError};

use super::round::{Round, measured};
use crate::error::SuiteError;
use crate::point::{Point, SyncRule};
use crate::row::{Interface, Measured, Op};
use crate::sweep::Sweep;
use crate::target::{BenchFile, OpenTarget};
use crate::task::{Job, Membership, Order, Partners, Report, Syncing, Task};
use crate::volume::failed;
use crate::workload::Workload;

/// The worker processes.
pub(super) struct Clients {
    number: usize,
    crew: Crew,
    /// Writes so far: each has bytes of its own.
    writes: u64,
    /// Rounds so far: each is a group of its own.
    rounds: u64,
    /// Where each listens for the others.
    ports: Vec<u16>,
}

/// A point that is being measured, and the rounds of each of its steps so far.
struct OpenPoint<'a> {
    point: &'a Point,
    file: BenchFile,
    /// The number of the last write, which says what must be found.
    written: u64,
    steps: Vec<(Op, Vec<Round>)>,
}

/// What all clients do in a round.
struct Step<'a> {
    op: Op,
    parts: &'a [Workload],
    /// The number of the write: what is written, or what must be found.
    written: u64,
    syncing: Syncing,
}

impl Clients {
    /// Starts so many; `command` makes the command line of each.
    pub(super) async fn start(
        command: impl FnMut() -> std::process::Command,
        job: Job,
        number: usize,
    ) -> Result<Clients, SuiteError> {
        Ok(Clients {
            number,
            crew: Crew::start(command, &vec![job; number]).await?,
            writes: 0,
            rounds: 0,
            ports: Vec::new(),
        })
    }

    /// Ends them after their last round.
    pub(super) async fn finish(self) -> Result<(), SuiteError> {
        let end = vec![Order::End; self.number];
        Ok(self.crew.finish_with(&end).await?)
    }

    /// Ends them wherever they are, and waits until they are gone.
    pub(super) async fn stop(self) {
        self.crew.stop().await;
    }

    /// Measures all points.
    pub(super) async fn all(
        &mut self,
        sweep: &Sweep,
        stage: &mut OpenTarget,
        points: &[Point],
        progress: &mut impl FnMut(usize, usize, &Point),
    ) -> Result<Vec<Measured>, SuiteError> {
        self.ports = self.arrive().await?.iter().map(|r| r.port).collect();
        let mut measured = Vec::new();
        let mut done = 0;
        for together in points.chunk_by(|one, next| next.is_beside(one)) {
            progress(done, points.len(), &together[0]);
            measured.extend(self.together(sweep, stage, together).await?);
            done += together.len();
        }
        Ok(measured)
    }

    /// Measures points in turn, as often as asked, and once before to warm up: so a machine that
    /// grows slower meanwhile does so for all of them.
    async fn together(
        &mut self,
        sweep: &Sweep,
        stage: &mut OpenTarget,
        points: &[Point],
    ) -> Result<Vec<Measured>, SuiteError> {
        let mut open = Vec::new();
        for point in points {
            let file = stage.create(point).await?;
            let mut written = 0;
            if let Some(parts) = &point.fill {
                written = self.next_write();
                let step = Step {
                    op: Op::Write,
                    parts,
                    written,
                    syncing: Syncing::AtEnd,
                };
                self.round(point, &file, step).await?;
            }
            let steps = point.steps.iter().map(|op| (*op, vec![])).collect();
            open.push(OpenPoint {
                point,
                file,
                written,
                steps,
            });
        }
        let warm_up = usize::from(sweep.runs > 1);
        for run in 0..sweep.runs + warm_up {
            for point in &mut open {
                self.run(sweep, stage, point).await?;
                if run < warm_up {
                    point.steps.iter_mut().for_each(|step| step.1.clear());
                }
            }
        }
        let mut rows = Vec::new();
        for open in open {
            let OpenPoint {
                point, file, steps, ..
            } = open;
            stage.remove(file).await?;
            let asked = steps.into_iter().filter(|(op, _)| sweep.wants(*op));
            rows.extend(asked.filter_map(|(op, rounds)| measured(sweep, point, op, rounds)));
        }
        Ok(rows)
    }

    /// Takes the steps of a point once. A step that changes something is taken whether it is asked
    /// for or not.
    async fn run(
        &mut self,
        sweep: &Sweep,
        stage: &OpenTarget,
        open: &mut OpenPoint<'_>,
    ) -> Result<(), SuiteError> {
        let OpenPoint {
            point,
            file,
            written,
            steps,
        } = open;
        for (op, rounds) in steps {
            if op.makes_bytes() {
                *written = self.next_write();
            }
            if op.only_looks() {
                if !sweep.wants(*op) {
                    continue;
                }
                if point.cold {
                    stage.cool(file)?;
                }
                if let Some(command) = &sweep.before_read {
                    shell(command).await?;
                }
            }
            let step = Step {
                op: *op,
                parts: &point.parts,
                written: *written,
                syncing: syncing(sweep, point),
            };
            rounds.push(self.round(point, file, step).await?);
        }
        Ok(())
    }

    /// All clients take a step with their parts once.
    async fn round(
        &mut self,
        point: &Point,
        file: &BenchFile,
        step: Step<'_>,
    ) -> Result<Round, SuiteError> {
        let Step {
            op,
            parts,
            written,
            syncing,
        } = step;
        self.rounds += 1;
        let collective = point.interface == Interface::Collective;
        let id = format!("weft-bench-{}-{}", std::process::id(), self.rounds);
        let order = |(part, member): (&Workload, u32)| {
            Order::Move(Box::new(Task {
                file: file.handle(member as usize, op),
                shape: point.shape,
                part: part.clone(),
                op,
                seed: written,
                depth: point.depth,
                syncing,
                timed: point.case.times_calls(),
                group: collective.then(|| Membership {
                    id: id.clone(),
                    members: parts.len() as u32,
                    member,
                }),
                partners: point.exchange.then(|| Partners {
                    parts: parts.to_vec(),
                    ports: self.ports[..parts.len()].to_vec(),
                    me: member as usize,
                }),
            }))
        };
        let mut orders: Vec<Order> = parts.iter().zip(0..).map(order).collect();
        orders.resize(self.number, Order::Idle);
        self.crew.release_with(&orders).await?;
        self.arrive().await?;
        self.crew.release().await?;
        let mut reports = self.arrive().await?;
        reports.truncate(parts.len());
        Ok(Round::of(&reports))
    }

    fn next_write(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    async fn arrive(&mut self) -> Result<Vec<Report>, CrewError> {
        self.crew.barrier(|_| {}).await
    }
}

/// When what the steps of a point write is synced.
fn syncing(sweep: &Sweep, point: &Point) -> Syncing {
    match point.sync {
        SyncRule::Each => Syncing::Each,
        SyncRule::AsAsked if sweep.sync => Syncing::AtEnd,
        SyncRule::AsAsked | SyncRule::Never => Syncing::Never,
    }
}

/// Runs a command of the user's.
async fn shell(line: &str) -> Result<(), SuiteError> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    // In a group of its own, as every program that a benchmark runs.
    command.process_group(0).kill_on_drop(true);
    let out = command.output().await;
    let out = out.map_err(SuiteError::local("cannot run", "sh"))?;
    if out.status.success() {
        Ok(())
    } else {
        Err(failed(command.as_std(), &out.stderr))
    }
}
