//! Attach: resolves a path, checks access, creates the file if asked, and records that it is open.
//!
//! Attaching an existing file needs no transaction if its size is inexact already, or if it is only
//! read: the file is found in a snapshot and read once more under the lock of the open files, so
//! that it cannot be deleted in between. Everything else is one transaction.
//!
//! Other clients that gather what programs write to the file are asked for it first: then
//! [`MetaError::Unsent`] says so, and the caller repeats the attach.
//!
//! The answer for an inline file has its bytes, unless the client cannot handle that or another
//! client may be writing it: then [`MetaError::Inline`] says that it must be spilled first.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use weft_kv::{Reader, prefix_end};
use weft_proto::limits::{ATTACH_AHEAD_BYTES, ATTACH_AHEAD_MAX};
use weft_proto::meta::{
    AttachReply, AttachRequest, Attributes, Create, Credentials, FileKind, KeepSmall, KeptSmall,
    SmallFile,
};

use crate::access::{READ, SEARCH, WRITE, need};
use crate::error::{MetaError, text};
use crate::leases::{Change, FileLease};
use crate::open::{OpenFiles, SizeBefore};
use crate::ops::names::{new_inode, place, writable};
use crate::paths::{End, LastLink, Slot, not_found, resolve, walk};
use crate::records::keys::{self, ENTRIES, content};
use crate::records::record::EntryRecord;
use crate::records::{Node, attributes};
use crate::servers::placement;
use crate::tx::{Tx, Volume};

/// What an attach found or made.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// The answer.
    pub reply: AttachReply,
    /// The attach committed something: sync before answering.
    pub committed: bool,
}

pub(crate) fn attach(
    volume: &Volume,
    now: i64,
    client: u64,
    request: &AttachRequest,
    sent: Option<u64>,
) -> Result<Attached, MetaError> {
    let attached = attach_now(volume, now, client, request, sent)?;
    let id = attached.reply.attributes.id;
    let state = volume.state();
    // Clients that keep it must ask from now on.
    if request.write && state.leases().is_held_elsewhere(client, id) {
        let changed = vec![Change::File(id)];
        state.changes().publish(client, changed, state.leases());
    }
    Ok(attached)
}

fn attach_now(
    volume: &Volume,
    now: i64,
    client: u64,
    request: &AttachRequest,
    sent: Option<u64>,
) -> Result<Attached, MetaError> {
    // A create mostly finds the name free: then one walk, inside the transaction, is cheaper.
    if request.create.is_none()
        && let Some(mut attached) = attach_existing(volume, client, request, sent)?
    {
        if let Some(kept) = &mut attached.reply.kept {
            kept.ahead = attach_ahead(volume, client, request);
        }
        return Ok(attached);
    }
    let epoch = volume.state().servers().epoch();
    volume
        .transact_then(
            |tx| {
                // No client attaches or detaches from here to the commit.
                tx.open_files();
                let (mut node, created) = find_or_create(volume, tx, now, request)?;
                require_sent(volume, tx.open_files(), client, node.id, sent)?;
                let writers = Writers::of(tx.may_be_written(node.id));
                let exact = node.inode.size_exact;
                let data = inline(tx.reader(), &node, request, writers)?;
                let spilled = node.inode.inline && data.is_none();
                if spilled {
                    tx.require_cells(&mut node)?;
                }
                let changed = request.write && exact && data.is_none();
                if changed {
                    node.inode.size_exact = false;
                    tx.change(node.id, &node.inode).size_exact = false;
                }
                let reply = AttachReply {
                    attributes: attributes(&node),
                    epoch,
                    created,
                    inline: data,
                    sole: request.write && exact && writers == Writers::None,
                    shared: false,
                    kept: None,
                };
                let committed = created || spilled || changed;
                Ok((Attached { reply, committed }, exact))
            },
            |open, (attached, exact)| {
                let id = attached.reply.attributes.id;
                if request.write {
                    open.attach_writer(client, id, SizeBefore::of(*exact));
                } else {
                    open.attach_reader(client, id);
                }
            },
        )
        .map(|(attached, _)| attached)
}

/// Attaches without a transaction; `None` where one is needed.
fn attach_existing(
    volume: &Volume,
    client: u64,
    request: &AttachRequest,
    sent: Option<u64>,
) -> Result<Option<Attached>, MetaError> {
    let found = volume.read(|reader| resolve(reader, &request.who, &request.target))?;
    check(request, &found)?;
    let keeps = request.keep.is_some() && request.read && !request.write;
    // Before it is read: a change from here on ends the lease.
    let leases = volume.state().leases();
    let lease = if keeps {
        leases.grant_file(client, found.id)
    } else {
        FileLease::Refused
    };
    let attached = attach_found(volume, client, request, &found, (lease, sent));
    let kept = |attached: &Option<Attached>| {
        attached
            .as_ref()
            .is_some_and(|attached| attached.reply.kept.is_some())
    };
    if lease == FileLease::New && !attached.as_ref().is_ok_and(kept) {
        leases.end_file(client, found.id);
    }
    attached
}

