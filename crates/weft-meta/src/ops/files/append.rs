//! Append: the service reserves ranges at the end of a file, so that no two appends overlap,
//! whichever clients write them.
//!
//! Reservations are kept in memory beside the attachments and end with the last one. The end of a
//! file is known without the servers while only one client has it attached for writing: it is the
//! end of the reservations, the end that the client knows, or the previous size. Otherwise the
//! caller asks the servers and repeats the call.
//!
//! Invariant: a reserved range begins at or beyond the end of every range reserved since the last
//! truncate.

use weft_layout::Layout;
use weft_proto::coord::AppendRequest;

use crate::error::MetaError;
use crate::records::{keys, layout_of};
use crate::tx::Volume;

/// The answer to an append, or what is missing for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Append {
    /// The offset.
    At(u64),
    /// Ask the file's servers for its size, then call
    /// [`Namespace::append_after`](crate::Namespace::append_after).
    Ask {
        /// Where its cells are.
        layout: Layout,
        /// The turn in which the servers' answer is valid.
        turn: u64,
    },
    /// A truncate must be completed first.
    Truncating,
}

pub(crate) fn append(
    volume: &Volume,
    client: u64,
    request: &AppendRequest,
) -> Result<Append, MetaError> {
    let id = request.file;
    let mut open = volume.state().open_files();
    let appender = open.appender(client, id).ok_or_else(|| detached(id))?;
    let inode = volume.read(|reader| keys::inode(reader, id))?;
    let inode = inode.ok_or(MetaError::Stale { id })?;
    if inode.truncate != 0 {
        return Ok(Append::Truncating);
    }
    if !appender.knows_end() || volume.state().grace().may_hold(id) {
        let layout = layout_of(id, &inode)?;
        let turn = appender.turn();
        return Ok(Append::Ask { layout, turn });
    }
    // The service has all stored bytes of an inline file.
    let counts = appender.size_counts() || inode.inline;
    let before = if counts { inode.size } else { 0 };
    let offset = open.reserve(client, id, before.max(request.known_end), request.length);
    checked(request, offset).map(Append::At)
}

pub(crate) fn append_after(
    volume: &Volume,
    client: u64,
    request: &AppendRequest,
    size: u64,
    turn: u64,
) -> Result<Option<u64>, MetaError> {
    let id = request.file;
    let mut open = volume.state().open_files();
    let appender = open.appender(client, id).ok_or_else(|| detached(id))?;
    if appender.turn() != turn {
        return Ok(None);
    }
    let offset = open.reserve(client, id, size.max(request.known_end), request.length);
    checked(request, offset).map(Some)
}

fn detached(id: u64) -> MetaError {
    MetaError::Invalid {
        path: format!("file {id}"),
        reason: "only a client that has it attached for writing can append to it",
    }
}

fn checked(request: &AppendRequest, offset: Option<u64>) -> Result<u64, MetaError> {
    offset.ok_or_else(|| MetaError::TooLarge {
        path: format!("file {}", request.file),
        size: request.known_end.saturating_add(request.length),
    })
}
