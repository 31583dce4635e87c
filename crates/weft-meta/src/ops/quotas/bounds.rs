//! Bounds of users, groups and trees: setting, removing and telling them.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use prost::Message;
use weft_kv::Reader;
use weft_proto::limits::{LIST_PAGE_MAX, QUOTA_DEPTH_MAX};
use weft_proto::meta::Credentials;
use weft_proto::quota::{
    ListQuotasReply, ListQuotasRequest, QuotaInfo, QuotaKind, QuotasOfReply, QuotasOfRequest,
    SetQuotaReply, SetQuotaRequest,
};

use super::growth::look_for_bounds;
use crate::access::{check_caller, in_group, is_root, not_owner};
use crate::checkpoints::Subtree;
use crate::error::{MetaError, text};
use crate::paths::{directory_path, not_found, resolve};
use crate::quota::{Payer, Used, charged_bytes, quota_record, trees_above};
use crate::records::Node;
use crate::records::keys::{self, INODES, QUOTAS};
use crate::records::record::QuotaRecord;
use crate::tx::{Tx, Volume};

/// About the most bytes of a page.
const PAGE_BYTES: usize = 512 << 10;

pub(crate) fn set_quota(
    volume: &Volume,
    request: &SetQuotaRequest,
) -> Result<SetQuotaReply, MetaError> {
    let who = &request.who;
    check_caller(who)?;
    let path = request.target.as_ref().map_or(&[][..], |t| &t.path);
    if !is_root(who) {
        return Err(not_owner(who, path, "set quotas"));
    }
    let invalid = |reason| {
        let path = text(path);
        MetaError::Invalid { path, reason }
    };
    let set = volume.transact(|tx| {
        let payer = match (request.kind(), &request.target) {
            (QuotaKind::User, None) => Payer::User(request.id),
            (QuotaKind::Group, None) => Payer::Group(request.id),
            (QuotaKind::Tree, Some(target)) => {
                let node = resolve(tx.reader(), who, target)?;
                own_tree(tx, &node, path, request.clear)?;
                Payer::Tree(node.id)
            }
            _ => return Err(invalid("a quota is one of a user, a group or a directory")),
        };
        let mut quota = stored_quota(tx, payer)?;
        if request.clear {
            (quota.bytes_max, quota.files_max) = (None, None);
        }
        if let Some(bound) = request.bytes {
            quota.bytes_max = bound.most;
        }
        if let Some(bound) = request.files {
            quota.files_max = bound.most;
        }
        tx.put_quota(payer, &quota);
        let quota = quota_info(volume, tx.reader(), payer, &quota)?;
        Ok(SetQuotaReply { quota })
    })?;
    look_for_bounds(volume)?;
    Ok(set)
}

