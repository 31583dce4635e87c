//! Positions of a store or a namespace, and their form on the wire.

use weft_kv::Position;
use weft_proto::stamp;

pub(crate) fn from_wire(at: &stamp::Position) -> Position {
    Position {
        incarnation: at.incarnation,
        sequence: at.sequence,
    }
}

pub(crate) fn to_wire(at: Position) -> stamp::Position {
    stamp::Position {
        incarnation: at.incarnation,
        sequence: at.sequence,
    }
}
