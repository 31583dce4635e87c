use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::apps::record::RecordOrder;
use crate::apps::sort::{PathSorting, SortSummary, Sorting};
use crate::apps::{crew, memory};
use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output;
use weft_layout::size;

/// Sort a file of fixed-size records with several processes
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft sort /records --record 64 --key 0..32 --procs 4\n  \
                        weft sort /log --record 128 --key 8..16 --output /log.by-time --json\n\n\
                        The algorithm is FastMeshSort: the processes alternate between two kinds of views of a \
                        two-dimensional file, cells and rows across cells. Records are ordered by the bytes of their \
                        key, then by all their bytes. The result is checked and synced before it replaces FILE \
                        atomically."
)]
pub(crate) struct Sort {
    /// The file: records of equal size, one after the other
    #[arg(value_name = "FILE", value_parser = remote::parser())]
    file: RemotePath,
    /// Bytes of a record
    #[arg(long, value_name = "N", value_parser = size::parse)]
    record: u64,
    /// Byte range of the record to sort by; FROM or TO may be left out [default: the whole record]
    #[arg(long = "key", id = "sort-key", value_name = "FROM..TO")]
    key: Option<String>,
    /// Worker processes
    #[arg(long, value_name = "P", default_value_t = 4)]
    procs: u32,
    /// Write the result here instead of over FILE
    #[arg(long, value_name = "OUT", value_parser = remote::parser())]
    output: Option<RemotePath>,
    /// Memory for the records of each process [default: a quarter of the available memory, shared]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    memory: Option<u64>,
    /// Read FILE cell after cell instead of in canonical order
    #[arg(long)]
    from_cells: bool,
    /// Leave the result as sorted cells, in order when concatenated
    #[arg(long)]
    keep_cells: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Sort {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let order = RecordOrder::parse(self.record, self.key.as_deref())?;
        let memory = self
            .memory
            .unwrap_or_else(|| memory::default_for(self.procs));
        let summary = connect::block_on(async {
            let volume = connect::volume(global).await?;
            let sorting = Sorting {
                global,
                volume: &volume,
                file: self.file.as_ref(),
                output: self.output.as_ref().map(AsRef::as_ref),
                order,
                workers: self.procs,
                memory,
                from_cells: self.from_cells,
                keep_cells: self.keep_cells,
            };
            sorting.run().await
        })?;
        if self.json {
            output::json(&summary)?;
        } else {
            show(&summary)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints what a sort did, a line for each phase.
pub(crate) fn show(summary: &SortSummary) -> Result<()> {
    let mut table = output::table(&["phase", "seconds", "read", "written", "MiB/s", "requests"]);
    for phase in &summary.phases {
        table.add_row([
            phase.phase.clone(),
            format!("{:.2}", phase.seconds),
            output::bytes(phase.bytes_read),
            output::bytes(phase.bytes_written),
            format!("{:.0}", phase.mib_per_second),
            phase.requests.to_string(),
        ]);
    }
    if !summary.phases.is_empty() {
        output::line(table)?;
    }
    let processes = match summary.processes {
        1 => "1 process".to_owned(),
        n => format!("{n} processes"),
    };
    output::line(format_args!(
        "sorted {} of {} ({}) with {} on a mesh of {} in {:.2} s, {:.0} MiB/s: {}",
        output::count(summary.records, "record"),
        output::count(summary.record_bytes, "byte"),
        output::bytes(summary.bytes),
        processes,
        output::count(summary.mesh_cells, "cell"),
        summary.seconds,
        summary.mib_per_second,
        summary.output
    ))
}

/// A worker process of `weft sort`
#[derive(Args)]
pub(crate) struct SortWorker {}

/// Runs such a process.
pub(crate) fn run_worker(global: &Global) -> ExitCode {
    crew::run_worker(crate::apps::sort::run_worker(global))
}

/// The sort of `weft bench sort --path`, on any file system
#[derive(Args)]
pub(crate) struct SortPath {
    /// The file: records of equal size, one after the other
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bytes of a record
    #[arg(long, value_name = "N", value_parser = size::parse)]
    record: u64,
    /// Worker processes
    #[arg(long, value_name = "P", default_value_t = 4)]
    procs: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl SortPath {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let sorting = PathSorting {
            global,
            file: &self.file,
            order: RecordOrder::parse(self.record, None)?,
            workers: self.procs,
            memory: memory::default_for(self.procs),
        };
        let summary = connect::block_on(sorting.run())?;
        if self.json {
            output::json(&summary)?;
        } else {
            show(&summary)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
