//! Where the bytes of a request lie in memory.
//!
//! A request numbers its bytes in the caller's order; a pattern in memory numbers its own the same
//! way. Byte `n` of the one is byte `n` of the other, whatever the two look like.

use std::sync::Arc;

use super::nest::Nest;
use super::overlap::disjoint;
use crate::{Pattern, PatternError, Request, ViewOffset};

/// A pattern over the caller's memory, checked.
#[derive(Clone, Debug)]
pub struct Memory {
    nest: Arc<Nest>,
    /// The number of the pattern's byte that is the first here.
    first: u64,
}

impl Memory {
    /// The memory of `request`: `pattern` from position `start` on.
    ///
    /// # Errors
    /// A [`PatternError`] with what is not legal; [`PatternError::Unequal`] when it has another
    /// number of bytes than the request.
    pub fn new(start: u64, pattern: &Pattern, request: &Request) -> Result<Memory, PatternError> {
        let (memory, request) = (pattern.length()?, request.memory());
        if memory != request {
            return Err(PatternError::Unequal { memory, request });
        }
        match Request::new(ViewOffset(start), pattern)? {
            Request::Shaped(shaped) => Ok(Memory {
                nest: shaped.0,
                first: 0,
            }),
            Request::Contiguous { .. } => unreachable!("a pattern becomes a shaped request"),
        }
    }

    /// Bytes that a buffer must have to hold all of it.
    pub fn end(&self) -> u64 {
        self.nest.end
    }

    /// Checks that no byte of memory stands for two of the request: what a read puts there would
    /// depend on the order in which it arrives.
    ///
    /// # Errors
    /// As [`Request::check_disjoint`].
    pub fn check_disjoint(&self) -> Result<(), PatternError> {
        disjoint(&self.nest)
    }

    /// Where the byte of this number lies, and how many from it on lie in a row there: at least 1.
    ///
    /// Shape: `number` is below the request's bytes.
    /// Cost: O(depth), and O(log members) for each sequence or list.
    /// # Source
    /// Property `memory_places_match_the_model`.
    pub fn place(&self, number: u64) -> (u64, u64) {
        self.nest.find(self.first + number)
    }

    /// The memory of the bytes after the first so many: byte 0 there is this one here.
    #[must_use]
    pub fn behind(&self, bytes: u64) -> Memory {
        Memory {
            nest: self.nest.clone(),
            first: self.first + bytes,
        }
    }
}
