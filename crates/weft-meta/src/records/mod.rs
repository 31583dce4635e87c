//! The records that the engine stores, and their keys.
//!
//! This module owns no state. `record.rs` defines the bytes, `keys.rs` the key spaces and the typed
//! reads; `layout.rs` converts layouts, and `inode.rs` inodes for the wire.
//!
//! Invariants:
//! 1. Tags and key shapes never change; `tests/golden.rs` holds the bytes.
//! 2. A record that cannot be decoded is [`MetaError::Corrupt`](crate::MetaError::Corrupt), never a
//!    default.

mod inode;
pub(crate) mod keys;
mod layout;
pub mod record;

pub(crate) use inode::{Node, attributes};
pub(crate) use layout::layout_of;
