//! Bytes of files through views: plain, listed and structured requests.
//!
//! Owns no state but the offset pointer of each open view. A call sends one request to each server
//! that holds pieces of it.

mod advise;
mod array;
mod ask_chunks;
mod by_name;
mod callbacks;
mod checkpoint;
mod clear;
mod copy;
mod copying;
mod delayed;
mod extend;
mod in_order;
mod list;
mod parts;
mod read;
mod read_kept;
mod read_names;
mod record;
mod span;
mod transfer;
mod view;
mod write;
mod zeros;

pub use ask_chunks::OfferedChunk;
pub use checkpoint::CheckpointInfo;
pub(crate) use copy::copy_there;
pub use parts::ReadParts;
pub(crate) use read::{Scatter, lengths};
pub(crate) use span::{Durability, Sink, Source, Target};
pub use transfer::Transfer;
pub(crate) use transfer::Writing;
pub use view::OpenView;
pub(crate) use write::{FRAME_BYTES, Gather, send_frames};
