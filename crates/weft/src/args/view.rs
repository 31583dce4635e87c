//! The options that choose a view, shared by the commands that move or explain data.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use weft_client::File;
use weft_layout::size;
use weft_layout::view_text::{fork_name, partition, subfile};
use weft_layout::{CellIndex, Order, Partition, Subfile, View};

/// Which bytes of a file, and in which order.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "View (default: the whole file in canonical order)")]
pub(crate) struct ViewArgs {
    /// Vesta subfile: vertical block size, subfiles down, horizontal block size, subfiles across,
    /// and the index of one of them
    #[arg(long, value_name = "Vbs,Vn,Hbs,Hn,INDEX", value_parser = subfile,
          conflicts_with_all = ["partition", "cell"])]
    subfile: Option<Subfile>,
    /// Order of the subfile's bytes; with `column` the whole transfer is one access, since the
    /// order holds within an access
    #[arg(long, value_enum, requires = "subfile")]
    order: Option<OrderArg>,
    /// PVFS partition: GSIZE bytes of every STRIDE bytes, from OFFSET on, in canonical order
    #[arg(long, value_name = "OFFSET,GSIZE,STRIDE", value_parser = partition, conflicts_with = "cell")]
    partition: Option<Partition>,
    /// A single cell, by its index
    #[arg(long, value_name = "I")]
    cell: Option<u32>,
    /// The fork to use in each cell
    #[arg(long, value_name = "NAME", default_value = "data", value_parser = fork_name)]
    fork: String,
    /// First byte, as an offset in the view
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    offset: Option<u64>,
    /// Number of bytes of the view
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    length: Option<u64>,
}

/// The orders by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    /// Column-major inside a block, row-major among blocks
    Default,
    /// BSU by BSU across the cells
    Row,
    /// Cell by cell, within one access
    Column,
}

impl ViewArgs {
    /// The requested view.
    pub(crate) fn view(&self) -> View {
        if let Some(mut subfile) = self.subfile {
            subfile.order = match self.order {
                None | Some(OrderArg::Default) => Order::Default,
                Some(OrderArg::Row) => Order::Row,
                Some(OrderArg::Column) => Order::Column,
            };
            return View::Subfile(subfile);
        }
        if let Some(partition) = self.partition {
            return View::Partition(partition);
        }
        self.cell
            .map_or(View::canonical(), |cell| View::Cell(CellIndex(cell)))
    }

    /// The requested fork.
    pub(crate) fn fork(&self) -> &str {
        &self.fork
    }

    /// Refuses a fork that no cell has: cells without a fork read as zeros, but a misspelt name
    /// must not. Cost: one request to each server, none for `data`.
    pub(crate) async fn check_fork(&self, file: &File) -> Result<()> {
        if self.fork == "data" || file.forks().await?.iter().any(|f| f.fork == self.fork) {
            return Ok(());
        }
        bail!(
            "no cell of {} has a fork {:?}: list its forks with `weft fork ls`",
            file.path(),
            self.fork
        )
    }

    /// Whether the options name nothing but the plain file from its start.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_canonical() && self.offset.is_none()
    }

    /// Whether the options name nothing but the whole plain file.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_plain() && self.length.is_none()
    }

    /// Whether the view is the whole file in canonical order.
    pub(crate) fn is_canonical(&self) -> bool {
        self.subfile.is_none()
            && self.partition.is_none()
            && self.cell.is_none()
            && self.fork == "data"
    }

    /// Whether the order of the view's bytes depends on how they are divided into accesses.
    pub(crate) fn one_access(&self) -> bool {
        self.order == Some(OrderArg::Column)
    }

    /// The first byte.
    pub(crate) fn start(&self) -> u64 {
        self.offset.unwrap_or(0)
    }

    /// The number of bytes, if it was named.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        view: ViewArgs,
    }

    fn parse(line: &str) -> Result<ViewArgs, String> {
        let words = std::iter::once("test").chain(line.split_whitespace());
        Line::try_parse_from(words)
            .map(|l| l.view)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn each_kind_of_view_is_understood() {
        assert_eq!(parse("").unwrap().view(), View::canonical());
        assert!(parse("").unwrap().is_plain());
        let view = parse("--subfile 1,2,3,4,7 --order row").unwrap();
        let expected = Subfile {
            vbs: 1,
            vn: 2,
            hbs: 3,
            hn: 4,
            index: 7,
            order: Order::Row,
        };
        assert_eq!(view.view(), View::Subfile(expected));
        let partition = parse("--partition 1K,16,64 --offset 4 --length 2M").unwrap();
        let expected = Partition {
            offset: 1024,
            group: 16,
            stride: 64,
        };
        assert_eq!(partition.view(), View::Partition(expected));
        assert_eq!((partition.start(), partition.length), (4, Some(2 << 20)));
        assert_eq!(
            parse("--cell 3 --fork index").unwrap().view(),
            View::Cell(CellIndex(3))
        );
        assert!(!parse("--fork index").unwrap().is_plain());
        assert!(
            parse("--subfile 1,1,1,1,0 --order column")
                .unwrap()
                .one_access()
        );
    }

    #[test]
    fn impossible_views_explain_why() {
        for (line, word) in [
            ("--subfile 1,2,3", "5 numbers"),
            ("--subfile 0,1,1,1,0", "Vbs is 0"),
            ("--subfile 1,2,1,2,4", "no subfile 4"),
            ("--partition 0,0,1", "GSIZE is 0"),
            ("--partition 0,4,3", "overlaps"),
            ("--order row", "--subfile"),
            ("--cell 1 --partition 0,1,1", "cannot be used with"),
            ("--cell x", "invalid"),
            ("--fork a/b", "without slashes"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
