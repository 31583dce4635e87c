//! `weft bench`: its options, and the run of a case.

mod plot;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use weft_layout::size;
use weft_suite::{Bench as Suite, Case, Interface, Measured, Op, Sweep, Target, VolumePlace};

use self::plot::Plot;
use crate::apps::crew;
use crate::args::Global;
use crate::limits::REPLICAS_MAX;
use crate::remote::connect;
use crate::terminal::{interrupt, output, progress};

/// Benchmark a volume, or any mounted path: the papers' experiments, small calls, small files
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft bench galley --servers 4 --clients 4 --pattern interleaved --record 64
  weft bench vesta-scale --pattern in-proportion --servers 1,2,4
  weft --volume /srv/weft bench pvfs --json
  weft bench galley --path /mnt/other --runs 5
  weft bench small --path /mnt/a --path /mnt/b --pattern interleaved,local-interleaved
  weft bench files --path /mnt/a --clients 1,2 --before-read ./drop-caches
  weft bench vesta-scale --pattern in-proportion --link 10MiB --json > rows.json
  weft bench pvfs --pattern servers --servers 4 --replicas 1,2          what redundancy costs
  weft bench plot rows.json -o rows.svg

Without --volume, WEFT_VOLUME or --path, a temporary volume is started and removed afterwards. Every byte read is checked.
docs/benchmarks.md describes each case and what its paper found, and how to compare file systems.")]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Galley: broadcast, partitioned and interleaved records; one call per record vs strided calls
    Galley(CaseArgs),
    /// PVFS: the local disk, many servers, stripe sizes, matching and mismatched partitions
    Pvfs(CaseArgs),
    /// Vesta: one client with three striping units, subfiles by cell and across, a matrix by rows
    /// and columns
    VestaViews(CaseArgs),
    /// Vesta: one client on many servers, growing systems, one client per server
    VestaScale(CaseArgs),
    /// sfs: transfer sizes on growing numbers of servers, including odd sizes and odd blocks
    Sfs(CaseArgs),
    /// CAPFS: nine clients with the overlapping tiles of a display
    Tile(CaseArgs),
    /// A 3-D array over eight clients: collective calls vs a hand-written exchange
    Array(CaseArgs),
    /// Vesta: `weft sort`, which is FastMeshSort, on growing numbers of servers
    Sort(CaseArgs),
    /// Vesta: disjoint shares of a file by reckless and by cautious operations
    Order(CaseArgs),
    /// CAPFS: addressed files with new contents, and with contents that servers know
    Addressed(CaseArgs),
    /// CAPFS: what the consistency policies of a shared file cost
    Policies(CaseArgs),
    /// Small records by plain calls: interleaved, in order, at random, synced, not cached
    Small(CaseArgs),
    /// The life of small files: create and write, stat, open and read, remove
    Files(CaseArgs),
    /// Plot results as SVG or PNG
    Plot(Plot),
}

#[derive(Args)]
struct CaseArgs {
    /// List of server counts; a temporary volume has the largest of them
    #[arg(long, value_delimiter = ',', value_name = "N")]
    servers: Vec<u32>,
    /// List of numbers of replicas: for each one, a temporary volume whose servers have as many
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(REPLICAS_MAX)))]
    replicas: Vec<u32>,
    /// Kill a backup of the first server before anything is measured; with --replicas of at least 2
    #[arg(long, requires = "replicas", conflicts_with = "link")]
    degraded: bool,
    /// List of client process counts
    #[arg(long, value_delimiter = ',', value_name = "N")]
    clients: Vec<u32>,
    /// List of patterns of the case
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pattern: Vec<String>,
    /// List of record sizes, or of what the case varies instead
    #[arg(long, value_delimiter = ',', value_name = "SIZE", value_parser = size::parse)]
    record: Vec<u64>,
    /// Measure only this operation: read, write, create, stat or remove
    #[arg(long, value_name = "OP")]
    op: Option<Op>,
    /// List of interfaces: traditional, strided or collective
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    interface: Vec<Interface>,
    /// Factor for the amount of data
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// Runs of each point, of which the median is reported; with more than one, a warm-up run comes
    /// first
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measure writes until they are acknowledged, not until they are synced
    #[arg(long)]
    no_sync: bool,
    /// Benchmark this directory, on any file system, with POSIX calls; given again: the same
    /// directory in another mount, and what is written through one mount is read through the next
    #[arg(long, value_name = "DIR")]
    path: Vec<PathBuf>,
    /// Run this shell command before each step that reads or asks for attributes, to empty caches
    #[arg(long, value_name = "COMMAND")]
    before_read: Option<String>,
    /// Folder for the temporary volume, and for what is measured on the local disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    folder: PathBuf,
    /// Limit the link of each server of the temporary volume to this many bytes per second, each
    /// way
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    link: Option<u64>,
    /// Label of the results in a plot of several
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        match self.command {
            BenchCommand::Galley(args) => args.run(Case::Galley, global),
            BenchCommand::Pvfs(args) => args.run(Case::Pvfs, global),
            BenchCommand::VestaViews(args) => args.run(Case::VestaViews, global),
            BenchCommand::VestaScale(args) => args.run(Case::VestaScale, global),
            BenchCommand::Sfs(args) => args.run(Case::Sfs, global),
            BenchCommand::Tile(args) => args.run(Case::Tile, global),
            BenchCommand::Array(args) => args.run(Case::Array, global),
            BenchCommand::Sort(args) => args.run(Case::Sort, global),
            BenchCommand::Order(args) => args.run(Case::Order, global),
            BenchCommand::Addressed(args) => args.run(Case::Addressed, global),
            BenchCommand::Policies(args) => args.run(Case::Policies, global),
            BenchCommand::Small(args) => args.run(Case::Small, global),
            BenchCommand::Files(args) => args.run(Case::Files, global),
            BenchCommand::Plot(plot) => plot.run(),
        }
    }
}

