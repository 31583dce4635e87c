//! Requests: which bytes of a view one call touches.
//!
//! A request travels in this compact form; each server works out its own pieces. The bytes of a
//! request are numbered in the caller's order, and pieces say which numbers they hold: as if the
//! caller's buffer held exactly these bytes. Where they really lie in memory is up to the client
//! ([`Memory`](crate::Memory)), so file and memory may be laid out independently of one another.
//!
//! `nest/` holds a checked pattern as strips in nested loops, `overlap.rs` finds bytes that are
//! touched twice, `wire.rs` has the form in which a request travels, `memory.rs` maps its bytes to
//! the caller's memory.

pub(crate) mod memory;
pub(crate) mod nest;
mod overlap;
pub(crate) mod wire;

use std::sync::Arc;

use crate::{Pattern, PatternError, ViewOffset};
use nest::flat::Nest;
use nest::tree::{Tree, range};

/// Which bytes of a view one call touches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Request {
    /// `length` bytes from `offset` on.
    Contiguous {
        /// The first byte.
        offset: ViewOffset,
        /// How many; 0 touches nothing.
        length: u64,
    },
    /// A pattern at a place, checked.
    Shaped(Shaped),
}

/// A checked pattern at a place of a view; made by [`Request::new`] and [`Request::sorted`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shaped(pub(crate) Arc<Nest>);

impl Request {
    /// A pattern that starts at `offset`, its bytes moved in the order in which it names them.
    ///
    /// # Errors
    /// A [`PatternError`] with what is not legal.
    pub fn new(offset: ViewOffset, pattern: &Pattern) -> Result<Request, PatternError> {
        let tree = Tree::of(pattern)?;
        Self::of_tree(offset, tree.as_ref(), pattern.length()?)
    }

    /// As [`Request::new`], moved in ascending order of the view as far as the pattern's loops can
    /// be turned and exchanged, and with runs joined that meet if `join`
    /// ([`Map::rearranges`](crate::Map::rearranges) tells when not). The same bytes have the same
    /// ranks: only the order in which they travel differs.
    ///
    /// # Errors
    /// A [`PatternError`] with what is not legal.
    pub fn sorted(
        offset: ViewOffset,
        pattern: &Pattern,
        join: bool,
    ) -> Result<Request, PatternError> {
        let tree = Tree::of(pattern)?;
        if let Some(tree) = &tree {
            // Before loops are turned, which may hide that they reach too far.
            range(offset.0, tree)?;
        }
        let tree = tree.map(|tree| tree.sorted(join));
        Self::of_tree(offset, tree.as_ref(), pattern.length()?)
    }

    fn of_tree(
        offset: ViewOffset,
        tree: Option<&Tree>,
        bytes: u64,
    ) -> Result<Request, PatternError> {
        let nest = Nest::new(offset.0, tree, bytes)?;
        Ok(Request::Shaped(Shaped(Arc::new(nest))))
    }

    /// One past the last byte of the view that the request touches; where it starts if it touches
    /// none.
    pub fn end(&self) -> u64 {
        match self {
            Request::Contiguous { offset, length } => offset.0.saturating_add(*length),
            Request::Shaped(shaped) => shaped.0.end,
        }
    }

    /// Bytes that the request numbers, those of ghosts and holes included.
    pub fn memory(&self) -> u64 {
        match self {
            Request::Contiguous { length, .. } => *length,
            Request::Shaped(shaped) => shaped.0.bytes,
        }
    }
}
