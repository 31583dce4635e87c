//! The stream between a server and the process that speaks for all members: cut into, and put together from, the memory of
//! each.

use bytes::{Bytes, BytesMut};
use weft_layout::{CellOffset, Piece, Rounds};

use crate::read::Memory as _;
use crate::span::Target;
use crate::transfer::Writing;
use crate::write::FRAME_BYTES;

/// The pieces of all members in the order in which their bytes travel.
pub(super) fn in_order<I>(rounds: Rounds<I>) -> impl Iterator<Item = (usize, Piece)> + Send
where
    I: Iterator<Item = Piece> + Clone + Send,
{
    rounds.flat_map(|round| {
        let members = round.into_iter().enumerate();
        members.flat_map(|(member, pieces)| pieces.into_iter().map(move |piece| (member, piece)))
    })
}

/// Deals one server's stream into the members' memory.
pub(super) struct Deal {
    pieces: Box<dyn Iterator<Item = (usize, Piece)> + Send>,
    rest: Option<(usize, Piece)>,
    moved: u64,
}

impl Deal {
    pub(super) fn new(pieces: impl Iterator<Item = (usize, Piece)> + Send + 'static) -> Deal {
        Deal {
            pieces: Box::new(pieces),
            rest: None,
            moved: 0,
        }
    }

    pub(super) fn take(&mut self, bytes: &Bytes, targets: &mut [Target<'_>]) -> Result<(), String> {
        let mut done = 0;
        while done < bytes.len() {
            let next = self.rest.take().or_else(|| self.pieces.next());
            let Some((member, piece)) = next else {
                return Err("the server sent more bytes than the requests' pieces hold".to_owned());
            };
            let taken = (piece.length as usize).min(bytes.len() - done);
            targets[member].put(piece.memory as usize, bytes, done..done + taken);
            self.moved += taken as u64;
            done += taken;
            self.rest = after(piece, taken as u64).map(|piece| (member, piece));
        }
        Ok(())
    }

    pub(super) fn finish(mut self, expected: u64) -> Result<u64, String> {
        let done = self.rest.is_none() && self.pieces.next().is_none();
        if done && self.moved == expected {
            return Ok(self.moved);
        }
        Err(format!(
            "the server sent {} of {expected} bytes",
            self.moved
        ))
    }
}

/// What is left of a piece after its first `taken` bytes.
fn after(piece: Piece, taken: u64) -> Option<Piece> {
    (taken < piece.length).then(|| Piece {
        offset: CellOffset(piece.offset.0 + taken),
        length: piece.length - taken,
        memory: piece.memory + taken,
        ..piece
    })
}

/// Cuts the members' memory into frames.
pub(super) struct Frames {
    pieces: Box<dyn Iterator<Item = (usize, Piece)> + Send>,
    rest: Option<(usize, Piece)>,
}

impl Frames {
    pub(super) fn new(pieces: Box<dyn Iterator<Item = (usize, Piece)> + Send>) -> Frames {
        Frames { pieces, rest: None }
    }

    /// The next frame's payload, of the `left` bytes that are still to go.
    pub(super) fn next(&mut self, writings: &[Writing], left: &mut u64) -> Bytes {
        let room = (*left).min(FRAME_BYTES as u64) as usize;
        let mut frame = BytesMut::with_capacity(room);
        while frame.len() < room {
            let Some((member, piece)) = self.rest.take().or_else(|| self.pieces.next()) else {
                break;
            };
            let most = piece.length.min((room - frame.len()) as u64);
            let (bytes, range) = writings[member].source.find(piece.memory, most);
            let taken = range.len() as u64;
            frame.extend_from_slice(&bytes[range]);
            self.rest = after(piece, taken).map(|piece| (member, piece));
        }
        *left -= frame.len() as u64;
        frame.freeze()
    }
}
