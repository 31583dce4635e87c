//! ChangeNames: a client reports the changes of names that it made in its delegated directories,
//! and the attributes that it set of files that it made there.
//!
//! All changes are one transaction. If one of them is refused, each runs in a separate transaction,
//! so that the others take effect. A change names its file, so repeating it changes nothing: the
//! name refers to this file already, or is removed already.

use weft_proto::delegation::{
    ChangeNamesReply, ChangeNamesRequest, NameChange, NameChanged, NewFile,
};
use weft_proto::limits::{INLINE_MAX, NAMES_AHEAD_MAX};
use weft_proto::meta::{FileKind, SetAttributesRequest, Target};
use weft_proto::{Failure, meta};

use super::new_inode::{new_directory, new_inode, writable};
use crate::access::{WRITE, need, need_removable};
use crate::error::{MetaError, text};
use crate::open::{OpenFiles, SizeBefore};
use crate::ops::attributes::apply;
use crate::paths::{Nameless, Slot, slot};
use crate::records::record::{InodeRecord, LayoutRecord};
use crate::records::{Node, attributes, keys};
use crate::tx::{Tx, Volume};

pub(crate) fn change_names(
    volume: &Volume,
    client: u64,
    request: &ChangeNamesRequest,
) -> Result<ChangeNamesReply, MetaError> {
    let changes = &request.changes;
    if changes.len() > NAMES_AHEAD_MAX {
        return Err(MetaError::Invalid {
            path: format!("{} names", changes.len()),
            reason: "one call cannot report so many changes of names",
        });
    }
    let done = match change_all(volume, client, changes) {
        Ok(done) => done,
        // The client lost the delegation, and another client has it.
        Err(error @ MetaError::Delegated { .. }) => return Err(error),
        Err(_) => changes
            .iter()
            .map(|c| change_one(volume, client, c))
            .collect(),
    };
    Ok(ChangeNamesReply { done })
}

fn is_directory(made: &NewFile) -> bool {
    made.kind == FileKind::Directory as i32
}

fn change_one(volume: &Volume, client: u64, change: &NameChange) -> NameChanged {
    match change_all(volume, client, std::slice::from_ref(change)) {
        Ok(mut done) => done.pop().unwrap_or_default(),
        Err(error) => NameChanged {
            refused: Some(Failure::new(error.code(), error.to_string())),
            ..NameChanged::default()
        },
    }
}

fn change_all(
    volume: &Volume,
    client: u64,
    changes: &[NameChange],
) -> Result<Vec<NameChanged>, MetaError> {
    let directories = || {
        changes
            .iter()
            .filter(|c| c.made.as_ref().is_some_and(is_directory))
    };
    let result = volume.transact_then(
        |tx| {
            // No client attaches or detaches from here to the commit.
            tx.open_files();
            let (mut made, mut gone) = (Vec::new(), Vec::new());
            let mut done = Vec::with_capacity(changes.len());
            for change in changes {
                done.push(match (&change.made, &change.set) {
                    (Some(file), _) if is_directory(file) => {
                        make_directory(volume, tx, client, change, file)?
                    }
                    (Some(file), _) => {
                        let (new, answer) = make_file(volume, tx, change, file)?;
                        if new {
                            made.push((change.file, file.reading, file.writing));
                        }
                        answer
                    }
                    (None, Some(set)) => set_attributes(volume, tx, change, set)?,
                    (None, None) => remove_name(tx, change, &mut gone)?,
                });
            }
            Ok((made, gone, done))
        },
        |open, (made, _, _)| {
            for (file, reading, writing) in made {
                attach_made(open, client, *file, (*reading, *writing));
            }
        },
    );
    if result.is_err() {
        for change in directories() {
            withdraw(volume, client, change.file)?;
        }
    }
    let (_, gone, done) = result?;
    for directory in gone {
        volume.state().leases().end(directory);
        volume.state().delegations().directory_removed(directory);
    }
    Ok(done)
}

