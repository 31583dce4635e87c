//! A checked view on a grid: where each of its bytes lives, and back.
//!
//! Invariants:
//! 1. [`Map::locate`] and [`Map::invert`] undo each other on every byte that is not a ghost.
//! 2. Nothing here depends on data, on lengths of cells, or on the side that asks: client and
//!    servers compute the same from the same few numbers.
//!
//! Deliberately absent: forks (a piece lies in the same place of whichever fork the call names) and
//! addresses of servers (the arithmetic knows slots only).

use crate::pieces::Pieces;
use crate::pieces::piece::Span;
use crate::view::shape::Shape;
use crate::{
    CellIndex, CellOffset, Grid, MapError, OFFSET_MAX, Piece, Request, ServerSlot, View, ViewError,
    ViewOffset,
};

/// Where a view byte lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// In a cell of the file.
    Data(CellIndex, CellOffset),
    /// In a cell that the view implies but the file does not have: writes go nowhere, reads leave
    /// the caller's buffer as it was.
    Ghost,
}

/// A checked view on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    grid: Grid,
    view: View,
    shape: Shape,
}

impl Map {
    /// Checks a view against a grid.
    ///
    /// Cost: O(1), no allocation.
    /// # Errors
    /// A [`ViewError`] with the values that are not legal.
    pub fn new(grid: Grid, view: View) -> Result<Self, ViewError> {
        let shape = Shape::new(grid, &view)?;
        Ok(Self { grid, view, shape })
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether each run of a request is rearranged in itself, so that to join runs changes where
    /// bytes lie: so in [`Order::Column`](crate::Order::Column).
    pub fn rearranges(&self) -> bool {
        matches!(self.shape, Shape::ByColumn(_))
    }

    /// Where a view byte lives. With [`Order::Column`](crate::Order::Column): in the default order,
    /// as the rearranged one exists only within an access.
    ///
    /// # Errors
    /// [`MapError::PastLimit`] when the place in the view, in the cell (a ghost's included) or, for
    /// a partition, in the canonical order is not below [`OFFSET_MAX`].
    /// # Source
    /// Vesta §3.2; property `locate_and_invert_agree`.
    pub fn locate(&self, offset: ViewOffset) -> Result<Location, MapError> {
        if offset.0 >= OFFSET_MAX {
            return Err(MapError::PastLimit {
                offset: offset.0,
                length: 1,
            });
        }
        let (cell, place) = self.shape.locate(offset.0)?;
        Ok(if cell < u64::from(self.grid.cells()) {
            Location::Data(CellIndex(cell as u32), CellOffset(place))
        } else {
            Location::Ghost
        })
    }

    /// The view byte of a cell's byte; `None` when it is not in this view, which holds too for a
    /// cell that the grid does not have and for a byte that [`Map::locate`] would call past the
    /// limit. With [`Order::Column`](crate::Order::Column): in the default order.
    pub fn invert(&self, cell: CellIndex, offset: CellOffset) -> Option<ViewOffset> {
        if cell.0 >= self.grid.cells() {
            return None;
        }
        self.shape.invert(cell, offset).map(ViewOffset)
    }

    /// The pieces of `request` on the cells of `slot`, lazily, by ascending memory position.
    ///
    /// The data of a call to one server travels as one stream in exactly this order; client and
    /// server both run it and agree.
    ///
    /// Shape: pieces are disjoint and non-empty; ghosts occupy memory positions and yield nothing.
    /// Two pieces that meet both in the cell and in memory come as one. Cost: O(local pieces), each
    /// after O(log servers) or, for a partition with gaps, O(log band); for such a partition on a
    /// grid whose cells do not divide evenly among the servers the distance to the next local
    /// piece may cost that much for each local cell. No allocation.
    /// # Errors
    /// [`MapError::NoSuchSlot`]; [`MapError::PastLimit`] when [`Map::locate`] would say so for any
    /// byte of the request, whichever slot it is on. Nothing is yielded then.
    /// # Source
    /// Vesta §3.2; property `pieces_cover_a_request_exactly_once`; benchmark `pieces`.
    pub fn pieces(&self, request: &Request, slot: ServerSlot) -> Result<Pieces, MapError> {
        if slot.0 >= self.grid.servers() {
            return Err(MapError::NoSuchSlot {
                slot,
                servers: self.grid.servers(),
            });
        }
        match request {
            Request::Contiguous { offset, length } => {
                let span = Span::new(*offset, *length)?;
                Pieces::contiguous(&self.grid, &self.shape, span, slot)
            }
            Request::Shaped(shaped) => Pieces::shaped(&self.grid, &self.shape, &shaped.0, slot),
        }
    }

    /// The slots that have at least one piece of `request`, ascending.
    ///
    /// Cost: O(pieces) for a request of fewer pieces than about twice the servers, else O(servers ·
    /// cost of a first piece).
    /// # Errors
    /// [`MapError::PastLimit`] as [`Map::pieces`].
    /// # Source
    /// Property `slots_are_exactly_those_with_a_piece`.
    pub fn slots(&self, request: &Request) -> Result<Vec<ServerSlot>, MapError> {
        let servers = self.grid.servers();
        // On one server all pieces are local, so a small request is simply walked.
        let one = Self {
            grid: self.grid.on_one_server(),
            ..*self
        };
        let mut all = one.pieces(request, ServerSlot(0))?;
        let bound = 2 * servers as usize;
        let few: Vec<Piece> = all.by_ref().take(bound).collect();
        if all.next().is_none() {
            let mut slots: Vec<_> = few
                .iter()
                .map(|piece| self.grid.slot_of(piece.cell))
                .collect();
            slots.sort_unstable();
            slots.dedup();
            return Ok(slots);
        }
        let mut slots = Vec::with_capacity(servers as usize);
        for slot in self.grid.slots_in_use() {
            if self.pieces(request, slot)?.next().is_some() {
                slots.push(slot);
            }
        }
        Ok(slots)
    }

    /// One past the largest view offset that holds data of `cell` when the cell has this length; 0
    /// if none, or if the grid has no such cell. The view's size is the largest over the cells. At
    /// most
    /// [`OFFSET_MAX`]: data that lies farther out counts as ending there. With
    /// [`Order::Column`](crate::Order::Column): in the default order.
    ///
    /// Cost: O(1), for a partition with gaps O(log band).
    pub fn extent(&self, cell: CellIndex, length: u64) -> u64 {
        if cell.0 >= self.grid.cells() {
            return 0;
        }
        self.shape.extent(cell, length.min(OFFSET_MAX))
    }
}
