//! The engine's files, read without the engine: the lists of its tables, the tables, their second
//! copies, and the journals with the commits that they lost.
//!
//! Owns no state. Whatever bytes the files hold, reading them returns an error at worst.

mod copies;
mod lists;
pub(crate) mod loss;
mod restore;
mod tables;
mod verify;

pub(crate) use copies::{
    COPIES, CopyOutcome, copy, forget_copy, table_path, whole_copy, write_atomically,
};
pub(crate) use lists::{CURRENT, List, TABLES, Table, list, sum_of, trees};
pub use loss::{DECODERS, Decoder};
pub(crate) use loss::{JournalScan, Loss, Watermark};
pub(crate) use restore::{Extent, OnDamage, mark_suspect, restore, verify_all};
pub use verify::{DamagedFile, EngineFile, Remedy};
pub(crate) use verify::{files, verify};