/// Takes back what was granted of a directory that was not made.
fn withdraw(volume: &Volume, client: u64, directory: u64) -> Result<(), MetaError> {
    let inode = volume.read(|reader| keys::inode(reader, directory))?;
    if inode.is_none() {
        volume.state().delegations().end(client, &[directory]);
        volume.state().leases().end(directory);
    }
    Ok(())
}

fn attach_made(open: &mut OpenFiles, client: u64, file: u64, (reading, writing): (bool, bool)) {
    if writing {
        open.attach_writer(client, file, SizeBefore::Exact);
    } else if reading {
        open.attach_reader(client, file);
    }
}

fn find(tx: &Tx<'_, '_>, change: &NameChange) -> Result<Box<Slot>, MetaError> {
    let target = Target {
        at: change.directory,
        path: change.name.clone(),
        follow: false,
    };
    let invalid = |_| MetaError::Invalid {
        path: text(&change.name),
        reason: "it is not the name of a directory entry",
    };
    let slot = slot(tx.reader(), &change.who, &target)?.map_err(invalid)?;
    if slot.has_slash() || slot.directory().id != change.directory {
        return Err(invalid(Nameless::Empty));
    }
    Ok(slot)
}

/// Whether this has no name any more; clients may have it open.
fn is_gone(tx: &Tx<'_, '_>, id: u64) -> Result<bool, MetaError> {
    let inode = keys::inode(tx.reader(), id)?;
    Ok(inode.is_none_or(|inode| inode.links == 0))
}

/// The time of a directory after a change of a name in it.
fn directory_time(change: &NameChange) -> i64 {
    change.time.max(change.directory_time)
}

/// Makes a file; false where it exists already.
fn make_file(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    change: &NameChange,
    file: &NewFile,
) -> Result<(bool, NameChanged), MetaError> {
    let slot = find(tx, change)?;
    let path = &change.name;
    if let Some(found) = slot.found() {
        if found.id != change.file {
            return Err(MetaError::Exists { path: text(path) });
        }
        let attributes = file.data.as_ref().map(|_| attributes(found));
        return Ok((false, changed(attributes)));
    }
    writable(&change.who, slot.directory(), path)?;
    let invalid = |reason| MetaError::Invalid {
        path: text(path),
        reason,
    };
    let data = file.data.as_ref();
    if data.is_some_and(|data| data.len() > INLINE_MAX || file.spilled) {
        return Err(invalid("at most 16 KiB can lie with a file's metadata"));
    }
    if weft_layout::Layout::try_from(&file.layout).is_err() {
        return Err(invalid("its layout is not legal"));
    }
    if !tx.is_free_id(change.file)? {
        return Err(invalid("its id was not allocated, or is in use"));
    }
    let mode = (file.mode, file.umask);
    let mut inode = new_inode(
        &change.who,
        slot.directory(),
        FileKind::Regular,
        mode,
        change.time,
    );
    inode.layout = Some(LayoutRecord::from(&file.layout));
    inode.inline = !file.spilled;
    inode.size_exact = !file.spilled || !file.writing;
    if let Some(data) = data {
        tx.put_content(change.file, data);
        inode.size = data.len() as u64;
        inode.note_write(file.modified);
    }
    if let Some(set) = &change.set {
        inode = after_set(volume, change, &inode, set)?;
    }
    let node = Node {
        id: change.file,
        inode,
    };
    let answer = data.map(|_| attributes(&node));
    tx.add_entry(
        slot.directory(),
        slot.name(),
        (node.id, node.inode.kind),
        directory_time(change),
    );
    tx.create(node.id, node.inode)?;
    Ok((true, changed(answer)))
}