pub(crate) fn list_quotas(
    volume: &Volume,
    request: &ListQuotasRequest,
) -> Result<ListQuotasReply, MetaError> {
    check_caller(&request.who)?;
    let payer = request.after.map(|id| Payer::new(request.kind(), id));
    let from = match payer {
        None => vec![request.kind().max(QuotaKind::User) as u8],
        Some(Some(payer)) => payer.key().to_vec(),
        Some(None) => {
            return Err(MetaError::Invalid {
                path: "a list of quotas".into(),
                reason: "it goes on behind a user, a group or a directory",
            });
        }
    };
    volume.read(|reader| {
        let (mut reply, mut failed, mut bytes) = (ListQuotasReply::default(), None, 0);
        let from = Bound::Excluded(from.as_slice());
        reader.scan(QUOTAS, from, Bound::Unbounded, &mut |key, value| {
            let told = Payer::from_key(key).map(|payer| -> Result<_, MetaError> {
                if !may_see(reader, &request.who, payer)? {
                    return Ok(None);
                }
                let record = keys::decode("quota of", payer.id(), value)?;
                Ok(Some(quota_info(volume, reader, payer, &record)?))
            });
            match told.transpose().map(Option::flatten) {
                Ok(None) => {}
                Ok(Some(quota)) => {
                    bytes += quota.encoded_len();
                    reply.quotas.push(quota);
                    reply.more = reply.quotas.len() == LIST_PAGE_MAX as usize || bytes > PAGE_BYTES;
                }
                Err(error) => failed = Some(error),
            }
            if reply.more || failed.is_some() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(reply), Err)
    })
}

pub(crate) fn quotas_of(
    volume: &Volume,
    request: &QuotasOfRequest,
) -> Result<QuotasOfReply, MetaError> {
    let who = &request.who;
    volume.read(|reader| {
        let inode = resolve(reader, who, &request.target)?.inode;
        let mut quotas = Vec::new();
        for (tree, record) in trees_above(reader, inode.tree)? {
            quotas.push(quota_info(volume, reader, Payer::Tree(tree), &record)?);
        }
        for payer in [Payer::User(inode.uid), Payer::Group(inode.gid)] {
            if may_see(reader, who, payer)? {
                let record = quota_record(reader, payer)?.unwrap_or_default();
                quotas.push(quota_info(volume, reader, payer, &record)?);
            }
        }
        Ok(QuotasOfReply { quotas })
    })
}

fn quota_info(
    volume: &Volume,
    reader: &dyn Reader,
    payer: Payer,
    quota: &QuotaRecord,
) -> Result<QuotaInfo, MetaError> {
    let path = match payer {
        Payer::Tree(id) if keys::inode(reader, id)?.is_some() => directory_path(reader, id)?,
        _ => Vec::new(),
    };
    let used = quota.used();
    let bytes = used.bytes + volume.state().growth().untold(payer);
    Ok(QuotaInfo {
        kind: payer.kind() as i32,
        id: payer.id(),
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        files: used.files,
        bytes_max: quota.bytes_max,
        files_max: quota.files_max,
        above: quota.above,
        path: Bytes::from(path),
    })
}

/// Root sees all; others what is their own.
fn may_see(reader: &dyn Reader, who: &Credentials, payer: Payer) -> Result<bool, MetaError> {
    Ok(match payer {
        _ if is_root(who) => true,
        Payer::User(id) => id == who.uid,
        Payer::Group(id) => in_group(who, id),
        Payer::Tree(id) => keys::inode(reader, id)?.is_some_and(|inode| inode.uid == who.uid),
    })
}

fn stored_quota(tx: &Tx<'_, '_>, payer: Payer) -> Result<QuotaRecord, MetaError> {
    Ok(quota_record(tx.reader(), payer)?.unwrap_or_default())
}

/// Makes a directory count what lies below it for itself, or, to `clear` that, for the next quota above only.
fn own_tree(tx: &mut Tx<'_, '_>, root: &Node, path: &[u8], clear: bool) -> Result<(), MetaError> {
    let own = root.inode.tree == root.id;
    if !root.inode.is_directory() {
        return Err(MetaError::NotDirectory { path: text(path) });
    }
    if root.inode.frozen.is_some() {
        return Err(MetaError::ReadOnly { id: root.id });
    }
    if root.inode.links == 0 {
        return Err(not_found(path));
    }
    match (own, clear) {
        (true, false) => Ok(()),
        (false, true) => Err(MetaError::Invalid {
            path: text(path),
            reason: "this directory has no quota of its own",
        }),
        (false, false) => {
            let above = root.inode.tree;
            let moved = move_tree(tx, root, path, (above, root.id))?;
            let mut quota = QuotaRecord {
                above,
                ..QuotaRecord::default()
            };
            quota.set_used(moved);
            tx.put_quota(Payer::Tree(root.id), &quota);
            Ok(())
        }
        (true, true) => {
            let mut quota = stored_quota(tx, Payer::Tree(root.id))?;
            let moved = move_tree(tx, root, path, (root.id, quota.above))?;
            // Deleted files that are still open are found by no name: they stay until they go.
            let used = quota.used();
            quota.set_used(Used {
                bytes: used.bytes.saturating_sub(moved.bytes),
                files: used.files.saturating_sub(moved.files),
            });
            tx.put_quota(Payer::Tree(root.id), &quota);
            Ok(())
        }
    }
}

/// What lies below a directory and counts for the tree `from` counts for `to` from now on; trees within are below it.
/// Answers what that amounts to. What both lie in is charged as before.
fn move_tree(
    tx: &mut Tx<'_, '_>,
    root: &Node,
    path: &[u8],
    (from, to): (u64, u64),
) -> Result<Used, MetaError> {
    let tree = Subtree::read(tx.reader(), root.clone(), path)?;
    let (mut moved, mut within) = (Used::default(), BTreeSet::new());
    for Node { id, inode } in tree.nodes {
        if inode.tree == from {
            let mut inode = inode;
            inode.tree = to;
            moved.bytes += u128::from(charged_bytes(&inode));
            moved.files += 1;
            tx.put_unseen(INODES, &id.to_be_bytes(), &inode);
        } else if inode.is_directory() && inode.tree == id {
            within.insert(id);
        }
    }
    for id in within {
        let mut quota = stored_quota(tx, Payer::Tree(id))?;
        if to == root.id && trees_above(tx.reader(), id)?.len() >= QUOTA_DEPTH_MAX {
            return Err(MetaError::Invalid {
                path: text(path),
                reason: "at most 16 directories with quotas lie one within the other",
            });
        }
        if quota.above == from {
            quota.above = to;
            moved.bytes += quota.used().bytes;
            moved.files += quota.used().files;
            tx.put_quota(Payer::Tree(id), &quota);
        }
    }
    if to == root.id && trees_above(tx.reader(), from)?.len() >= QUOTA_DEPTH_MAX {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "at most 16 directories with quotas lie one within the other",
        });
    }
    Ok(moved)
}
