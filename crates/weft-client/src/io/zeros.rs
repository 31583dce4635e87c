//! Zeros in memory where a file has no bytes, for callers that count on it
//! ([`OpenView::zeroed`]).
//!
//! Bytes beyond the end of a cell are found from the lengths that the servers have told. Ghosts
//! belong to no server, so nothing names them: where a view has any, all memory of a request is
//! cleared before it is read.

use std::cmp::max;
use std::collections::HashMap;

use bytes::Bytes;
use weft_layout::{CellIndex, Request, View};

use super::span::Sink;
use crate::{Error, OpenView};

/// What is put at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl OpenView {
    /// Before a read: clears its memory if some of it may belong to ghosts.
    pub(crate) fn clear_ghosts(&self, request: &Request, memory: &mut impl Sink) {
        if self.is_zeroed() && self.has_ghosts() {
            put_zeros(memory, 0, request.memory());
        }
    }

    /// After a read that moved `moved` bytes of cells of these lengths: clears what is beyond them.
    pub(crate) fn clear_beyond(
        &self,
        request: &Request,
        moved: u64,
        lengths: &HashMap<CellIndex, u64>,
        memory: &mut impl Sink,
    ) -> Result<(), Error> {
        if !self.is_zeroed() || moved >= request.memory() {
            return Ok(());
        }
        for slot in self.map.slots(request)? {
            for piece in self.map.pieces(request, slot)? {
                let (start, end) = (piece.offset.0, piece.offset.0 + piece.length);
                let length = lengths.get(&piece.cell).copied().unwrap_or(0);
                let from = max(start, length);
                if from < end {
                    put_zeros(memory, piece.memory + (from - start), end - from);
                }
            }
        }
        Ok(())
    }

    /// Whether the view implies cells that the file does not have.
    fn has_ghosts(&self) -> bool {
        let View::Subfile(subfile) = self.view() else {
            return false;
        };
        let cells = u64::from(self.map.grid().cells());
        let across = u128::from(subfile.hbs) * u128::from(subfile.hn);
        across > 1 && u128::from(cells) % across != 0
    }
}

fn put_zeros(memory: &mut impl Sink, mut at: u64, mut length: u64) {
    let zeros = Bytes::from_static(&ZEROS);
    while length > 0 {
        let now = length.min(ZEROS.len() as u64);
        memory.put(at as usize, &zeros, 0..now as usize);
        (at, length) = (at + now, length - now);
    }
}
