//! The options that choose the layout of a new file.

use clap::Args;
use weft_client::NewLayout;
use weft_layout::{BSU_MAX, CELLS_MAX, CHUNK_MAX, CHUNK_MIN, Layout, Storage};

use weft_layout::size;
use weft_parity::Shape;

use crate::limits::REPLICAS_MAX;

/// The layout that a command requests. The directory, else the volume, supplies the rest.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Layout (defaults come from the directory, else from the volume)")]
pub(crate) struct LayoutArgs {
    /// Number of cells
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=i64::from(CELLS_MAX)))]
    cells: Option<u32>,
    /// Basic striping unit (BSU), the unit that views count in
    #[arg(long, value_name = "B", value_parser = bsu)]
    bsu: Option<u64>,
    /// Size of a chunk, which a server stores and checksums as one
    #[arg(long, value_name = "BYTES", value_parser = chunk)]
    chunk: Option<u32>,
    /// Only servers with at least so many replicas
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(REPLICAS_MAX)))]
    replicas: Option<u32>,
    /// When it is quiet, keep each byte once and M pieces of parity for each K: K + M servers with
    /// M + 1 replicas each; `none` if the directory says otherwise
    #[arg(long, value_name = "K+M", value_parser = parity)]
    parity: Option<Parity>,
    /// Store chunks under the hash of their contents: equal ones once on each server
    #[arg(long, conflicts_with = "plain")]
    addressed: bool,
    /// Store chunks in place, although the directory says addressed
    #[arg(long)]
    plain: bool,
}

impl LayoutArgs {
    /// The layout to ask for.
    pub(crate) fn layout(&self) -> NewLayout {
        NewLayout {
            cells: self.cells,
            bsu: self.bsu,
            chunk: self.chunk,
            storage: self.storage(),
            replicas: self.replicas,
            parity: self.parity.map(|parity| parity.0),
            ..NewLayout::default()
        }
    }

    /// Whether an existing file has the requested layout.
    pub(crate) fn agrees(&self, layout: &Layout) -> bool {
        self.cells.is_none_or(|cells| cells == layout.cells())
            && self.bsu.is_none_or(|bsu| bsu == layout.bsu())
            && self.chunk.is_none_or(|chunk| chunk == layout.chunk())
            && self
                .storage()
                .is_none_or(|storage| storage == layout.storage())
    }

    fn storage(&self) -> Option<Storage> {
        match (self.addressed, self.plain) {
            (true, _) => Some(Storage::Addressed),
            (_, true) => Some(Storage::Plain),
            _ => None,
        }
    }

    /// Whether any of the options was given.
    pub(crate) fn is_given(&self) -> bool {
        self.cells.is_some()
            || self.bsu.is_some()
            || self.chunk.is_some()
            || self.storage().is_some()
            || self.replicas.is_some()
            || self.parity.is_some()
    }
}

/// Parity, or none.
#[derive(Clone, Copy, Debug)]
struct Parity(Option<Shape>);

fn parity(text: &str) -> Result<Parity, String> {
    if text == "none" {
        return Ok(Parity(None));
    }
    let shape: Result<Shape, _> = text.parse();
    shape
        .map(|shape| Parity(Some(shape)))
        .map_err(|e| e.to_string())
}

fn bsu(text: &str) -> Result<u64, String> {
    let bsu = size::parse(text)?;
    if !(1..=BSU_MAX).contains(&bsu) {
        return Err(format!(
            "the BSU cannot be {bsu} bytes: choose 1 to {BSU_MAX}"
        ));
    }
    Ok(bsu)
}

fn chunk(text: &str) -> Result<u32, String> {
    let chunk = size::parse_u32(text)?;
    if !(CHUNK_MIN..=CHUNK_MAX).contains(&chunk) {
        return Err(format!(
            "a chunk cannot be {chunk} bytes: choose {CHUNK_MIN} to {CHUNK_MAX}"
        ));
    }
    Ok(chunk)
}
