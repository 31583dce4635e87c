//! Consistency policies as plug-ins (CAPFS §3.6, Figure 6; `docs/design/0034-plugins.md`).
//!
//! A client sees a [`Plugin`], which [`Folder`] finds by its policy's name: the [`Values`] of the
//! policy, and callbacks around the operations of an open, which reach the client's caches through
//! [`Core`]. Authors in C include `weft_policy.h` ([`HEADER`]); authors in Rust implement
//! [`author::Policy`], which also turns panics into errors.
//!
//! Invariants:
//! 1. Nothing that a table says is used before it is checked: version, sizes, names, values.
//! 2. A library is never unloaded: threads, destructors and tables of it may be in use. A process
//!    loads at most [`LIBRARIES_MAX`].
//! 3. What runs is a private copy of the file, so that writing over the file changes nothing.
//! 4. A handle that a plug-in has given out is given back once, and is not used after that.
//!
//! Absent on purpose: what a policy does (`weft-client`), and protection from a plug-in that
//! writes where it must not: it is code of its process.

mod abi;
pub mod author;
mod elf;
mod folder;
mod load;
mod plugin;
mod values;

pub use folder::{DEFAULT_FOLDER, FOLDER_VARIABLE, Folder, NotFound};
pub use load::{LIBRARIES_MAX, LoadError};
pub use plugin::{Chunk, Core, Failed, Open, Opened, Plugin, Touched};
pub use values::{Kept, Values};

/// The header for authors in C.
pub const HEADER: &str = include_str!("../include/weft_policy.h");

/// The version of the interface.
pub const VERSION: u32 = 1;
