//! Files as a check across servers sees them, in pages or by id, and their names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use weft_kv::{Reader, scan_prefix};
use weft_layout::Layout;
use weft_proto::fsck::{
    FileState, ListFilesReply, ListFilesRequest, ListedCheckpoint, NameOf, NamesOfReply,
    NamesOfRequest,
};
use weft_proto::limits::NAMES_OF_MAX;
use weft_proto::meta::{self, FileKind};

use crate::error::MetaError;
use crate::intents::Intent;
use crate::limits::{FILES_PAGE, FILES_PAGE_BYTES};
use crate::paths::path_of;
use crate::records::keys::{
    self, CHECKPOINTS, ENTRIES, INODES, INTENTS, PARITY, TREE_FILES, content, readable,
};
use crate::records::record::{
    CHECKPOINT_THERE, CheckpointRecord, InodeRecord, IntentRecord, TreeFileRecord,
};
use crate::tx::Volume;

pub(crate) fn list_files(
    volume: &Volume,
    request: &ListFilesRequest,
) -> Result<ListFilesReply, MetaError> {
    volume.read(|reader| {
        let next_id = keys::counters(reader)?.next_id;
        let pending = pending_files(reader)?;
        let trees = trees(reader)?;
        let mut reply = ListFilesReply {
            next_id,
            through: u64::MAX,
            ..ListFilesReply::default()
        };
        if !request.files.is_empty() {
            for file in request.files.iter().take(FILES_PAGE) {
                let open = may_be_open(volume, *file);
                let is_pending = pending.contains(file);
                reply.files.push(state_of(
                    reader,
                    *file,
                    FileActivity {
                        pending: is_pending,
                        open,
                    },
                    &trees,
                )?);
            }
            return Ok(reply);
        }
        let (inodes, through) = page(reader, request.after)?;
        reply.through = through;
        let holds = holds(reader, &trees, request.after, through)?;
        let mut ids: BTreeMap<u64, Option<InodeRecord>> = pending
            .iter()
            .chain(holds.keys())
            .filter(|id| **id > request.after && **id <= through)
            .map(|id| (*id, None))
            .collect();
        ids.extend(parity_files(reader, request.after, through)?);
        ids.extend(inodes.into_iter().map(|(id, inode)| (id, Some(inode))));
        let mut bytes = 0;
        for (id, inode) in ids {
            let activity = FileActivity {
                pending: pending.contains(&id),
                open: may_be_open(volume, id),
            };
            let mut state = state(reader, id, inode, activity)?;
            if let Some(holds) = holds.get(&id) {
                note_holds(reader, &mut state, holds)?;
            }
            bytes += prost::Message::encoded_len(&state);
            reply.files.push(state);
            if bytes > FILES_PAGE_BYTES {
                reply.through = id;
                break;
            }
        }
        reply.more = reply.through != u64::MAX;
        Ok(reply)
    })
}

fn may_be_open(volume: &Volume, file: u64) -> bool {
    volume.state().open_files().is_open(file) || volume.state().grace().may_hold(file)
}

