//! Report: a writer reports a file's size and time, or any client ends an attachment.
//!
//! A size becomes exact only when the last writer has detached and reported it, or when no writer
//! wrote at all. Otherwise the size stays inexact, and readers ask the servers for it: inexact is
//! always safe.

use weft_proto::meta::{ReportReply, ReportRequest};

use crate::access::without_privilege;
use crate::error::MetaError;
use crate::open::{Ended, OpenMode};
use crate::records::record::InodeRecord;
use crate::records::{Node, attributes, keys};
use crate::tx::{Tx, Volume};

pub(crate) fn report(
    volume: &Volume,
    client: u64,
    request: &ReportRequest,
) -> Result<ReportReply, MetaError> {
    let id = request.file;
    // A reader knows neither size nor time, and its detach changes nothing, unless the file is an
    // orphan that the last detach removes.
    if !request.write && detach_idle(volume, client, request)? {
        return Ok(ReportReply::default());
    }
    let wrote = request.write && request.modified.is_some();
    volume.transact_then(
        |tx| note_report(tx, client, request),
        |open, reply| {
            if wrote {
                open.wrote(id);
            }
            if reply.attributes.is_some() {
                volume.state().growth().reported(id);
            }
            if request.detach && !reply.size_wanted {
                // No client that knew the size is left.
                if request.write && reply.attributes.is_none() {
                    volume.state().unknown_sizes().note(id);
                }
                open.detach(client, id, OpenMode::of(request.write));
            }
        },
    )
}

/// Applies a report to the inode.
fn note_report(
    tx: &mut Tx<'_, '_>,
    client: u64,
    request: &ReportRequest,
) -> Result<ReportReply, MetaError> {
    let id = request.file;
    // The bytes are written already.
    tx.force();
    let Some(inode) = keys::inode(tx.reader(), id)? else {
        return Ok(ReportReply::default());
    };
    let recovering = tx.state().grace().is_active();
    // The service has all bytes of an inline file; its cells are empty.
    let in_cells = request.write && !inode.inline;
    let modified = request.modified.filter(|_| in_cells);
    let mode = OpenMode::of(request.write);
    let ended = tx.open_files().if_detached(client, id, mode);
    let ended = ended.filter(|_| request.detach);
    // With changed forks the service asks the servers after the last writer detaches. A client that
    // asked for the size was not the only writer, and only the servers know about removed forks.
    let asked = request.turn.is_some() && inode.fork_bytes > 0;
    let forks_changed = inode.forks_changed || ((request.forks || asked) && in_cells);
    // During the grace period other writers may not have reported yet that they have the file open.
    let can_settle = in_cells && inode.truncate == 0 && !forks_changed && !recovering;
    let last = ended.filter(|ended| can_settle && ended.is_last_writer());
    let size = match last.map(|last| size_after(request, &last, &inode)) {
        None | Some(SizeAfter::Unknown) => None,
        Some(SizeAfter::Known(size)) => Some(size),
        Some(SizeAfter::Wanted { turn }) => {
            return Ok(ReportReply {
                size_wanted: true,
                turn,
                ..ReportReply::default()
            });
        }
    };
    let unchanged = modified.is_none() && last.is_some_and(|last| last.is_unchanged());
    let exact = size.is_some() || unchanged;
    let mut after = inode.clone();
    if let Some(size) = size {
        after.size = size;
    }
    if let Some(modified) = modified {
        after.note_write(modified);
        after.truncate_raced |= inode.truncate != 0;
    }
    if in_cells {
        after.size_exact = exact;
        after.forks_changed = forks_changed;
    }
    if request.write && request.kill_priv {
        after.mode = without_privilege(&after);
    }
    if after != inode {
        *tx.change(id, &inode) = after.clone();
    }
    if ended.is_some_and(|ended| ended.is_last()) && !recovering && after.links == 0 {
        tx.reap(id)?;
    }
    let shows = exact || (request.write && !in_cells && request.detach);
    let node = Node { id, inode: after };
    Ok(ReportReply {
        attributes: shows.then(|| attributes(&node)),
        alone: ended.is_some_and(|ended| ended.was_alone()),
        ..ReportReply::default()
    })
}

/// What is known of a file's size when its last writer detaches.
enum SizeAfter {
    /// The size is certain.
    Known(u64),
    /// The client must ask the servers, and repeat its report with this turn.
    Wanted {
        /// The turn in which the servers' answer is valid.
        turn: u64,
    },
    /// The client does not know it and cannot ask.
    Unknown,
}

fn size_after(request: &ReportRequest, last: &Ended, inode: &InodeRecord) -> SizeAfter {
    match (request.size, request.end) {
        (Some(size), _) if request.turn == Some(last.turn()) => SizeAfter::Known(size),
        (_, Some(end)) if last.was_alone() => SizeAfter::Known(end.max(inode.size)),
        // The end may also miss bytes of a client that has attached, written and detached since the
        // servers were asked.
        (_, end) if request.can_ask || end.is_some() => SizeAfter::Wanted { turn: last.turn() },
        _ => SizeAfter::Unknown,
    }
}

/// Ends the attachment of a reader, or of a writer of an inline file, without a transaction. False
/// where the inode may have to change, or the file may have to be removed.
pub(super) fn detach_idle(
    volume: &Volume,
    client: u64,
    request: &ReportRequest,
) -> Result<bool, MetaError> {
    let (id, write) = (request.file, request.write);
    let mut open = volume.state().open_files();
    if request.detach {
        let ended = open.if_detached(client, id, OpenMode::of(write));
        let unused = ended.is_some_and(|ended| ended.is_last());
        if unused || write {
            let inode = volume.read(|reader| keys::inode(reader, id))?;
            let stays = inode.is_none_or(|i| (i.inline || !write) && (i.links > 0 || !unused));
            if !stays {
                return Ok(false);
            }
        }
        open.detach(client, id, OpenMode::of(write));
    }
    Ok(true)
}
