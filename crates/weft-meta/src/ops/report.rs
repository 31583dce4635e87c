//! Report: what a writer knows of size and time, and the end of an attachment.
//!
//! A size becomes exact only when the last writer has gone and told it, or when the writers did not
//! write at all. Whenever that is not certain the size stays inexact, and who needs it asks the
//! servers: inexact is always safe.

use weft_proto::limits::DETACH_MAX;
use weft_proto::meta::{DetachReply, DetachRequest, ReportReply, ReportRequest};

use crate::access::without_privilege;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::open::reap;
use crate::records::{Node, attributes, keys};

impl Namespace {
    /// A client reports; see [`ReportRequest`]. A file that is gone is no error: it ended with the
    /// attachment.
    ///
    /// # Durability
    /// Needs no sync: what power loss takes back is that the size is exact.
    pub fn report(&self, client: u64, request: &ReportRequest) -> Result<ReportReply, MetaError> {
        let id = request.file;
        // A reader knows nothing of size and time, and changes nothing when it goes, except where
        // the file waits for it to go.
        if !request.write && self.detach_idle(client, request)? {
            return Ok(ReportReply::default());
        }
        let told_time = request.modified.filter(|_| request.write);
        self.edit_then(
            |edit| {
                // What was written is written.
                edit.force();
                let Some(inode) = keys::inode(edit.reader(), id)? else {
                    return Ok(ReportReply::default());
                };
                // Of an inline file the service knows all; nobody can have written to its cells.
                let in_cells = request.write && !inode.inline;
                let modified = told_time.filter(|_| in_cells);
                let ended = edit.open_files().if_detached(client, id, request.write);
                let ended = ended.filter(|_| request.detach);
                // Then the service asks for all of it, when the last writer has gone.
                // Who asked for the size was not the only one who wrote: of forks that are gone nobody else may tell.
                let asked = request.turn.is_some() && inode.fork_bytes > 0;
                let forks_changed = inode.forks_changed || ((request.forks || asked) && in_cells);
                let mut size = None;
                if let Some(last) = ended.filter(|ended| ended.no_writer)
                    && in_cells
                    && inode.truncate == 0
                    && !forks_changed
                    && !self.recovering()
                {
                    match (request.size, request.end) {
                        (Some(told), _) if request.turn == Some(last.turn) => size = Some(told),
                        (_, Some(end)) if last.alone => size = Some(end.max(inode.size)),
                        // Also where somebody came since it was asked for, and has written and gone: it may miss his bytes.
                        (_, end) if request.can_ask || end.is_some() => {
                            return Ok(ReportReply {
                                size_wanted: true,
                                turn: last.turn,
                                ..ReportReply::default()
                            });
                        }
                        _ => {}
                    }
                }
                let unchanged = ended.is_some_and(|ended| ended.unchanged);
                let unchanged = unchanged && modified.is_none();
                let exact = request.write
                    && ended.is_some_and(|ended| ended.no_writer)
                    && (size.is_some() || unchanged)
                    && inode.truncate == 0
                    && !forks_changed
                    // Other writers may not have told yet that they are there.
                    && !self.recovering();
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
                    *edit.change(id, &inode) = after.clone();
                }
                if ended.is_some_and(|ended| ended.unused) && !self.recovering() && after.links == 0
                {
                    reap(edit, id)?;
                }
                let tells = exact || (request.write && !in_cells && request.detach);
                let node = Node { id, inode: after };
                Ok(ReportReply {
                    attributes: tells.then(|| attributes(&node)),
                    alone: ended.is_some_and(|ended| ended.alone),
                    ..ReportReply::default()
                })
            },
            |open, reply| {
                if told_time.is_some() {
                    open.wrote(id);
                }
                if reply.attributes.is_some() {
                    self.growth.told(id);
                }
                if request.detach && !reply.size_wanted {
                    // Whoever could tell the size is gone, and it is not known.
                    if request.write && reply.attributes.is_none() {
                        self.unsettled.note(id);
                    }
                    open.detach(client, id, request.write);
                }
            },
        )
    }

    /// Ends attachments that have nothing to tell; see [`DetachRequest`].
    ///
    /// # Durability
    /// As of [`Namespace::report`].
    pub fn detach(&self, client: u64, request: &DetachRequest) -> Result<DetachReply, MetaError> {
        let (reading, writing) = (&request.reading, &request.writing);
        if reading.len() + writing.len() > DETACH_MAX || request.accessed.len() > DETACH_MAX {
            return Err(MetaError::Invalid {
                path: "a list of files".into(),
                reason: "one call ends at most 4096 attachments",
            });
        }
        self.note_accesses(&request.accessed);
        let reading = reading.iter().map(|file| (*file, false));
        for (file, write) in reading.chain(writing.iter().map(|file| (*file, true))) {
            let report = ReportRequest {
                file,
                write,
                detach: true,
                ..ReportRequest::default()
            };
            if !self.detach_idle(client, &report)? {
                self.report(client, &report)?;
            }
        }
        Ok(DetachReply {})
    }

    /// Ends the attachment of a reader, or of a writer of an inline file of which the service knows all, without a
    /// transaction; false where the inode may have to change, or the file to go.
    fn detach_idle(&self, client: u64, request: &ReportRequest) -> Result<bool, MetaError> {
        let (id, write) = (request.file, request.write);
        let mut open = self.open_files.lock();
        if request.detach {
            let ended = open.if_detached(client, id, write);
            let unused = ended.is_some_and(|ended| ended.unused);
            if unused || write {
                let inode = self.read(|reader| keys::inode(reader, id))?;
                let stays = inode.is_none_or(|i| (i.inline || !write) && (i.links > 0 || !unused));
                if !stays {
                    return Ok(false);
                }
            }
            open.detach(client, id, write);
        }
        Ok(true)
    }
}
