//! The options that import and export share.

use clap::Args;
use weft_layout::size;

use crate::args::ViewArgs;
use crate::copy::TransferPart;

/// How to transfer.
#[derive(Args, Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct TransferArgs {
    /// Copy part I of N, in whole pieces of 4 MiB; other processes, on any machine, copy the others
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(crate) part: TransferPart,
    /// Pieces to copy at a time; for a tree, files
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) streams: u16,
    /// Continue an interrupted transfer of the same source
    #[arg(long)]
    pub(crate) resume: bool,
    /// Overwrite existing data, and discard the progress of an earlier transfer
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
    /// At the end, read both sides again and compare them with each other and with what was copied
    #[arg(long)]
    pub(crate) verify: bool,
    /// Copy nothing, only compare both sides
    #[arg(long, conflicts_with_all = ["resume", "force", "verify"])]
    pub(crate) compare: bool,
    /// Sync and record the progress after every so many bytes
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = size::parse_positive)]
    pub(crate) checkpoint: u64,
    /// Limit on the bytes copied per second
    #[arg(long, value_name = "BYTES", value_parser = size::parse_positive)]
    pub(crate) limit: Option<u64>,
    /// Copy everything in a directory; a view applies to each file, a part takes whole files, and
    /// --resume (without a view) skips files of equal size and time
    #[arg(short, long, conflicts_with = "limit")]
    pub(crate) recursive: bool,
    /// One of several transfers of a tree: it shows no progress bar
    #[arg(skip)]
    pub(crate) among_others: bool,
    /// Print a summary even if standard error is not a terminal
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
    // Last, as its heading holds for what follows.
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}
