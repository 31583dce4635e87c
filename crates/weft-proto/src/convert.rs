//! Conversions between messages and the checked types of `weft-layout`.

use thiserror::Error;
use weft_layout::{
    CellIndex, Grid, Layout, LayoutError, LayoutSpec, Map, Order, Partition, PatternError, Request,
    ServerId, Storage, Subfile, View, ViewError, ViewOffset,
};
use weft_parity::Shape;

use crate::limits::LIST_MAX;
use crate::{io, meta};

mod shaped;

/// Why a message is not a valid layout, view or request.
#[derive(Debug, Error)]
pub enum ConvertError {
    /// The layout's parameters are not valid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The view's parameters are not valid on this grid.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The request's pattern is not valid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A list is longer than one message may carry, or its columns differ in length.
    #[error(
        "a list of {runs} runs is too long or its columns differ: at most {LIST_MAX} runs in a message"
    )]
    List {
        /// The number of its runs.
        runs: usize,
    },
    /// A kind that this build does not know.
    #[error("unknown kind of {what}; the peer may be of a newer version")]
    Unknown {
        /// The thing of unknown kind.
        what: &'static str,
    },
}

impl From<&Grid> for io::Grid {
    fn from(grid: &Grid) -> Self {
        io::Grid {
            cells: grid.cells(),
            bsu: grid.bsu(),
            servers: grid.servers(),
        }
    }
}

impl TryFrom<&io::Grid> for Grid {
    type Error = ConvertError;
    fn try_from(grid: &io::Grid) -> Result<Self, ConvertError> {
        Ok(Grid::new(grid.cells, grid.bsu, grid.servers)?)
    }
}

impl From<&View> for io::View {
    fn from(view: &View) -> Self {
        let kind = match view {
            View::Subfile(s) => io::ViewKind::Subfile(io::Subfile {
                vbs: s.vbs,
                vn: s.vn,
                hbs: s.hbs,
                hn: s.hn,
                index: s.index,
                order: match s.order {
                    Order::Default => 0,
                    Order::Row => 1,
                    Order::Column => 2,
                },
            }),
            View::Partition(p) => io::ViewKind::Partition(io::Partition {
                offset: p.offset,
                group: p.group,
                stride: p.stride,
            }),
            View::Cell(cell) => io::ViewKind::Cell(cell.0),
        };
        io::View { kind: Some(kind) }
    }
}

impl TryFrom<&io::View> for View {
    type Error = ConvertError;
    fn try_from(view: &io::View) -> Result<Self, ConvertError> {
        Ok(
            match view.kind.ok_or(ConvertError::Unknown { what: "view" })? {
                io::ViewKind::Subfile(s) => View::Subfile(Subfile {
                    vbs: s.vbs,
                    vn: s.vn,
                    hbs: s.hbs,
                    hn: s.hn,
                    index: s.index,
                    order: match s.order {
                        0 => Order::Default,
                        1 => Order::Row,
                        2 => Order::Column,
                        _ => return Err(ConvertError::Unknown { what: "byte order" }),
                    },
                }),
                io::ViewKind::Partition(p) => View::Partition(Partition {
                    offset: p.offset,
                    group: p.group,
                    stride: p.stride,
                }),
                io::ViewKind::Cell(cell) => View::Cell(CellIndex(cell)),
            },
        )
    }
}

impl io::Pattern {
    /// The wire form of a request. `join`: see [`Request::to_nodes`].
    ///
    /// # Errors
    /// [`ConvertError::Unknown`] for a kind of request that this version of the protocol cannot
    /// carry.
    pub fn from_request(request: &Request, join: bool) -> Result<Self, ConvertError> {
        let kind = match request {
            Request::Contiguous { offset, length } => io::PatternKind::Contiguous(io::Contiguous {
                offset: offset.0,
                length: *length,
            }),
            Request::Shaped(_) => {
                let (offset, parts) = request.to_nodes(join);
                io::PatternKind::Shaped(io::Shaped {
                    offset: offset.0,
                    parts: parts.iter().map(shaped::to_wire).collect(),
                })
            }
            _ => return Err(ConvertError::Unknown { what: "request" }),
        };
        Ok(io::Pattern { kind: Some(kind) })
    }
}

impl TryFrom<&io::Pattern> for Request {
    type Error = ConvertError;
    fn try_from(pattern: &io::Pattern) -> Result<Self, ConvertError> {
        match pattern
            .kind
            .as_ref()
            .ok_or(ConvertError::Unknown { what: "request" })?
        {
            io::PatternKind::Contiguous(c) => Ok(Request::Contiguous {
                offset: ViewOffset(c.offset),
                length: c.length,
            }),
            io::PatternKind::Shaped(s) => {
                let parts = shaped::from_wire(&s.parts)?;
                Ok(Request::from_nodes(ViewOffset(s.offset), &parts)?)
            }
        }
    }
}

impl io::Access {
    /// The checked map and request of this access.
    pub fn checked(&self) -> Result<(Map, Request), ConvertError> {
        let map = Map::new(Grid::try_from(&self.grid)?, View::try_from(&self.view)?)?;
        Ok((map, Request::try_from(&self.pattern)?))
    }
}

/// The number of a kind of storage in messages.
pub fn storage_to_wire(storage: Storage) -> u32 {
    match storage {
        Storage::Plain => 0,
        Storage::Addressed => 1,
    }
}

/// The kind of storage that a number in a message names.
///
/// # Errors
/// [`ConvertError::Unknown`].
pub fn storage_from_wire(number: u32) -> Result<Storage, ConvertError> {
    match number {
        0 => Ok(Storage::Plain),
        1 => Ok(Storage::Addressed),
        _ => Err(ConvertError::Unknown { what: "storage" }),
    }
}

/// The number of a shape in messages; 0: no parity.
pub fn parity_to_wire(shape: Option<Shape>) -> u32 {
    shape.map_or(0, |shape| shape.data() << 8 | shape.parity())
}

/// The shape that a number in a message stands for.
///
/// # Errors
/// [`ConvertError::Unknown`].
pub fn parity_from_wire(number: u32) -> Result<Option<Shape>, ConvertError> {
    if number == 0 {
        return Ok(None);
    }
    let shape = Shape::new(number >> 8, number & 0xff);
    let unknown = |_| ConvertError::Unknown { what: "parity" };
    shape.map(Some).map_err(unknown)
}

impl From<&Layout> for meta::Layout {
    fn from(layout: &Layout) -> Self {
        meta::Layout {
            cells: layout.cells(),
            bsu: layout.bsu(),
            chunk: layout.chunk(),
            servers: layout.servers().iter().map(|s| s.0).collect(),
            storage: storage_to_wire(layout.storage()),
            parity: 0,
        }
    }
}

impl TryFrom<&meta::Layout> for Layout {
    type Error = ConvertError;
    fn try_from(layout: &meta::Layout) -> Result<Self, ConvertError> {
        Ok(Layout::new(LayoutSpec {
            cells: layout.cells,
            bsu: layout.bsu,
            chunk: layout.chunk,
            servers: layout.servers.iter().map(|s| ServerId(*s)).collect(),
            storage: storage_from_wire(layout.storage)?,
        })?)
    }
}
