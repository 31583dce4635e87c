//! SetAttributes: chmod, chown, utimens, the defaults of a directory for new files, and the layout
//! of an empty file.
//!
//! One request may change several attributes: all of them or none.

use weft_proto::limits::POLICY_NAME_MAX;
use weft_proto::meta::{
    Credentials, FileKind, LayoutOptions, SetAttributesRequest, StatReply, TimeUpdate,
};

use crate::access::{
    MODE, SETGID, WRITE, in_group, is_root, may, need, not_owner, owns, without_privilege,
    without_set_id,
};
use crate::error::{MetaError, text};
use crate::paths::resolve;
use crate::records::keys::content;
use crate::records::record::{DefaultLayoutRecord, InodeRecord};
use crate::records::{Node, attributes};
use crate::servers::placement;
use crate::tx::{Tx, Volume};

pub(crate) fn set_attributes(
    volume: &Volume,
    now: i64,
    request: &SetAttributesRequest,
) -> Result<StatReply, MetaError> {
    volume.transact(|tx| {
        let Node { id, inode } = resolve(tx.reader(), &request.who, &request.target)?;
        let after = match &request.layout {
            Some(layout_options) if inode.kind == FileKind::Regular as i32 => {
                let others = SetAttributesRequest {
                    layout: None,
                    ..request.clone()
                };
                let after = apply(volume, id, &inode, &others, now)?;
                relayout(volume, tx, id, &after, request, layout_options, now)?
            }
            _ => apply(volume, id, &inode, request, now)?,
        };
        if asks(request) {
            *tx.change(id, &inode) = after.clone();
        }
        let attributes = attributes(&Node { id, inode: after });
        Ok(StatReply { attributes })
    })
}

/// The inode after a request, if the caller may make it.
pub(crate) fn apply(
    volume: &Volume,
    id: u64,
    inode: &InodeRecord,
    request: &SetAttributesRequest,
    now: i64,
) -> Result<InodeRecord, MetaError> {
    let path = &request.target.path;
    let mut after = inode.clone();
    change_owner(&mut after, request)?;
    change_mode(&mut after, inode, request)?;
    change_times(&mut after, inode, request, now)?;
    if request.kill_priv {
        if !owns(&request.who, inode) {
            need(&request.who, inode, WRITE, path)?;
        }
        after.mode = if is_root(&request.who) {
            without_privilege(&after)
        } else {
            without_set_id(&request.who, &after)
        };
    }
    if let Some(layout_options) = &request.layout {
        if !owns(&request.who, inode) {
            return Err(not_owner(&request.who, path, "set another's layout"));
        }
        if !inode.is_directory() {
            return Err(MetaError::NotDirectory { path: text(path) });
        }
        let record = of_new_files(inode.layout_options.as_ref(), layout_options);
        // An illegal layout is refused here, not at each creation.
        placement::choose(
            &volume.state().servers().pool(now),
            id,
            None,
            Some(&record),
            path,
        )?;
        after.layout_options = (record != DefaultLayoutRecord::default()).then_some(record);
    }
    change_policy(&mut after, inode, request)?;
    if asks(request) {
        after.changed = now;
    }
    Ok(after)
}

/// The layout of a directory's new files. Fields that the options leave out stay as they are; empty
/// options stand for the volume's default.
fn of_new_files(
    present: Option<&DefaultLayoutRecord>,
    options: &LayoutOptions,
) -> DefaultLayoutRecord {
    let named = DefaultLayoutRecord::from(options);
    let Some(present) = present.filter(|_| *options != LayoutOptions::default()) else {
        return named;
    };
    // The servers of another number of cells, or from another first one, are others.
    let keeps_servers = named.cells.is_none()
        && named.base.is_none()
        && named.replicas.is_none()
        && named.parity.is_none()
        && named.servers.is_empty();
    let servers = if keeps_servers {
        present.servers.clone()
    } else {
        named.servers
    };
    let keeps_base = servers.is_empty();
    DefaultLayoutRecord {
        cells: named.cells.or(present.cells),
        bsu: named.bsu.or(present.bsu),
        chunk: named.chunk.or(present.chunk),
        base: named.base.or(present.base.filter(|_| keeps_base)),
        storage: named.storage.or(present.storage),
        replicas: named.replicas.or(present.replicas),
        parity: named.parity.or(present.parity),
        servers,
    }
}

