//! SetQuota: sets bounds of a user, a group or a tree. A directory with a quota counts what lies
//! below it.

use std::collections::BTreeSet;

use weft_proto::limits::QUOTA_DEPTH_MAX;
use weft_proto::quota::{QuotaKind, SetQuotaReply, SetQuotaRequest};

use super::growth::look_for_bounds;
use super::info::quota_info;
use crate::access::{check_caller, is_root, not_owner};
use crate::checkpoints::Subtree;
use crate::error::{MetaError, text};
use crate::paths::{not_found, resolve};
use crate::quota::{Payer, Used, charged_bytes, quota_record, trees_above};
use crate::records::Node;
use crate::records::keys::INODES;
use crate::records::record::QuotaRecord;
use crate::tx::{Tx, Volume};

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
                let counting = if request.clear {
                    Counting::ByTreeAbove
                } else {
                    Counting::ByItself
                };
                count_tree(tx, &node, path, counting)?;
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

fn stored_quota(tx: &Tx<'_, '_>, payer: Payer) -> Result<QuotaRecord, MetaError> {
    Ok(quota_record(tx.reader(), payer)?.unwrap_or_default())
}

/// Where what lies below a directory is counted.
#[derive(Clone, Copy)]
enum Counting {
    /// In a usage of the directory's own.
    ByItself,
    /// In that of the next directory above that has one.
    ByTreeAbove,
}

/// Counts what lies below a directory in this way from now on.
fn count_tree(
    tx: &mut Tx<'_, '_>,
    root: &Node,
    path: &[u8],
    counting: Counting,
) -> Result<(), MetaError> {
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
    match (own, counting) {
        (true, Counting::ByItself) => Ok(()),
        (false, Counting::ByTreeAbove) => Err(MetaError::Invalid {
            path: text(path),
            reason: "this directory has no quota of its own",
        }),
        (false, Counting::ByItself) => {
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
        (true, Counting::ByTreeAbove) => {
            let mut quota = stored_quota(tx, Payer::Tree(root.id))?;
            let moved = move_tree(tx, root, path, (root.id, quota.above))?;
            // Deleted files that are still open have no name, so they are not found: they stay
            // until they are removed.
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

/// Charges what lies below a directory and was charged to the tree `from` to the tree `to` from now
/// on; quotas of directories within lie below it. Answers how much that is. Trees that contain both
/// are charged as before.
fn move_tree(
    tx: &mut Tx<'_, '_>,
    root: &Node,
    path: &[u8],
    (from, to): (u64, u64),
) -> Result<Used, MetaError> {
    let tree = Subtree::read(tx.reader(), root.clone(), path)?;
    let (mut moved, mut within) = (Used::default(), BTreeSet::new());
    for Node { id, inode } in tree.into_nodes() {
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
