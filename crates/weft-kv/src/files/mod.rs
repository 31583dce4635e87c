//! The engine's files, read without the engine: its lists of tables, the tables, their second
//! copies, and which commits are lost.
//!
//! Owns no state. Whatever bytes the files hold, reading them returns an error at worst.

pub(crate) mod copies;
mod lists;
pub(crate) mod loss;
pub(crate) mod tables;

pub(crate) use copies::{COPIES, Copied, copy, put, table_path, whole_copy};
pub use copies::{DamagedFile, EngineFile, Remedy};
pub(crate) use lists::{CURRENT, List, TABLES, Table, list, sum_of, trees};
pub use loss::{DECODERS, Decoder};
pub(crate) use loss::{Found, Loss, Watermark};