/// Replaces a file's layout. Fields that the options leave out stay as they are; empty ones stand
/// for the volume's default.
///
/// The file must be empty, and no client may have it open. Only the servers know whether other
/// forks than `data` are empty: the caller has asked them.
fn relayout(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    id: u64,
    inode: &InodeRecord,
    request: &SetAttributesRequest,
    layout_options: &LayoutOptions,
    now: i64,
) -> Result<InodeRecord, MetaError> {
    let path = &request.target.path;
    if !owns(&request.who, inode) {
        return Err(not_owner(&request.who, path, "set another's layout"));
    }
    if let Some(parity) = asks_parity_alone(layout_options) {
        return change_parity(volume, inode, parity, path, now);
    }
    if inode.codings.is_some() {
        return Err(MetaError::LayoutHasData { path: text(path) });
    }
    let open = tx.open_files().is_open(id);
    if open || inode.truncate != 0 {
        return Err(MetaError::LayoutInUse { path: text(path) });
    }
    let empty = if inode.inline {
        content(tx.reader(), id)?.data.is_empty()
    } else {
        inode.size_exact && inode.size == 0 && inode.fork_bytes == 0
    };
    if !empty {
        return Err(MetaError::LayoutHasData { path: text(path) });
    }
    let present = inode
        .layout
        .as_ref()
        .filter(|_| *layout_options != LayoutOptions::default());
    let stays = present.map(|layout| DefaultLayoutRecord {
        cells: Some(layout.cells),
        bsu: Some(layout.bsu),
        chunk: Some(layout.chunk),
        servers: match layout_options {
            LayoutOptions {
                cells: None,
                replicas: None,
                parity: None,
                ..
            } => layout.servers.clone(),
            _ => Vec::new(),
        },
        base: None,
        storage: Some(layout.storage),
        replicas: None,
        parity: Some(layout.parity),
    });
    let layout = placement::choose(
        &volume.state().servers().pool(now),
        id,
        Some(layout_options),
        stays.as_ref(),
        path,
    )?;
    let mut after = inode.clone();
    after.layout = Some(layout);
    after.changed = now;
    Ok(after)
}

/// The parity that is asked for, if nothing else is.
fn asks_parity_alone(options: &LayoutOptions) -> Option<u32> {
    let alone = LayoutOptions {
        parity: options.parity,
        ..LayoutOptions::default()
    };
    options.parity.filter(|_| *options == alone)
}

/// Gives a file parity, or takes it away before it is coded. No data moves: it is coded when it is
/// quiet.
fn change_parity(
    volume: &Volume,
    inode: &InodeRecord,
    parity: u32,
    path: &[u8],
    now: i64,
) -> Result<InodeRecord, MetaError> {
    let refuse = |reason| MetaError::Invalid {
        path: text(path),
        reason,
    };
    let mut after = inode.clone();
    let Some(layout) = after.layout.as_mut() else {
        return Err(refuse("it has no layout"));
    };
    if inode.codings.is_some() && parity != layout.parity {
        return Err(refuse(
            "it is coded: copy it to change its parity, or to have none",
        ));
    }
    placement::check_parity(&volume.state().servers().pool(now), layout, parity, path)?;
    layout.parity = parity;
    after.changed = now;
    Ok(after)
}

/// Whether a request changes anything.
fn asks(request: &SetAttributesRequest) -> bool {
    request.mode.is_some()
        || request.uid.is_some()
        || request.gid.is_some()
        || request.accessed.is_some()
        || request.modified.is_some()
        || request.layout.is_some()
        || request.policy.is_some()
        || request.kill_priv
}

