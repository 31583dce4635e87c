//! The options that import and export share.

use clap::Args;
use weft_layout::size;

use crate::args::ViewArgs;
use crate::copy::Part;

/// How to transfer.
#[derive(Args, Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct TransferArgs {
    /// Take one share of N, in whole pieces of 4 MiB; another process, on any machine, takes each
    /// of the others
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(crate) part: Part,
    /// Pieces under way at a time; of a tree, files
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) streams: u16,
    /// Go on where an interrupted transfer of the same source stopped
    #[arg(long)]
    pub(crate) resume: bool,
    /// Write over what is there; progress of an earlier transfer is forgotten
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
    /// Read both sides again at the end, and compare them with each other and with what was copied
    #[arg(long)]
    pub(crate) verify: bool,
    /// Copy nothing, only compare both sides
    #[arg(long, conflicts_with_all = ["resume", "force", "verify"])]
    pub(crate) compare: bool,
    /// Make what was copied durable, and note it, whenever as much is new
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = size::parse_positive)]
    pub(crate) checkpoint: u64,
    /// Bytes per second at most
    #[arg(long, value_name = "BYTES", value_parser = size::parse_positive)]
    pub(crate) limit: Option<u64>,
    /// Everything that a directory holds, a view for each of its files; a part takes whole files,
    /// --resume (without a view) skips those of equal size and time
    #[arg(short, long, conflicts_with = "limit")]
    pub(crate) recursive: bool,
    /// One of several at a time: it shows no progress of its own
    #[arg(skip)]
    pub(crate) among_others: bool,
    /// Print a summary, also without a terminal
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
    // Last, as its heading holds for what follows.
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}