impl CaseArgs {
    fn run(self, case: Case, global: &Global) -> Result<ExitCode> {
        if case == Case::Sort && (self.path.len() > 1 || self.before_read.is_some()) {
            bail!(
                "sort takes one --path, and no --before-read: its processes run to their end on their own"
            );
        }
        let mut measured = Vec::new();
        match &self.replicas[..] {
            [] => measured.extend(self.measure(case, global, None)?),
            counts => {
                for replicas in counts {
                    measured.extend(self.measure(case, global, Some(*replicas))?);
                }
            }
        }
        if self.json {
            let rows: Vec<_> = measured.iter().map(|m| &m.row).collect();
            output::json(&rows)?;
        } else {
            table::show(&measured)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Measures a case, in a volume whose servers have so many replicas.
    fn measure(&self, case: Case, global: &Global, replicas: Option<u32>) -> Result<Vec<Measured>> {
        let suite = self.suite(global, replicas)?;
        let bar = progress::of_things(case.name(), "points", None);
        let measured = connect::block_on(async {
            let measured = suite.run(case, |done, all, point| {
                bar.set_length(all as u64);
                bar.set_position(done as u64);
                bar.set_message(format!(
                    "{} {}, {} a record, {}, {}",
                    point.pattern,
                    point.interface.name(),
                    output::bytes(point.record),
                    output::count(point.servers, "server"),
                    output::count(point.parts.len(), "client")
                ));
            });
            // The suite handles signals itself.
            let _orderly = interrupt::Orderly::begin()?;
            let measured = measured.await;
            match interrupt::pending() {
                Some(signal) if measured.is_err() => Err(signal.ended(
                    "what was started for the measurement is stopped, and no result is kept",
                )),
                _ => Ok(measured?),
            }
        });
        bar.finish_and_clear();
        let mut measured = measured?;
        let several = self.replicas.len() > 1;
        for one in &mut measured {
            let count = replicas.filter(|_| several);
            let degraded = if self.degraded && count.is_some_and(|n| n > 1) {
                ", one lost"
            } else {
                ""
            };
            let of_count = count.map(|n| output::count(n as usize, "replica") + degraded);
            one.row.label = self.label.clone().or(of_count);
            one.row.replicas = replicas;
        }
        Ok(measured)
    }

    fn suite(&self, global: &Global, replicas: Option<u32>) -> Result<Suite> {
        let target = match (
            &self.path[..],
            global.address(),
            global.key(),
            global.folder(),
        ) {
            ([_, ..], ..) => Target::Paths(self.path.clone()),
            ([], Some(address), Some(key), _) => {
                Target::Standing(VolumePlace::Address(address.to_owned(), key.to_owned()))
            }
            ([], _, _, Some(folder)) => Target::Standing(VolumePlace::Folder(folder.to_owned())),
            _ => Target::Own {
                folder: self.folder.clone(),
                replicas: replicas.unwrap_or(1),
                degraded: self.degraded && replicas.is_some_and(|n| n > 1),
                link: self.link,
            },
        };
        let is_own = matches!(target, Target::Own { .. });
        for (option, is_given) in [
            ("--link", self.link.is_some()),
            ("--replicas", replicas.is_some()),
        ] {
            if is_given && !is_own {
                bail!(
                    "{option} is about the servers of the temporary volume: it cannot be used with --path or an existing volume \
                     (--volume, --address, WEFT_VOLUME, WEFT_ADDRESS)"
                );
            }
        }
        Ok(Suite {
            program: std::env::current_exe().context("cannot find the program of the clients")?,
            worker: "bench-worker",
            target,
            local: self.folder.clone(),
            sweep: Sweep {
                servers: self.servers.clone(),
                clients: self.clients.clone(),
                patterns: self.pattern.clone(),
                records: self.record.clone(),
                ops: self.op.into_iter().collect(),
                interfaces: self.interface.clone(),
                scale: self.scale,
                runs: self.runs as usize,
                sync: !self.no_sync,
                before_read: self.before_read.clone(),
                ..Sweep::default()
            },
        })
    }
}

/// A client process of `weft bench`
#[derive(Args)]
pub(crate) struct BenchWorker {}

/// Runs such a process.
pub(crate) fn run_worker() -> ExitCode {
    crew::run_worker(async { Ok(weft_suite::run_worker().await?) })
}