fn change_policy(
    after: &mut InodeRecord,
    inode: &InodeRecord,
    request: &SetAttributesRequest,
) -> Result<(), MetaError> {
    let Some(policy) = &request.policy else {
        return Ok(());
    };
    let path = &request.target.path;
    if !owns(&request.who, inode) {
        return Err(not_owner(&request.who, path, "set another's policy"));
    }
    let invalid = |reason| MetaError::Invalid {
        path: text(path),
        reason,
    };
    if !inode.is_directory() && !inode.is(FileKind::Regular) {
        return Err(invalid("only files and directories have a policy"));
    }
    let legal =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    if policy.len() > POLICY_NAME_MAX || !policy.bytes().all(legal) {
        return Err(invalid(
            "a policy's name is at most 64 of a-z, 0-9, '-', '_' and '.'",
        ));
    }
    after.policy.clone_from(policy);
    Ok(())
}

fn change_owner(after: &mut InodeRecord, request: &SetAttributesRequest) -> Result<(), MetaError> {
    if request.uid.is_none() && request.gid.is_none() {
        return Ok(());
    }
    let who = &request.who;
    let path = &request.target.path;
    let uid = request.uid.unwrap_or(after.uid);
    let gid = request.gid.unwrap_or(after.gid);
    if !owns(who, after) {
        return Err(not_owner(
            who,
            path,
            "change the owner or group of another's file",
        ));
    }
    if !is_root(who) {
        if uid != after.uid {
            return Err(not_owner(who, path, "give a file away"));
        }
        if gid != after.gid && !in_group(who, gid) {
            return Err(not_owner(
                who,
                path,
                "give a file to a group that is not its own",
            ));
        }
    }
    if !after.is_directory() {
        after.mode = without_set_id(who, after);
    }
    after.uid = uid;
    after.gid = gid;
    Ok(())
}

fn change_mode(
    after: &mut InodeRecord,
    before: &InodeRecord,
    request: &SetAttributesRequest,
) -> Result<(), MetaError> {
    let Some(mode) = request.mode else {
        return Ok(());
    };
    let who = &request.who;
    if !owns(who, before) {
        return Err(not_owner(
            who,
            &request.target.path,
            "change the mode of another's file",
        ));
    }
    after.mode = mode & MODE;
    if !is_root(who) && !in_group(who, after.gid) {
        after.mode &= !SETGID;
    }
    Ok(())
}

fn change_times(
    after: &mut InodeRecord,
    before: &InodeRecord,
    request: &SetAttributesRequest,
    now: i64,
) -> Result<(), MetaError> {
    let updates = [request.accessed, request.modified];
    allowed_times(&request.who, before, &updates, &request.target.path)?;
    let value = |layout_options: TimeUpdate| {
        if layout_options.now {
            now
        } else {
            layout_options.nanos
        }
    };
    if let Some(layout_options) = request.accessed {
        after.accessed = value(layout_options);
    }
    if let Some(layout_options) = request.modified {
        after.modified = value(layout_options);
        after.modified_set = now;
    }
    Ok(())
}

/// Only the owner sets an arbitrary time; a writer may set the present time.
fn allowed_times(
    who: &Credentials,
    inode: &InodeRecord,
    updates: &[Option<TimeUpdate>],
    path: &[u8],
) -> Result<(), MetaError> {
    let mut updates = updates.iter().flatten().peekable();
    if updates.peek().is_none() || owns(who, inode) {
        return Ok(());
    }
    if updates.any(|update| !update.now) {
        return Err(not_owner(who, path, "set the times of another's file"));
    }
    if may(who, inode, WRITE) {
        return Ok(());
    }
    Err(MetaError::Denied {
        path: text(path),
        uid: who.uid,
        need: "write",
    })
}
