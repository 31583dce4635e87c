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
//! each the same few numbers, and every server asks its map for its local [`Piece`]s:
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
//! let local: Vec<_> = map
//!     .pieces(&request, ServerSlot(0))?
//!     .map(|piece| (piece.cell.0, piece.offset.0, piece.length, piece.memory))
//!     .collect();
//! assert_eq!(local, [(0, 2, 2, 0), (2, 0, 4, 6)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! 1. Mapping and inverse agree for every legal layout, view and offset (`tests/properties.rs`, and
//!    `tests/exhaustive.rs` against a brute-force model).
//! 2. The pieces of all slots cover a request exactly once, ghosts excepted.
//! 3. A server pays for its local pieces only (`tests/cost.rs`, `benches/pieces.rs`).
//! 4. No number panics or wraps: what a caller may choose is checked once, when a value is made.
//!
//! Deliberately absent: I/O, time, the lengths of cells and so holes (only a server knows them),
//! forks (a piece lies in the same place of any fork), and the byte form of all this
//! (`weft-proto`).
//!
//! # The modules, lowest first
//!
//! | module | what |
//! | --- | --- |
//! | `quantity/` | indexes, offsets and ids as types; sizes as people write them |
//! | `limits.rs`, `error.rs` | bounds and batch sizes; what is wrong with a layout or a place |
//! | `arithmetic/` | division by a constant, arithmetic progressions modulo a number |
//! | `layout/` | [`Layout`] and [`Grid`]: cells, BSU, servers |
//! | `view/` | [`View`] as callers name it, and the four forms that it is reduced to |
//! | `pattern/` | [`Pattern`]: bytes relative to a place; arrays |
//! | `request/` | [`Request`]: a checked pattern at a place, its wire form, its [`Memory`] |
//! | `strided_copy.rs` | copies of many small pieces at equal distances |
//! | `pieces/` | [`Pieces`] of a request on one server, and the [`Splitter`] of such a stream |
//! | `map.rs` | [`Map`]: a view on a grid; all of the above behind a few calls |
//! | `collective/` | [`Rounds`] and [`Comparison`] of several members' pieces |

mod arithmetic;
mod collective;
mod error;
mod layout;
mod limits;
mod map;
mod pattern;
mod pieces;
mod quantity;
mod request;
mod strided_copy;
mod view;

pub use collective::{Clipped, Comparison, MemberOverlap, Round, Rounds, Search};
pub use error::{LayoutError, MapError};
pub use layout::{
    ADDRESSED_BIT, ChunkCode, Grid, Layout, LayoutSpec, Storage, chunk_code, of_chunk_code,
};
pub use limits::{
    BSU_DEFAULT, BSU_MAX, CELLS_MAX, CHUNK_DEFAULT, CHUNK_MAX, CHUNK_MIN, DEPTH_MAX, NODES_MAX,
    SERVERS_MAX,
};
pub use map::{Location, Map};
pub use pattern::{Every, Pattern, PatternError, array};
pub use pieces::Pieces;
pub use pieces::piece::Piece;
pub use pieces::splitter::{CellLengths, Endless, Splitter, bytes_of};
pub use pieces::strided::StridedPieces;
pub use quantity::{
    CellIndex, CellOffset, FileId, FileOffset, OFFSET_MAX, ServerId, ServerSlot, ViewOffset, size,
};
pub use request::memory::Memory;
pub use request::wire::{RequestNode, RequestNodeKind, Runs};
pub use request::{Request, Shaped};
pub use strided_copy::{Strided, StridedCopy, copy_all, copy_strided};
pub use view::{Order, Partition, Subfile, View, ViewError, text as view_text};
