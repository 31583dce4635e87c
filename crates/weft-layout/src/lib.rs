//! Layouts, views and requests of Weft files, and the pieces they touch: arithmetic only.
//!
//! # The words
//!
//! A **file** is a grid of **cells**. A **layout**, fixed when the file is created, says how many
//! there are, on which servers they live (cell `i` on slot `i mod servers`), and the **BSU**: the
//! number of bytes that the order of bytes counts in. A **view** is what an open descriptor can
//! see: a linear byte space mapped onto the grid. A **request** says which bytes of a view one call
//! touches, in a few numbers. A **piece** is one contiguous run of bytes in one cell that a request
//! touches. A **ghost** is a cell that a view implies but the file does not have.
//!
//! The **canonical order** goes BSU by BSU round-robin over the cells:
//!
//! ```text
//!            cell 0   cell 1   cell 2          BSU 0, 1, 2, ... of the file; cell offset
//! row 0        0        1        2             of BSU b is (b div cells) · bsu
//! row 1        3        4        5
//! row 2        6        7        8
//! ```
//!
//! # The way from a call to its pieces
//!
//! A [`Layout`] is reduced to a [`Grid`], three numbers that travel with each request. A [`Grid`]
//! and a [`View`] make a [`Map`]. The client asks the map which slots a [`Request`] touches, sends
//! each the same few numbers, and every server asks its own map for its own [`Piece`]s:
//!
//! ```
//! use weft_layout::{Grid, Map, Request, ServerSlot, View, ViewOffset};
//!
//! // Three cells of BSUs of 4 bytes, on two servers.
//! let grid = Grid::new(3, 4, 2)?;
//! let map = Map::new(grid, View::canonical())?;
//! let request = Request::Contiguous { offset: ViewOffset(2), length: 10 };
//!
//! assert_eq!(map.slots(&request)?, [ServerSlot(0), ServerSlot(1)]);
//! // Slot 0 has the rest of BSU 0, in cell 0, and BSU 2, in cell 2; cell 1 is on the other slot.
//! let own: Vec<_> = map
//!     .pieces(&request, ServerSlot(0))?
//!     .map(|piece| (piece.cell.0, piece.offset.0, piece.length, piece.memory))
//!     .collect();
//! assert_eq!(own, [(0, 2, 2, 0), (2, 0, 4, 6)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! 1. Mapping and inverse agree for every legal layout, view and offset (`tests/properties.rs`, and
//!    `tests/exhaustive.rs` against a brute-force model).
//! 2. The pieces of all slots cover a request exactly once, ghosts excepted.
//! 3. A server pays for its own pieces only (`tests/cost.rs`, `benches/pieces.rs`).
//! 4. No number panics or wraps: what a caller may choose is checked once, when a value is made.
//!
//! Deliberately absent: I/O, time, the lengths of cells and so holes (only a server knows them),
//! forks (a piece lies in the same place of any fork), and the byte form of all this
//! (`weft-proto`).
//!
//! Where to look: `layout.rs` and `view.rs` for what callers may ask for, `shape.rs` for how views
//! are reduced to four forms, `columns.rs` for the formulas of subfiles, `pieces/` for the loops.

pub mod array;
mod columns;
mod cutter;
mod divisor;
mod error;
mod grid;
mod groups;
mod layout;
mod limits;
mod map;
mod memory;
mod modular;
mod nest;
mod normal;
mod overlap;
mod own;
mod parts;
mod pattern;
mod pieces;
mod quantity;
mod request;
mod rhythm;
mod rounds;
mod shape;
mod shared;
pub mod size;
mod spaced;
mod stretch;
mod view;
pub mod view_text;

pub use cutter::{CellLengths, Cutter, Endless, bytes_of};
pub use error::{LayoutError, MapError};
pub use grid::Grid;
pub use layout::{Layout, LayoutSpec, Storage};
pub use limits::{
    BSU_DEFAULT, BSU_MAX, CELLS_MAX, CHUNK_DEFAULT, CHUNK_MAX, CHUNK_MIN, SERVERS_MAX,
};
pub use map::{Map, Place};
pub use memory::Memory;
pub use parts::{Part, PartKind, Runs};
pub use pattern::{DEPTH_MAX, Every, PARTS_MAX, Pattern, PatternError};
pub use pieces::Pieces;
pub use quantity::{
    CellIndex, CellOffset, FileId, FileOffset, OFFSET_MAX, ServerId, ServerSlot, ViewOffset,
};
pub use request::{Piece, Request, Shaped};
pub use rounds::{Clipped, Round, Rounds, Search};
pub use shared::{Comparison, Shared};
pub use spaced::{Spaced, SpacedCopy, copy_all, copy_spaced};
pub use stretch::Stretch;
pub use view::{Order, Partition, Subfile, View, ViewError};
