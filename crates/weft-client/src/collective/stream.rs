//! The stream between a server and the process that speaks for all members: cut into, and put
//! together from, the memory of each.
//!
//! Both sides cut rounds of the requests as they travel; in which pieces a member's bytes lie in
//! its memory is another matter, which the server does not know.

use bytes::{Bytes, BytesMut};
use weft_layout::{CellLengths, Endless, Piece, Rounds, Search, Splitter, StridedPieces};

use crate::io::{FRAME_BYTES, Place as _, Source, Target, Writing};

/// Whose bytes come next, and how many.
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
struct Travel<L> {
    turns: Box<dyn Iterator<Item = Turn> + Send>,
    turn: Turn,
    /// Each member's own pieces, in which the caller's numbers are.
    own: Vec<Splitter<L>>,
}

impl<L: CellLengths> Travel<L> {
    fn new(turns: impl Iterator<Item = Turn> + Send + 'static, own: Vec<Splitter<L>>) -> Self {
        Travel {
            turns: Box::new(turns),
            turn: (0, 0),
            own,
        }
    }

    /// The next bytes, at most `most` of them, and whose they are.
    fn next(&mut self, most: u64) -> Option<(usize, StridedPieces)> {
        while self.turn.1 == 0 {
            self.turn = self.turns.next()?;
        }
        let (member, left) = self.turn;
        let stretch = self.own[member].next(left.min(most))?;
        self.turn.1 -= stretch.bytes();
        Some((member, stretch))
    }

    fn is_done(&mut self) -> bool {
        self.turn.1 == 0
            && self.turns.all(|(_, bytes)| bytes == 0)
            && self.own.iter_mut().all(Splitter::is_done)
    }
}

/// Deals one server's stream into the members' memory.
pub(super) struct Deal<L> {
    travel: Travel<L>,
    moved: u64,
}

impl<L: CellLengths> Deal<L> {
    pub(super) fn new(
        turns: impl Iterator<Item = Turn> + Send + 'static,
        own: Vec<Splitter<L>>,
    ) -> Deal<L> {
        Deal {
            travel: Travel::new(turns, own),
            moved: 0,
        }
    }

    pub(super) fn take(&mut self, bytes: &Bytes, targets: &mut [Target<'_>]) -> Result<(), String> {
        let mut done = 0;
        while done < bytes.len() {
            let Some((member, stretch)) = self.travel.next((bytes.len() - done) as u64) else {
                return Err("the server sent more bytes than the requests' pieces hold".to_owned());
            };
            targets[member].deal(&stretch, bytes, done);
            self.moved += stretch.bytes();
            done += stretch.bytes() as usize;
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

/// Cuts the members' memory into frames.
pub(super) struct Frames(Travel<Endless>);

impl Frames {
    pub(super) fn new(
        turns: impl Iterator<Item = Turn> + Send + 'static,
        own: Vec<Splitter<Endless>>,
    ) -> Frames {
        Frames(Travel::new(turns, own))
    }

    /// The next frame's payload, of the `left` bytes that are still to go.
    pub(super) fn next(&mut self, writings: &[Writing], left: &mut u64) -> Bytes {
        let room = (*left).min(FRAME_BYTES as u64) as usize;
        let mut frame = BytesMut::with_capacity(room);
        while frame.len() < room {
            let Some((member, stretch)) = self.0.next((room - frame.len()) as u64) else {
                break;
            };
            put(&mut frame, &writings[member].source, &stretch);
        }
        *left -= frame.len() as u64;
        frame.freeze()
    }
}

/// Appends the bytes of a stretch.
fn put(frame: &mut BytesMut, source: &Source, stretch: &StridedPieces) {
    let (rows, length) = if stretch.is_contiguous_in_memory() {
        (1, stretch.bytes())
    } else {
        (stretch.count, stretch.length)
    };
    for n in 0..rows {
        let (mut number, end) = (stretch.memory_of(n), stretch.memory_of(n) + length);
        while number < end {
            let (bytes, range) = source.find(number, end - number);
            number += range.len() as u64;
            frame.extend_from_slice(&bytes[range]);
        }
    }
}
