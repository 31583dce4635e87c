//! Measurements of Weft as shares of what the machine allows, in the same run; `bench/README.md`
//! says what is compared with what. Machines are noisy: each case runs several times, interleaved
//! with its limit, and reports medians.

mod disk;
mod interfaces;
mod metadata;
mod plain;
mod read;
mod rebuild;
mod store;
mod volume;
mod write;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "weft-bench", about)]
struct Cli {
    /// Folder on the disk to measure
    #[arg(long, global = true, default_value = "/var/tmp")]
    folder: PathBuf,
    /// The binary to measure; without it, `weft` beside this one
    #[arg(long, global = true)]
    weft: Option<PathBuf>,
    /// Runs of each case
    #[arg(long, global = true, default_value_t = 5)]
    runs: usize,
    #[command(subcommand)]
    case: Case,
}

#[derive(Subcommand)]
enum Case {
    /// One client reads from four servers' memory, beside a plain TCP stream
    Read {
        /// Bytes read, in MiB
        #[arg(long, default_value_t = 1024)]
        mib: u64,
        /// Requests in flight
        #[arg(long, default_value_t = 4)]
        depth: usize,
    },
    /// Writes with sync, beside direct I/O and the local file system
    Write {
        /// Bytes written, in MiB
        #[arg(long, default_value_t = 1024)]
        mib: u64,
        /// Requests in flight
        #[arg(long, default_value_t = 8)]
        depth: usize,
    },
    /// Creates, stats and removes, beside the engine's durable transactions
    Metadata {
        /// Files
        #[arg(long, default_value_t = 5000)]
        files: usize,
    },
    /// One server on one disk, beside direct I/O: large and small, cold, rewritten, after
    /// checkpoints
    Store {
        /// A file's size, in MiB
        #[arg(long, default_value_t = 1024)]
        mib: u64,
        /// Small accesses of each kind
        #[arg(long, default_value_t = 8000)]
        small: u64,
        /// MiB of large accesses in flight, of Weft and of the disk; `weft cp` keeps 32 of a file
        #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=256))]
        in_flight: u64,
        /// Chunks of the long file of which checkpoints are made; 0: leave that out
        #[arg(long, default_value_t = 1_000_000)]
        chunks: u64,
        /// Only these of the measurements
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<store::Part>,
    },
    /// The rebuild of a lost machine, beside what its link allows, and what clients keep of their
    /// speed meanwhile (root: it needs network namespaces)
    Rebuild {
        /// List of numbers of servers, each with two replicas
        #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8])]
        servers: Vec<u32>,
        /// Bytes per second of each machine's link, in MiB
        #[arg(long, default_value_t = 10)]
        link: u64,
        /// Bytes in the volume, in MiB
        #[arg(long, default_value_t = 512)]
        mib: u64,
    },
    /// Calls through the C interface, beside the same ones from Rust
    Interfaces,
    /// The other end of the plain TCP stream (started by `read`)
    #[command(hide = true)]
    Sender { mib: u64 },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let setting = volume::Setting::new(cli.folder, cli.weft, cli.runs)?;
    match cli.case {
        Case::Read { mib, depth } => read::run(&setting, mib, depth),
        Case::Write { mib, depth } => write::run(&setting, mib, depth),
        Case::Metadata { files } => metadata::run(&setting, files),
        Case::Store {
            mib,
            small,
            in_flight,
            chunks,
            only,
        } => {
            let amount = store::Amount {
                mib,
                small,
                in_flight,
                chunks,
            };
            store::run(&setting, &amount, &only)
        }
        Case::Rebuild { servers, link, mib } => rebuild::run(&setting, &servers, link, mib),
        Case::Interfaces => interfaces::run(&setting),
        Case::Sender { mib } => plain::send(mib),
    }
}

/// The middle of several runs.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One line of a result: median, least and most.
fn show(what: &str, unit: &str, values: &[f64]) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    println!(
        "{what:<44} {:>9.0} {unit}  ({least:.0}-{most:.0})",
        median(values.to_vec())
    );
}

/// How a median stands to its limit.
fn share(what: &str, values: &[f64], limit: &[f64]) {
    println!(
        "{what:<44} {:>8.0} %",
        100.0 * median(values.to_vec()) / median(limit.to_vec())
    );
}
