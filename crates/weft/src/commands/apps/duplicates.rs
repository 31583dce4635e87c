use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::apps::duplicates::{Search, SearchSummary};
use crate::apps::{crew, memory};
use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output;
use weft_layout::size;

/// Find duplicate blocks in a local directory tree with several processes
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft duplicates /usr/share/doc --procs 4\n  \
                        weft duplicates ~/photos --grid /photos.grid --cells 8 --procs 8 --json\n\n\
                        Each process writes a record (hash, file, offset) of each of its blocks to separate cells of \
                        one file, the grid. A sort as by `weft sort` groups equal blocks, which are then counted. The \
                        sorted grid stays in the volume, with the list of files in fork `names` of cell 0."
)]
pub(crate) struct Duplicates {
    /// The local directory
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Worker processes
    #[arg(long, value_name = "P", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    procs: u32,
    /// The file of records in the volume; replaced if it exists
    #[arg(long, value_name = "FILE", default_value = "/duplicates/records.grid", value_parser = remote::parser())]
    grid: RemotePath,
    /// Cells of the grid, a multiple of --procs [default: same as --procs]
    #[arg(long, value_name = "C")]
    cells: Option<u32>,
    /// Size of a block
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = block)]
    block: u64,
    /// Memory for the records of each process [default: a quarter of the available memory, shared]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    memory: Option<u64>,
    /// Number of groups to show, starting with those that waste the most
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn block(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes @ 512..=0x100_0000 => Ok(bytes),
        bytes => Err(format!(
            "a block cannot have {bytes} bytes: choose 512 to 16 MiB"
        )),
    }
}

impl Duplicates {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let memory = self
            .memory
            .unwrap_or_else(|| memory::default_for(self.procs));
        let summary = connect::block_on(async {
            let volume = connect::volume(global).await?;
            let search = Search {
                global,
                volume: &volume,
                tree: &self.tree,
                grid: self.grid.as_ref(),
                cells: self.cells.unwrap_or(self.procs),
                block: self.block,
                workers: self.procs,
                memory,
                top: self.top,
            };
            search.run().await
        })?;
        if self.json {
            output::json(&summary)?;
        } else {
            show(&summary)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(summary: &SearchSummary) -> Result<()> {
    let mut table = output::table(&[
        "process", "blocks", "read", "written", "seconds", "MiB/s", "requests",
    ]);
    for (i, worker) in summary.workers.iter().enumerate() {
        table.add_row([
            i.to_string(),
            worker.blocks.to_string(),
            output::bytes(worker.bytes),
            output::bytes(worker.written),
            format!("{:.2}", worker.seconds),
            format!("{:.0}", worker.mib_per_second),
            worker.requests.to_string(),
        ]);
    }
    output::line(table)?;
    output::line(format_args!(
        "wrote a record of each block of {} ({}) in {:.2} s, {:.0} MiB/s: {}\n",
        output::count(summary.files, "file"),
        output::bytes(summary.bytes),
        summary.scan_seconds,
        summary.scan_mib_per_second,
        summary.grid
    ))?;
    super::sort::show(&summary.sort)?;
    if !summary.top.is_empty() {
        output::line("\nmost wasted by equal blocks:")?;
    }
    for group in &summary.top {
        output::line(format_args!(
            "  {} blocks of {} bytes, {} wasted ({}…)",
            group.blocks,
            group.block_bytes,
            output::bytes(group.saves),
            &group.hash[..16]
        ))?;
        for place in &group.places {
            output::line(format_args!("    {} at {}", place.file, place.offset))?;
        }
        let more = group.blocks - group.places.len() as u64;
        if more > 0 {
            output::line(format_args!("    and {more} more"))?;
        }
    }
    for skipped in &summary.skipped {
        output::say(format_args!(
            "weft: skipped {}: {}",
            skipped.path, skipped.reason
        ));
    }
    if summary.skipped_files > summary.skipped.len() as u64 {
        output::say(format_args!(
            "weft: skipped {} in all",
            output::count(summary.skipped_files, "file")
        ));
    }
    output::line(format_args!(
        "\n{}, {} distinct, {}: deduplication would save {} of {} ({:.1} %)",
        output::count(summary.blocks, "block"),
        summary.distinct,
        output::count(summary.duplicates, "duplicate"),
        output::bytes(summary.duplicate_bytes),
        output::bytes(summary.bytes),
        100.0 * summary.duplicate_share
    ))
}

/// A worker process of `weft duplicates`
#[derive(Args)]
pub(crate) struct DuplicatesWorker {}

/// Runs such a process.
pub(crate) fn run_worker(global: &Global) -> ExitCode {
    crew::run_worker(crate::apps::duplicates::run_worker(global))
}
