//! What a request touches and moves, for a history.

use weft_layout::{Request, Splitter, StridedPieces};
use weft_referee::{Piece, What};

use super::read::Moved;
use super::span::Source;
use crate::OpenView;

impl OpenView {
    /// Whether a history has this view's requests.
    pub(super) fn is_recorded(&self) -> bool {
        self.file.is_recorded() && self.fork == "data" && self.checkpoint == 0
    }

    /// The rows of a request: where each lies in its cell and in memory.
    fn rows(&self, request: &Request, mut row: impl FnMut(Piece, u64)) {
        for slot in self.map.slots(request).unwrap_or_default() {
            let Ok(pieces) = self.map.pieces(request, slot) else {
                continue;
            };
            let mut splitter = Splitter::whole(pieces);
            while let Some(strided) = splitter.next(u64::MAX) {
                for n in 0..strided.count {
                    row(piece(&strided, n), strided.memory_of(n));
                }
            }
        }
    }

    pub(super) fn recorded_write(&self, request: &Request, source: &Source) -> What {
        let (mut pieces, mut bytes) = (Vec::new(), Vec::new());
        self.rows(request, |piece, memory| {
            let (mut at, end) = (memory, memory + piece.length);
            while at < end {
                let (buffer, range) = source.find(at, end - at);
                at += range.len() as u64;
                bytes.extend_from_slice(&buffer[range]);
            }
            pieces.push(piece);
        });
        What::Write { pieces, bytes }
    }

    pub(super) fn recorded_clear(&self, request: &Request) -> What {
        let mut pieces = Vec::new();
        self.rows(request, |piece, _| pieces.push(piece));
        What::Clear { pieces }
    }

    /// What a read returned: nothing is known of bytes beyond the end of their cell.
    pub(super) fn recorded_read(&self, request: &Request, moved: &Moved, copy: &[u8]) -> What {
        let (mut pieces, mut bytes) = (Vec::new(), Vec::new());
        self.rows(request, |mut piece, memory| {
            let cell = weft_layout::CellIndex(piece.cell);
            let length = moved.lengths.get(&cell).copied().unwrap_or(0);
            piece.length = piece.length.min(length.saturating_sub(piece.offset));
            if piece.length > 0 {
                let at = memory as usize;
                bytes.extend_from_slice(&copy[at..at + piece.length as usize]);
                pieces.push(piece);
            }
        });
        What::Read { pieces, bytes }
    }
}

fn piece(strided: &StridedPieces, n: u64) -> Piece {
    Piece {
        cell: strided.cell.0,
        offset: strided.offset.0 + n * strided.stride,
        length: strided.length,
    }
}
