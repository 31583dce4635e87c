//! The options that say which bytes of a view a command moves, and where they lie in memory.

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_client::{File, OpenView, Transfer};
use weft_layout::array::{Array, Slab};
use weft_layout::{Pattern, Request, ViewOffset, size};
use weft_proto::limits::TRANSFER_MAX;

use crate::args::{ViewArgs, pattern};

/// The help text about patterns, for commands that take one.
pub(crate) const PATTERNS: &str = "\
Patterns (numbers may have units: 4K, 1M):
  64                         64 bytes
  64/256x1000                64 bytes every 256, 1000 times
  64/256x1000/1Mx8           the above every 1 MiB, 8 times: innermost first, nested as deep as needed
  64/-256x10                 backwards
  (64+100:32)/1Kx9           64 bytes, and 32 more at offset 100; both every KiB, 9 times
  0:64,4K:64,1M:512          a list: offset and length of each";

/// Which bytes of a view.
#[derive(Args)]
pub(crate) struct RequestArgs {
    /// Which bytes, relative to --offset; or use --slab
    #[arg(value_name = "PATTERN", value_parser = pattern::parse, allow_hyphen_values = true,
          required_unless_present = "slab", conflicts_with = "slab")]
    pattern: Option<Pattern>,
    /// A hyperslab of the array in the file, dimension by dimension
    #[arg(long, value_name = "START[:STRIDE]:COUNT[:BLOCK],…", value_parser = slabs)]
    slab: Option<Slabs>,
    /// The array in the file, such as `f64 1000x500 column` [default: as recorded in the file]
    #[arg(long, value_name = "ARRAY", requires = "slab")]
    array: Option<Array>,
    /// Where the bytes lie in the input or output [default: one after another]
    #[arg(long, value_name = "PATTERN", value_parser = pattern::parse)]
    memory: Option<Pattern>,
    /// Where --memory starts in the input or output
    #[arg(long, value_name = "BYTES", value_parser = size::parse, requires = "memory")]
    memory_offset: Option<u64>,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

/// One for each dimension.
#[derive(Clone, Debug)]
struct Slabs(Vec<Slab>);

fn slabs(text: &str) -> Result<Slabs, String> {
    let slab = |part: &str| {
        let numbers: Vec<u64> = part
            .split(':')
            .map(|n| n.parse().ok())
            .collect::<Option<_>>()?;
        Some(match numbers[..] {
            [start] => Slab::from(start),
            [start, count] => Slab::from(start).times(count),
            [start, stride, count] => Slab::from(start).every(stride).times(count),
            [start, stride, count, block] => {
                Slab::from(start).every(stride).times(count).block(block)
            }
            _ => return None,
        })
    };
    let slabs: Option<Vec<Slab>> = text.split(',').map(slab).collect();
    slabs.map(Slabs).ok_or_else(|| {
        format!(
            "`{text}` is not a slab of an array: give START, START:COUNT, START:STRIDE:COUNT or START:STRIDE:COUNT:BLOCK \
             for each dimension, with commas between them"
        )
    })
}

impl RequestArgs {
    /// The view that the request is on.
    pub(crate) fn open(&self, file: &File) -> Result<OpenView> {
        self.check_length()?;
        Ok(file.view_of_fork(self.view.view(), self.view.fork())?)
    }

    /// Refuses `--length`: the request states its own length.
    pub(crate) fn check_length(&self) -> Result<()> {
        if self.view.length().is_some() {
            bail!("--length cannot be used here: the pattern or slab states its own length");
        }
        Ok(())
    }

    /// The array that the command line names.
    pub(crate) fn array(&self) -> Option<&Array> {
        self.array.as_ref()
    }

    /// Whether the request names a slab of an array that only the file records.
    pub(crate) fn asks_file(&self) -> bool {
        self.slab.is_some() && self.array.is_none()
    }

    /// The array that the file records, if the request depends on it.
    pub(crate) async fn array_in(&self, file: &File) -> Result<Option<Array>> {
        if !self.asks_file() {
            return Ok(None);
        }
        match file.array().await? {
            Some(array) => Ok(Some(array)),
            None => bail!(
                "{} does not record which array it holds: name it with --array",
                file.path()
            ),
        }
    }

    /// Refuses a request that touches a byte twice.
    pub(crate) fn check_disjoint(&self, array: Option<&Array>) -> Result<()> {
        let (at, pattern) = self.bytes(array)?;
        // The order of writing does not matter here, nor does the view.
        Ok(Request::sorted(at, &pattern, true)?.check_disjoint()?)
    }

    /// The request, and how many bytes of input or output it spans. `array`: what
    /// [`RequestArgs::array_in`] the file found.
    pub(crate) fn transfer(&self, array: Option<&Array>) -> Result<(Transfer, usize)> {
        let (at, pattern) = self.bytes(array)?;
        let length = pattern.length()?;
        let transfer = Transfer::of(pattern).at(at);
        let (transfer, span) = match &self.memory {
            None => (transfer, length),
            Some(memory) => {
                let start = self.memory_offset.unwrap_or(0);
                let span = Request::new(ViewOffset(start), memory)?.end();
                (transfer.in_memory_from(start, memory.clone()), span)
            }
        };
        if span > TRANSFER_MAX {
            bail!(
                "the request spans {span} bytes of input or output: at most {TRANSFER_MAX} are allowed"
            );
        }
        Ok((transfer, span as usize))
    }

    /// Where in the view the request begins, and which bytes it is from there on.
    fn bytes(&self, array: Option<&Array>) -> Result<(ViewOffset, Pattern)> {
        let (at, pattern) = match (&self.pattern, &self.slab) {
            (Some(pattern), _) => (0, pattern.clone()),
            (None, Some(Slabs(slabs))) => {
                let array = self.array.as_ref().or(array);
                let array =
                    array.context("no array given: name the array in the file with --array")?;
                let (offset, pattern) = array.hyperslab(slabs)?;
                (offset.0, pattern)
            }
            (None, None) => bail!("no bytes given: name them by a pattern or --slab"),
        };
        Ok((ViewOffset(at.saturating_add(self.view.start())), pattern))
    }
}