pub(crate) fn names_of(
    volume: &Volume,
    request: &NamesOfRequest,
) -> Result<NamesOfReply, MetaError> {
    let wanted: BTreeSet<u64> = request.files.iter().copied().collect();
    volume.read(|reader| {
        let mut found = Vec::new();
        let all = (Bound::Unbounded, Bound::Unbounded);
        reader.scan(ENTRIES, all.0, all.1, &mut |key, value| {
            let parent = keys::number(key).unwrap_or(0);
            if let Ok(record) = keys::entry_in(parent, value)
                && wanted.contains(&record.id)
            {
                found.push((record.id, parent, key[8..].to_vec()));
            }
            if found.len() < NAMES_OF_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        let (mut reply, mut bytes) = (NamesOfReply::default(), 0);
        for (file, parent, name) in found {
            let path = Bytes::from(path_of(reader, parent, name)?);
            bytes += path.len() + 16;
            if bytes > FILES_PAGE_BYTES {
                break;
            }
            reply.names.push(NameOf { file, path });
        }
        Ok(reply)
    })
}

/// The state of a file now; the caller says whether a client may have it open.
pub(super) fn state_now(
    reader: &dyn Reader,
    file: u64,
    open: bool,
) -> Result<FileState, MetaError> {
    let pending = pending_files(reader)?.contains(&file);
    state_of(
        reader,
        file,
        FileActivity { pending, open },
        &trees(reader)?,
    )
}

/// What is happening to a file.
#[derive(Clone, Copy)]
struct FileActivity {
    /// An intent is pending for it.
    pending: bool,
    /// A client has it open, or may have.
    open: bool,
}

fn state_of(
    reader: &dyn Reader,
    file: u64,
    activity: FileActivity,
    trees: &[(u64, bool)],
) -> Result<FileState, MetaError> {
    let inode = readable(reader, file)?;
    let mut state = state(reader, file, inode, activity)?;
    note_holds(reader, &mut state, &holds_of_file(reader, file, trees)?)?;
    Ok(state)
}

fn state(
    reader: &dyn Reader,
    file: u64,
    inode: Option<InodeRecord>,
    activity: FileActivity,
) -> Result<FileState, MetaError> {
    let mut state = FileState {
        file,
        owed: activity.pending,
        ..FileState::default()
    };
    let Some(inode) = inode else {
        state.owed |= reader.get(PARITY, &file.to_be_bytes())?.is_some();
        return Ok(state);
    };
    // The cells of an image belong to the file that it was copied from.
    state.owed |= inode.frozen.is_some();
    state.there = inode.is(FileKind::Regular);
    state.other = !state.there;
    if state.other {
        return Ok(state);
    }
    // It is deleted as soon as no client has it open.
    state.owed |= inode.links == 0;
    state.spilling = inode.inline && content(reader, file).is_ok_and(|content| content.spilling);
    let layout = inode.layout.as_ref().map(meta::Layout::from);
    state.layout = layout.filter(|layout| Layout::try_from(layout).is_ok());
    state.inline = inode.inline;
    state.size = inode.size;
    state.fork_bytes = inode.fork_bytes;
    state.size_exact = inode.size_exact;
    state.written = inode.written;
    state.changed = inode.changed;
    state.open = activity.open;
    scan_prefix(reader, CHECKPOINTS, &file.to_be_bytes(), &mut |_, value| {
        if let Ok(record) = keys::decode::<CheckpointRecord>("checkpoint of", file, value) {
            state.checkpoints.push(ListedCheckpoint {
                number: record.number,
                there: record.state == CHECKPOINT_THERE,
            });
        }
        ControlFlow::Continue(())
    })?;
    Ok(state)
}

/// A page of inodes after an id, and the id through which it is complete.
fn page(reader: &dyn Reader, after: u64) -> Result<(Vec<(u64, InodeRecord)>, u64), MetaError> {
    let (mut found, mut seen, mut through) = (Vec::new(), 0, u64::MAX);
    let start = after.to_be_bytes();
    let from = Bound::Excluded(&start[..]);
    reader.scan(INODES, from, Bound::Unbounded, &mut |key, value| {
        let id = keys::number(key).unwrap_or(0);
        if let Ok(inode) = keys::decode::<InodeRecord>("inode", id, value) {
            found.push((id, inode));
        }
        seen += 1;
        if seen == FILES_PAGE {
            through = id;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok((found, through))
}

/// The parity files after an id, through another one. Like pending work, they are no concern of a
/// check.
fn parity_files(
    reader: &dyn Reader,
    after: u64,
    through: u64,
) -> Result<BTreeMap<u64, Option<InodeRecord>>, MetaError> {
    let mut found = BTreeMap::new();
    let (first, last) = (after.to_be_bytes(), through.to_be_bytes());
    let range = (Bound::Excluded(&first[..]), Bound::Included(&last[..]));
    reader.scan(PARITY, range.0, range.1, &mut |key, _| {
        found.extend(keys::number(key).map(|id| (id, None)));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// A checkpoint of a tree that needs a file's cells.
#[derive(Clone, Copy)]
struct Hold {
    number: u64,
    /// All servers have it.
    there: bool,
    /// The file's copy in the checkpoint.
    image: u64,
}

/// The checkpoints of trees: number, and whether all servers have it.
fn trees(reader: &dyn Reader) -> Result<Vec<(u64, bool)>, MetaError> {
    let mut found = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    reader.scan(CHECKPOINTS, all.0, all.1, &mut |key, value| {
        let of = keys::number(key).unwrap_or(0);
        let record = keys::decode::<CheckpointRecord>("checkpoint of", of, value);
        if let Ok(record) = record
            && record.image != 0
        {
            found.push((record.number, record.state == CHECKPOINT_THERE));
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The holds of these checkpoints on the files after an id, through another one.
fn holds(
    reader: &dyn Reader,
    trees: &[(u64, bool)],
    after: u64,
    through: u64,
) -> Result<BTreeMap<u64, Vec<Hold>>, MetaError> {
    let mut found: BTreeMap<u64, Vec<Hold>> = BTreeMap::new();
    for &(number, there) in trees {
        let (first, last) = (keys::pair(number, after), keys::pair(number, through));
        let range = (Bound::Excluded(&first[..]), Bound::Included(&last[..]));
        reader.scan(TREE_FILES, range.0, range.1, &mut |key, value| {
            let file = keys::number(&key[8..]).unwrap_or(0);
            if let Ok(record) = keys::decode::<TreeFileRecord>("file of checkpoint", number, value)
            {
                let image = record.image;
                found.entry(file).or_default().push(Hold {
                    number,
                    there,
                    image,
                });
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}

fn holds_of_file(
    reader: &dyn Reader,
    file: u64,
    trees: &[(u64, bool)],
) -> Result<Vec<Hold>, MetaError> {
    if keys::hold(reader, file)?.is_none() {
        return Ok(Vec::new());
    }
    let mut all = holds(reader, trees, file.saturating_sub(1), file)?;
    Ok(all.remove(&file).unwrap_or_default())
}

/// Adds the holds of checkpoints of trees to the state of a file.
fn note_holds(reader: &dyn Reader, state: &mut FileState, holds: &[Hold]) -> Result<(), MetaError> {
    let Some(last) = holds.last() else {
        return Ok(());
    };
    state.held = true;
    let listed = |hold: &Hold| ListedCheckpoint {
        number: hold.number,
        there: hold.there,
    };
    state.checkpoints.extend(holds.iter().map(listed));
    if !state.there && !state.other {
        let layout = readable(reader, last.image)?.and_then(|image| image.layout);
        let layout = layout.as_ref().map(meta::Layout::from);
        state.layout = layout.filter(|layout| Layout::try_from(layout).is_ok());
    }
    Ok(())
}

/// Files with a pending intent, which a check skips.
fn pending_files(reader: &dyn Reader) -> Result<HashSet<u64>, MetaError> {
    let mut files = HashSet::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    reader.scan(INTENTS, all.0, all.1, &mut |key, value| {
        let number = keys::number(key).unwrap_or(0);
        if let Ok(record) = keys::decode::<IntentRecord>("intent", number, value) {
            files.insert(record.file);
            if let Ok(Intent::Tree { files: more, .. }) =
                Intent::from_record(reader, number, &record)
            {
                files.extend(more.iter().map(|of| of.file.0));
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(files)
}
