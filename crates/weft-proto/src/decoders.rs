//! Every decoder of bytes from a wire, and of messages that servers store, for fuzzing.
//!
//! Each decoder is followed by the encoder. Unknown tags are skipped, so the result of a message
//! decoder may be shorter than its input; fed with the result, it returns the same. A frame comes
//! back unchanged.

use bytes::Bytes;
use prost::Message as _;
use weft_layout::{Grid, Layout, Request, View};

use crate::frame::{HEADER_BYTES, Header};
use crate::round_trip::round_trip;
use crate::{call, io, meta, upkeep};

pub use crate::round_trip::Decoder;

/// Frames as a receiver decodes them: header, body, payload.
pub const FRAMES: &[(&str, Decoder)] = &[("frame", frame)];

/// Requests and replies of all calls, and the body of a failure.
pub fn messages() -> impl Iterator<Item = (&'static str, Decoder)> {
    let failure = ("failure", round_trip::<crate::Failure> as Decoder);
    call::MESSAGES.iter().copied().chain([failure])
}

/// Messages that convert to checked types.
pub const CONVERSIONS: &[(&str, Decoder)] = &[
    ("grid", |bytes| {
        let grid = Grid::try_from(&io::Grid::decode(bytes).ok()?).ok()?;
        Some(io::Grid::from(&grid).encode_to_vec())
    }),
    ("view", |bytes| {
        let view = View::try_from(&io::View::decode(bytes).ok()?).ok()?;
        Some(io::View::from(&view).encode_to_vec())
    }),
    ("layout", |bytes| {
        let layout = Layout::try_from(&meta::Layout::decode(bytes).ok()?).ok()?;
        Some(meta::Layout::from(&layout).encode_to_vec())
    }),
    ("pattern", |bytes| {
        let request = Request::try_from(&io::Pattern::decode(bytes).ok()?).ok()?;
        let pattern = io::Pattern::from_request(&request, false).ok()?;
        Some(pattern.encode_to_vec())
    }),
    ("access", |bytes| {
        let access = io::Access::decode(bytes).ok()?;
        access.checked().ok()?;
        Some(access.encode_to_vec())
    }),
];

/// Messages that servers store beside their data.
pub const KEPT: &[(&str, Decoder)] = &[("scrub pass", |bytes| {
    Some(upkeep::ScrubPassRecord::decode(bytes)?.encode())
})];

fn frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let header = Header::decode(head).ok()?;
    let (body, rest) = rest.split_at_checked(header.body_len as usize)?;
    header.check_body(head, body).ok()?;
    let (payload, rest) = rest.split_at_checked(header.payload_len as usize)?;
    header.check_payload(payload).ok()?;
    let parts = [Bytes::copy_from_slice(payload)];
    let head = Header::encode(header.kind, header.flags, header.request, body, &parts);
    Some([&head, body, payload, rest].concat())
}
