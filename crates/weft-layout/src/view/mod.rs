//! Views as a caller names them, and why one may not be legal.
//!
//! A [`View`] is unchecked numbers; [`Map::new`](crate::Map::new) checks them against a grid.
//! `shape.rs` reduces a view to one of four forms; `columns.rs` and `groups.rs` have the arithmetic
//! of subfiles and of partitions with gaps; `text.rs` reads views as people write them.

pub(crate) mod columns;
pub(crate) mod groups;
pub(crate) mod shape;
pub mod text;

use thiserror::Error;

use crate::{CellIndex, OFFSET_MAX};

/// The order of the bytes inside a subfile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Column-major inside a block, row-major among blocks.
    #[default]
    Default,
    /// BSU by BSU across all the cells that the subfile spans, ghosts included.
    Row,
    /// Qualified by one access: the default order identifies the data of the access, which then
    /// lies in memory cell by cell (ghosts included), within a cell by ascending offset.
    Column,
}

/// One of Vesta's disjoint subfiles: five parameters and a byte order.
///
/// # Source
/// Vesta §3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfile {
    /// Vertical block size: consecutive BSUs of one cell in a block.
    pub vbs: u64,
    /// Subfiles interleaved down a cell.
    pub vn: u64,
    /// Horizontal block size: consecutive cells that a block spans.
    pub hbs: u64,
    /// Subfiles interleaved across the cells.
    pub hn: u64,
    /// Which subfile, `s + t·hn` for the one `s`-th across and `t`-th down.
    pub index: u64,
    /// The order of its bytes.
    pub order: Order,
}

/// PVFS's partition of the canonical order: `group` bytes of every `stride`, from `offset` on.
///
/// # Source
/// PVFS's logical partitioning: offset, group size, stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    /// File offset of the first group.
    pub offset: u64,
    /// Bytes of a group.
    pub group: u64,
    /// Bytes from the start of one group to the start of the next.
    pub stride: u64,
}

/// What an open descriptor can see: a linear byte space mapped onto the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// A Vesta subfile.
    Subfile(Subfile),
    /// A PVFS partition.
    Partition(Partition),
    /// A single cell, byte by byte.
    Cell(CellIndex),
}

impl View {
    /// The canonical order of a file, however many cells it has: `{1, 1, 1, 1}`.
    ///
    /// On C cells `{Vbs=1, Vn=1, Hbs=C, Hn=1}` (Vesta §3.2) has the same bytes in the same order:
    /// blocks of one BSU side by side are numbered like the BSUs of one block of height 1.
    pub const fn canonical() -> Self {
        View::Subfile(Subfile {
            vbs: 1,
            vn: 1,
            hbs: 1,
            hn: 1,
            index: 0,
            order: Order::Default,
        })
    }
}

/// Why a view is not legal on a grid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ViewError {
    /// A block size, a number of subfiles or a group is zero.
    #[error("the view's {parameter} is 0: it must be at least 1")]
    Zero {
        /// Which parameter, as the fields of [`Subfile`] and [`Partition`] name it.
        parameter: &'static str,
    },
    /// The index names no subfile.
    #[error("there is no subfile {index}: {hn} across × {vn} down are numbered from 0")]
    Index {
        /// The index asked for.
        index: u64,
        /// Subfiles across the cells.
        hn: u64,
        /// Subfiles down a cell.
        vn: u64,
    },
    /// The subfiles side by side span too many cells to count.
    #[error("hbs {hbs} × hn {hn} is too wide: at most {OFFSET_MAX} cells")]
    TooWide {
        /// Horizontal block size.
        hbs: u64,
        /// Subfiles across the cells.
        hn: u64,
    },
    /// The subfiles one below the other are longer than any cell.
    #[error("vbs {vbs} × vn {vn} BSUs of {bsu} bytes are too long: at most {OFFSET_MAX} bytes")]
    TooLong {
        /// Vertical block size.
        vbs: u64,
        /// Subfiles down a cell.
        vn: u64,
        /// The grid's BSU.
        bsu: u64,
    },
    /// One row of the subfile's blocks holds more bytes than any file.
    #[error(
        "a row of blocks, {width} cells × vbs {vbs} BSUs of {bsu} bytes, is too large: at most {OFFSET_MAX} bytes"
    )]
    TooLarge {
        /// Cells that the subfile spans, ghosts included.
        width: u64,
        /// Vertical block size.
        vbs: u64,
        /// The grid's BSU.
        bsu: u64,
    },
    /// The groups of a partition would overlap.
    #[error(
        "a group of {group} bytes every {stride} bytes overlaps the next: the stride must be at least the group size"
    )]
    GroupPastStride {
        /// Bytes of a group.
        group: u64,
        /// Bytes from group to group.
        stride: u64,
    },
    /// A partition's offset or stride is past the largest offset.
    #[error("the view's {parameter} is {value}: at most {OFFSET_MAX}")]
    PastLimit {
        /// Which parameter, as the fields of [`Partition`] name it.
        parameter: &'static str,
        /// Its value.
        value: u64,
    },
    /// The file has no such cell.
    #[error("there is no cell {cell}: the file has {cells}, numbered from 0")]
    NoSuchCell {
        /// The cell asked for.
        cell: CellIndex,
        /// Number of cells.
        cells: u32,
    },
}
