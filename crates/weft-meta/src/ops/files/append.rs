//! Where to append: the service deals out offsets, so that no two appends overlap, whoever writes them.
//!
//! What was dealt out is kept in memory beside the attachments and goes with the last one. Where the end of a file
//! lies is known without asking as long as one client alone has it attached for writing: it is what was dealt
//! out, what that client knows, or the size from before. Otherwise the caller asks the servers, and comes back.
//!
//! Invariant: an offset that is dealt out is at or beyond the end of every one dealt out since the last truncate.

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
    /// Ask the file's servers for its size, then call [`Namespace::append_after`].
    Ask {
        /// Where its cells are.
        layout: Layout,
        /// What the answer is good for.
        turn: u64,
    },
    /// A truncate must be carried through first.
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
    // Of an inline file the service knows all that is stored.
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
