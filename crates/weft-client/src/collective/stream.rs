//! The stream between a server and the process that represents all members: scattered to, and
//! gathered from, the memory of each.
//!
//! Both sides make rounds of the requests as they travel. Where a member's bytes lie in its memory
//! is not known to the server.

use bytes::{Bytes, BytesMut};
use weft_layout::{CellLengths, Endless, Piece, Rounds, Search, Splitter, StridedPieces};

use crate::io::{FRAME_BYTES, Sink as _, Source, Target, Writing};

/// The member whose bytes come next, and how many.
type Turn = (usize, u64);

/// The members' turns in these rounds of their requests as they travel.
pub(super) fn turns<I>(rounds: Rounds<I>) -> impl Iterator<Item = Turn> + Send
where
    I: Search + Clone + Send,
{
    let bytes = |pieces: Vec<Piece>| pieces.iter().map(|p| p.length).sum();
    rounds.flat_map(move |round| round.into_iter().map(bytes).enumerate())
}

/// All members' bytes in the order in which they travel.
struct StreamOrder<L> {
    turns: Box<dyn Iterator<Item = Turn> + Send>,
    turn: Turn,
    /// Each member's pieces with the caller's numbers.
    local: Vec<Splitter<L>>,
}

impl<L: CellLengths> StreamOrder<L> {
    fn new(turns: impl Iterator<Item = Turn> + Send + 'static, local: Vec<Splitter<L>>) -> Self {
        StreamOrder {
            turns: Box::new(turns),
            turn: (0, 0),
            local,
        }
    }

    /// The next bytes, at most `most` of them, and their member.
    fn next(&mut self, most: u64) -> Option<(usize, StridedPieces)> {
        while self.turn.1 == 0 {
            self.turn = self.turns.next()?;
        }
        let (member, left) = self.turn;
        let strided = self.local[member].next(left.min(most))?;
        self.turn.1 -= strided.bytes();
        Some((member, strided))
    }

    fn is_done(&mut self) -> bool {
        self.turn.1 == 0
            && self.turns.all(|(_, bytes)| bytes == 0)
            && self.local.iter_mut().all(Splitter::is_done)
    }
}

/// Deals one server's stream into the members' memory.
pub(super) struct StreamScatter<L> {
    travel: StreamOrder<L>,
    moved: u64,
}

impl<L: CellLengths> StreamScatter<L> {
    pub(super) fn new(
        turns: impl Iterator<Item = Turn> + Send + 'static,
        local: Vec<Splitter<L>>,
    ) -> StreamScatter<L> {
        StreamScatter {
            travel: StreamOrder::new(turns, local),
            moved: 0,
        }
    }

    pub(super) fn take(&mut self, bytes: &Bytes, targets: &mut [Target<'_>]) -> Result<(), String> {
        let mut done = 0;
        while done < bytes.len() {
            let Some((member, strided)) = self.travel.next((bytes.len() - done) as u64) else {
                return Err("the server sent more bytes than the requests' pieces hold".to_owned());
            };
            targets[member].deal(&strided, bytes, done);
            self.moved += strided.bytes();
            done += strided.bytes() as usize;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, expected: u64) -> Result<u64, String> {
        if self.moved == expected && self.travel.is_done() {
            return Ok(self.moved);
        }
        Err(format!(
            "the server sent {} of {expected} bytes",
            self.moved
        ))
    }
}

/// Gathers the members' memory into frames.
pub(super) struct Frames(StreamOrder<Endless>);

impl Frames {
    pub(super) fn new(
        turns: impl Iterator<Item = Turn> + Send + 'static,
        local: Vec<Splitter<Endless>>,
    ) -> Frames {
        Frames(StreamOrder::new(turns, local))
    }

    /// The next frame's payload, of the `left` bytes that are still to go.
    pub(super) fn next(&mut self, writings: &[Writing], left: &mut u64) -> Bytes {
        let space = (*left).min(FRAME_BYTES as u64) as usize;
        let mut frame = BytesMut::with_capacity(space);
        while frame.len() < space {
            let Some((member, strided)) = self.0.next((space - frame.len()) as u64) else {
                break;
            };
            append(&mut frame, &writings[member].source, &strided);
        }
        *left -= frame.len() as u64;
        frame.freeze()
    }
}

/// Appends the bytes of strided pieces.
fn append(frame: &mut BytesMut, source: &Source, strided: &StridedPieces) {
    let (rows, length) = if strided.is_contiguous_in_memory() {
        (1, strided.bytes())
    } else {
        (strided.count, strided.length)
    };
    for n in 0..rows {
        let (mut number, end) = (strided.memory_of(n), strided.memory_of(n) + length);
        while number < end {
            let (bytes, range) = source.find(number, end - number);
            number += range.len() as u64;
            frame.extend_from_slice(&bytes[range]);
        }
    }
}
