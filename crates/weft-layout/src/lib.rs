//! Layouts, views and requests of Weft files, and the pieces they touch.

mod quantity;

pub use quantity::{
    CellIndex, CellOffset, FileId, FileOffset, OFFSET_MAX, ServerId, ServerSlot, ViewOffset,
};
