//! The leader of a benchmark: points one after the other, each in rounds of a write and a read by
//! all clients.

use std::path::PathBuf;
use std::process::Command;

use weft_crew::{Crew, CrewError, Interrupts};

use super::sort;
use crate::error::SuiteError;
use crate::point::{Case, Point};
use crate::row::{Interface, Measured, Op, Row};
use crate::sweep::Sweep;
use crate::target::{BenchFile, OpenTarget, Target};
use crate::task::{Job, Membership, Order, Partners, Report, Task};
use crate::workload::Workload;

/// A benchmark as it was asked for.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The binary: it starts volumes, and executes itself as a client.
    pub program: PathBuf,
    /// The binary's subcommand that calls [`run_worker`](crate::run_worker).
    pub worker: &'static str,
    /// Where to measure.
    pub target: Target,
    /// Which points, and how.
    pub sweep: Sweep,
}

/// One round of one point.
struct Round {
    seconds: f64,
    bytes: u64,
    messages: Option<u64>,
    cpu: f64,
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
        let mut interrupts = Interrupts::listen()?;
        let sweep = Sweep {
            place: self.target.place().await?,
            ..self.sweep.clone()
        };
        let points = case.points(&sweep)?;
        let servers = points.iter().map(|p| p.servers).max().unwrap_or(1);
        let mut stage = self.target.open(&self.program, servers).await?;
        let done = tokio::select! {
            done = self.points(&sweep, &mut stage, &points, &mut progress) => done,
            how = interrupts.wait() => Err(SuiteError::Interrupted(how)),
        };
        let closed = stage.close().await;
        let measured = done?;
        closed?;
        Ok(measured)
    }

    async fn points(
        &self,
        sweep: &Sweep,
        stage: &mut OpenTarget,
        points: &[Point],
        progress: &mut impl FnMut(usize, usize, &Point),
    ) -> Result<Vec<Measured>, SuiteError> {
        if points.iter().all(|p| p.case == Case::Sort) {
            let mut measured = Vec::new();
            for (i, point) in points.iter().enumerate() {
                progress(i, points.len(), point);
                measured.extend(sort::point(&self.program, sweep, stage, point).await?);
            }
            return Ok(measured);
        }
        let clients = points.iter().map(|p| p.parts.len()).max().unwrap_or(1);
        let job = Job {
            volume: stage.place(),
        };
        let command = || {
            let mut command = Command::new(&self.program);
            command.arg(self.worker);
            command
        };
        let mut clients = Clients {
            number: clients,
            crew: Crew::start(command, &vec![job; clients]).await?,
            writes: 0,
            rounds: 0,
            ports: Vec::new(),
        };
        let done = clients.all(sweep, stage, points, progress).await;
        match done {
            Ok(measured) => {
                let end = vec![Order::End; clients.number];
                clients.crew.finish_with(&end).await?;
                Ok(measured)
            }
            Err(error) => {
                clients.crew.stop().await;
                Err(error)
            }
        }
    }
}

/// The worker processes.
struct Clients {
    number: usize,
    crew: Crew,
    /// Writes so far: each has bytes of its own.
    writes: u64,
    /// Rounds so far: each is a group of its own.
    rounds: u64,
    /// Where each listens for the others.
    ports: Vec<u16>,
}

impl Clients {
    async fn all(
        &mut self,
        sweep: &Sweep,
        stage: &mut OpenTarget,
        points: &[Point],
        progress: &mut impl FnMut(usize, usize, &Point),
    ) -> Result<Vec<Measured>, SuiteError> {
        self.ports = self.arrive().await?.iter().map(|r| r.port).collect();
        let mut measured = Vec::new();
        for (i, point) in points.iter().enumerate() {
            progress(i, points.len(), point);
            let file = stage.create(point).await?;
            measured.extend(self.point(sweep, point, &file).await?);
            stage.remove(file).await?;
        }
        Ok(measured)
    }

    /// Writes and reads, as often as asked, and once before to warm up.
    async fn point(
        &mut self,
        sweep: &Sweep,
        point: &Point,
        file: &BenchFile,
    ) -> Result<Vec<Measured>, SuiteError> {
        let warm_up = usize::from(sweep.runs > 1);
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        if let Some(fill) = &point.fill {
            self.round(sweep, point, file, (Op::Write, fill)).await?;
        }
        for run in 0..sweep.runs + warm_up {
            if point.fill.is_none() {
                let wrote = self.round(sweep, point, file, (Op::Write, &point.parts));
                writes.push(wrote.await?);
            }
            if sweep.wants(Op::Read) {
                let read = self.round(sweep, point, file, (Op::Read, &point.parts));
                reads.push(read.await?);
            }
            if run < warm_up {
                writes.clear();
                reads.clear();
            }
        }
        if !sweep.wants(Op::Write) {
            writes.clear();
        }
        let rows = [(Op::Write, writes), (Op::Read, reads)];
        Ok(rows
            .into_iter()
            .filter_map(|(op, rounds)| measured(sweep, point, op, rounds))
            .collect())
    }

    /// All clients move their parts once.
    async fn round(
        &mut self,
        sweep: &Sweep,
        point: &Point,
        file: &BenchFile,
        (op, parts): (Op, &[Workload]),
    ) -> Result<Round, SuiteError> {
        if op == Op::Write {
            self.writes += 1;
        }
        self.rounds += 1;
        let collective = point.interface == Interface::Collective;
        let id = format!("weft-bench-{}-{}", std::process::id(), self.rounds);
        let order = |(part, member): (&Workload, u32)| {
            Order::Move(Box::new(Task {
                file: file.handle.clone(),
                shape: point.shape,
                part: part.clone(),
                op,
                seed: self.writes,
                depth: point.depth,
                sync: sweep.sync,
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

    async fn arrive(&mut self) -> Result<Vec<Report>, CrewError> {
        self.crew.barrier(|_| {}).await
    }
}

impl Round {
    fn of(reports: &[Report]) -> Round {
        let first = reports.iter().min_by_key(|r| r.began);
        let last = reports.iter().max_by_key(|r| r.ended);
        let (seconds, cpu) = match (first, last) {
            (Some(first), Some(last)) => (
                (last.ended - first.began) as f64 / 1e9,
                last.cpu[1].share_since(first.cpu[0]),
            ),
            _ => (0.0, 0.0),
        };
        Round {
            seconds,
            bytes: reports.iter().map(|r| r.moved).sum(),
            messages: reports.iter().map(|r| r.messages).sum(),
            cpu,
        }
    }

    fn mib_per_s(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds.max(1e-9)
    }
}

/// The median of the rounds.
fn measured(sweep: &Sweep, point: &Point, op: Op, mut rounds: Vec<Round>) -> Option<Measured> {
    rounds.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let (fastest, slowest) = (rounds.first()?.mib_per_s(), rounds.last()?.mib_per_s());
    let median = &rounds[rounds.len() / 2];
    let row = Row {
        case: point.case.name().to_owned(),
        pattern: point.pattern.clone(),
        op,
        interface: point.interface,
        record: point.record,
        servers: if point.local {
            0
        } else {
            sweep.known(point.servers)
        },
        clients: point.parts.len() as u32,
        bytes: median.bytes,
        seconds: median.seconds,
        mib_per_s: median.mib_per_s(),
        messages: median
            .messages
            .filter(|_| point.interface != Interface::Posix),
        label: None,
    };
    Some(Measured {
        row,
        range: (slowest, fastest),
        cpu: median.cpu,
    })
}