/// Makes a directory, which is delegated to the client.
fn make_directory(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    client: u64,
    change: &NameChange,
    file: &NewFile,
) -> Result<NameChanged, MetaError> {
    let slot = find(tx, change)?;
    let path = &change.name;
    if let Some(found) = slot.found() {
        return if found.id == change.file {
            // It is repeated.
            Ok(NameChanged {
                unleased: !volume.state().leases().holds(client, found.id),
                undelegated: !volume.state().delegations().holds(client, found.id),
                ..NameChanged::default()
            })
        } else {
            Err(MetaError::Exists { path: text(path) })
        };
    }
    writable(&change.who, slot.directory(), path)?;
    if !tx.is_free_id(change.file)? {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "its id was not allocated, or is in use",
        });
    }
    let parent = slot.directory();
    let mut inode = new_directory(&change.who, parent, (file.mode, file.umask), change.time);
    if let Some(set) = &change.set {
        inode = after_set(volume, change, &inode, set)?;
    }
    let entry = (change.file, inode.kind);
    tx.add_entry(parent, slot.name(), entry, directory_time(change));
    tx.change(parent.id, &parent.inode).links += 1;
    tx.create(change.file, inode)?;
    // No other client can know it before the commit. A quota must refuse a change before a program
    // sees it succeed.
    let may_delegate = !volume.state().growth().may_refuse();
    let delegations = volume.state().delegations();
    let delegated = may_delegate && delegations.grant_new(client, change.file);
    Ok(NameChanged {
        undelegated: !delegated,
        unleased: !volume.state().leases().grant(client, change.file),
        ..NameChanged::default()
    })
}

/// Sets attributes of a file, if the name still names it.
fn set_attributes(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    change: &NameChange,
    set: &SetAttributesRequest,
) -> Result<NameChanged, MetaError> {
    if is_gone(tx, change.file)? {
        // The report is repeated, and a later change of it has removed the file.
        return Ok(changed(None));
    }
    let slot = find(tx, change)?;
    let found = slot.found().filter(|node| node.id == change.file);
    let Node { id, inode } = found.ok_or(MetaError::Stale { id: change.file })?;
    // Earlier changes of this transaction count.
    let inode = tx.change(*id, inode);
    *inode = after_set(volume, change, inode, set)?;
    Ok(changed(None))
}

/// The inode after attributes were set. Bytes that were written later keep their time.
fn after_set(
    volume: &Volume,
    change: &NameChange,
    inode: &InodeRecord,
    set: &SetAttributesRequest,
) -> Result<InodeRecord, MetaError> {
    let request = SetAttributesRequest {
        who: change.who.clone(),
        target: Target {
            at: change.directory,
            path: change.name.clone(),
            follow: false,
        },
        layout: None,
        policy: None,
        ..set.clone()
    };
    let mut after = apply(volume, change.file, inode, &request, change.set_time)?;
    if set.modified.is_some() {
        after.modified_set = change.modified_time;
    }
    if after.written > after.modified_set {
        after.note_write(after.written);
    }
    Ok(after)
}

/// Removes a name, if it still names this file; `gone` gets it if it is an empty directory.
fn remove_name(
    tx: &mut Tx<'_, '_>,
    change: &NameChange,
    gone: &mut Vec<u64>,
) -> Result<NameChanged, MetaError> {
    if is_gone(tx, change.directory)? {
        // The report is repeated, and a later change of it has removed the directory.
        return Ok(changed(None));
    }
    let slot = find(tx, change)?;
    let path = &change.name;
    let Some(node) = slot.found() else {
        return Ok(changed(None));
    };
    if node.id != change.file {
        return Err(MetaError::Stale { id: change.file });
    }
    need(&change.who, &slot.directory().inode, WRITE, path)?;
    need_removable(&change.who, &slot.directory().inode, &node.inode, path)?;
    if node.inode.is_directory() {
        // Earlier changes of this transaction count.
        if tx.change(node.id, &node.inode).size > 0 {
            return Err(MetaError::NotEmpty { path: text(path) });
        }
        tx.need_no_checkpoints(node, path)?;
        tx.change(slot.directory().id, &slot.directory().inode)
            .links -= 1;
        gone.push(node.id);
    }
    tx.remove_entry(slot.directory(), slot.name(), directory_time(change));
    tx.unlink(node, change.time)?;
    Ok(changed(None))
}

fn changed(attributes: Option<meta::Attributes>) -> NameChanged {
    NameChanged {
        attributes,
        ..NameChanged::default()
    }
}
