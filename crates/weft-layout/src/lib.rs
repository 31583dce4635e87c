//! Layouts, views and requests of Weft files, and the pieces they touch.

mod columns;
mod grid;
mod groups;
mod layout;
mod map;
mod modular;
mod own;
mod pieces;
mod quantity;
mod request;
mod shape;
mod view;

pub use grid::Grid;
pub use layout::{
    BSU_DEFAULT, BSU_MAX, CELLS_MAX, CHUNK_DEFAULT, CHUNK_MAX, CHUNK_MIN, Layout, LayoutError,
    LayoutSpec, SERVERS_MAX, Storage,
};
pub use map::{Map, MapError, Place};
pub use pieces::Pieces;
pub use quantity::{
    CellIndex, CellOffset, FileId, FileOffset, OFFSET_MAX, ServerId, ServerSlot, ViewOffset,
};
pub use request::{Piece, Request};
pub use view::{Order, Partition, Subfile, View, ViewError};