/// Attaches what was found, if it is still there and that needs no transaction.
fn attach_found(
    volume: &Volume,
    client: u64,
    request: &AttachRequest,
    found: &Node,
    (lease, sent): (FileLease, Option<u64>),
) -> Result<Option<Attached>, MetaError> {
    let mut open = volume.state().open_files();
    require_sent(volume, &open, client, found.id, sent)?;
    let writers =
        Writers::of(volume.state().grace().may_hold(found.id) || open.has_writer(found.id));
    let now = volume.read(|reader| {
        let Some(inode) = keys::inode(reader, found.id)? else {
            return Ok(None);
        };
        let id = found.id;
        let node = Node { id, inode };
        let data = inline(reader, &node, request, writers)?;
        Ok(Some((node, data)))
    })?;
    let Some((node, data)) = now else {
        // It was deleted since. The transaction finds out whether the path now names another file.
        return Ok(None);
    };
    let exact = node.inode.size_exact;
    if data.is_none() && (node.inode.inline || (request.write && exact)) {
        return Ok(None);
    }
    if request.write {
        open.attach_writer(client, node.id, SizeBefore::of(exact));
    } else {
        open.attach_reader(client, node.id);
    }
    // It may have ended meanwhile, by a change or by the end of another attachment.
    let leased = lease != FileLease::Refused
        && writers == Writers::None
        && volume.state().leases().holds_file(client, found.id);
    drop(open);
    // Who has an empty file open is in the way of a new layout.
    let is_kept = leased && data.as_ref().is_some_and(|data| !data.is_empty());
    let reply = AttachReply {
        attributes: attributes(&node),
        epoch: volume.state().servers().epoch(),
        created: false,
        inline: data,
        sole: request.write && exact && writers == Writers::None,
        shared: false,
        kept: is_kept.then(KeptSmall::default),
    };
    Ok(Some(Attached {
        reply,
        committed: false,
    }))
}

/// Attaches small files that the client will probably read next; those that cannot be are left out.
fn attach_ahead(volume: &Volume, client: u64, request: &AttachRequest) -> Vec<SmallFile> {
    let mut ahead = Vec::new();
    let Some(keep) = request.keep.as_ref().filter(|keep| keep.directory != 0) else {
        return ahead;
    };
    let named = volume.read(|reader| following(reader, &request.who, keep));
    let mut bytes = 0;
    for (name, id) in named.unwrap_or_default() {
        if bytes >= ATTACH_AHEAD_BYTES {
            break;
        }
        let lease = volume.state().leases().grant_file(client, id);
        if lease == FileLease::Refused {
            break;
        }
        let small = attach_small(volume, client, request, id);
        if let Ok(Some((attributes, inline))) = small {
            bytes += inline.len();
            ahead.push(SmallFile {
                name,
                attributes,
                inline,
            });
        } else if lease == FileLease::New {
            volume.state().leases().end_file(client, id);
        }
    }
    ahead
}

/// Regular files that follow a name in a directory which the caller may search.
fn following(
    reader: &dyn Reader,
    who: &Credentials,
    keep: &KeepSmall,
) -> Result<Vec<(Bytes, u64)>, MetaError> {
    let mut found = Vec::new();
    let Some(directory) = keys::inode(reader, keep.directory)? else {
        return Ok(found);
    };
    need(who, &directory, SEARCH, &keep.after)?;
    let most = keep.files.min(ATTACH_AHEAD_MAX) as usize;
    let mut visit = |key: &[u8], value: &[u8]| {
        let regular = |entry: &EntryRecord| entry.kind == FileKind::Regular as i32;
        if let Some(entry) = keys::entry_in(keep.directory, value).ok().filter(regular) {
            found.push((Bytes::copy_from_slice(&key[8..]), entry.id));
        }
        if found.len() < most {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let start = keys::with_name(keep.directory, &keep.after);
    let end = prefix_end(&keep.directory.to_be_bytes());
    let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    reader.scan(ENTRIES, Bound::Excluded(&start), end, &mut visit)?;
    Ok(found)
}

/// Attaches a file for reading, if it is small, has bytes, and is of no special policy.
fn attach_small(
    volume: &Volume,
    client: u64,
    request: &AttachRequest,
    id: u64,
) -> Result<Option<(Attributes, Bytes)>, MetaError> {
    let mut open = volume.state().open_files();
    if open.has_writer(id) {
        return Ok(None);
    }
    let small = volume.read(|reader| {
        let Some(inode) = keys::inode(reader, id)?.filter(|inode| inode.policy.is_empty()) else {
            return Ok(None);
        };
        let node = Node { id, inode };
        check(request, &node)?;
        let data = inline(reader, &node, request, Writers::None)?;
        Ok(data.map(|data| (attributes(&node), data)))
    })?;
    let small = small.filter(|(_, data)| !data.is_empty());
    // It may have ended meanwhile, by a change or by the end of another attachment.
    let small = small.filter(|_| volume.state().leases().holds_file(client, id));
    if small.is_some() {
        open.attach_reader(client, id);
    }
    Ok(small)
}

/// Refuses an attach of a file of which other clients may have bytes, unless they have sent them.
fn require_sent(
    volume: &Volume,
    open: &OpenFiles,
    client: u64,
    id: u64,
    sent: Option<u64>,
) -> Result<(), MetaError> {
    if sent == Some(id) || !open.has_other_writer(client, id) {
        return Ok(());
    }
    let writers = open.other_writers(client, id);
    if volume.state().leases().gatherers_among(&writers).is_empty() {
        Ok(())
    } else {
        Err(MetaError::Unsent { id })
    }
}

fn find_or_create(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    now: i64,
    request: &AttachRequest,
) -> Result<(Node, bool), MetaError> {
    let last_link = LastLink::of(request.target.follow && !exclusive(request));
    let path = &request.target.path;
    let slot = match walk(tx.reader(), &request.who, &request.target, last_link)? {
        End::Node(node, _) => {
            check(request, &node)?;
            return Ok((node, false));
        }
        End::Slot(slot) => slot,
    };
    match (slot.found(), &request.create) {
        (Some(node), _) => {
            if slot.has_slash() && !node.inode.is_directory() {
                return Err(MetaError::NotDirectory { path: text(path) });
            }
            check(request, node)?;
            Ok((node.clone(), false))
        }
        (None, None) => Err(not_found(path)),
        (None, Some(_)) if slot.has_slash() => Err(MetaError::FileWithSlash { path: text(path) }),
        (None, Some(create)) => create_file(volume, tx, now, request, &slot, create),
    }
}

fn create_file(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    now: i64,
    request: &AttachRequest,
    slot: &Slot,
    create: &Create,
) -> Result<(Node, bool), MetaError> {
    let path = &request.target.path;
    writable(&request.who, slot.directory(), path)?;
    let kind = FileKind::Regular;
    let mut inode = new_inode(
        &request.who,
        slot.directory(),
        kind,
        (create.mode, create.umask),
        now,
    );
    let id = tx.next_id()?;
    let inherited = slot.directory().inode.layout_options.as_ref();
    let layout_options = create.layout.as_ref();
    let layout = placement::choose(
        &volume.state().servers().pool(now),
        id,
        layout_options,
        inherited,
        path,
    )?;
    inode.layout = Some(layout);
    inode.inline = request.inline;
    place(tx, slot, id, inode.clone(), now)?;
    Ok((Node { id, inode }, true))
}

fn exclusive(request: &AttachRequest) -> bool {
    request
        .create
        .as_ref()
        .is_some_and(|create| create.exclusive)
}

/// Checks that a file may be attached in this way.
fn check(request: &AttachRequest, node: &Node) -> Result<(), MetaError> {
    let path = &request.target.path;
    if exclusive(request) {
        return Err(MetaError::Exists { path: text(path) });
    }
    if request.write && node.inode.frozen.is_some() {
        return Err(MetaError::ReadOnly { id: node.id });
    }
    match FileKind::try_from(node.inode.kind) {
        Ok(FileKind::Directory) if request.write || request.create.is_some() => {
            return Err(MetaError::IsDirectory { path: text(path) });
        }
        Ok(FileKind::Regular | FileKind::Directory) => {}
        Ok(FileKind::Symlink) => return Err(MetaError::Loop { path: text(path) }),
        _ => {
            return Err(MetaError::Unsupported {
                path: text(path),
                reason: "a fifo, socket or device has no data in the volume; open it through a mount",
            });
        }
    }
    // Checked together: a single entry of an ACL must allow both.
    let read = if request.read { READ } else { 0 };
    let write = if request.write { WRITE } else { 0 };
    need(&request.who, &node.inode, read | write, path)
}

/// Whether another client may be writing the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    None,
    Possible,
}

impl Writers {
    fn of(written: bool) -> Writers {
        if written {
            Writers::Possible
        } else {
            Writers::None
        }
    }
}

/// The bytes of an inline file, if it may stay inline with this attachment.
fn inline(
    reader: &dyn Reader,
    node: &Node,
    request: &AttachRequest,
    writers: Writers,
) -> Result<Option<Bytes>, MetaError> {
    if !node.inode.inline || !request.inline || (request.write && writers == Writers::Possible) {
        return Ok(None);
    }
    let record = content(reader, node.id)?;
    Ok((!record.spilling).then(|| record.data.into()))
}
