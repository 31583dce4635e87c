//! SetQuota: sets bounds of a user, a group or a tree. A directory with a quota counts everything
//! below it.

use std::collections::BTreeSet;

use weft_proto::limits::QUOTA_DEPTH_MAX;
use weft_proto::quota::{QuotaKind, SetQuotaReply, SetQuotaRequest};

use super::growth::load_bounds;
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
            _ => return Err(invalid("a quota needs a user, a group or a directory")),
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
    load_bounds(volume)?;
    Ok(set)
}

fn stored_quota(tx: &Tx<'_, '_>, payer: Payer) -> Result<QuotaRecord, MetaError> {
    Ok(quota_record(tx.reader(), payer)?.unwrap_or_default())
}

/// Where the files below a directory are counted.
#[derive(Clone, Copy)]
enum Counting {
    /// In the usage of the directory.
    ByItself,
    /// In that of the next directory above with a quota.
    ByTreeAbove,
}

/// Counts the files below a directory in this way from now on.
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
            let recharged = recharge_tree(tx, root, path, (above, root.id))?;
            let mut quota = QuotaRecord {
                above,
                ..QuotaRecord::default()
            };
            quota.set_used(recharged);
            tx.put_quota(Payer::Tree(root.id), &quota);
            Ok(())
        }
        (true, Counting::ByTreeAbove) => {
            let mut quota = stored_quota(tx, Payer::Tree(root.id))?;
            let recharged = recharge_tree(tx, root, path, (root.id, quota.above))?;
            // Orphans have no name, so they are not found: they stay charged until they are
            // removed.
            let used = quota.used();
            quota.set_used(Used {
                bytes: used.bytes.saturating_sub(recharged.bytes),
                files: used.files.saturating_sub(recharged.files),
            });
            tx.put_quota(Payer::Tree(root.id), &quota);
            Ok(())
        }
    }
}

/// Charges the files below a directory that were charged to the tree `from` to the tree `to` from
/// now on; quotas of directories below it become nested in `to`. Returns their usage. Trees that
/// contain both are charged as before.
fn recharge_tree(
    tx: &mut Tx<'_, '_>,
    root: &Node,
    path: &[u8],
    (from, to): (u64, u64),
) -> Result<Used, MetaError> {
    let tree = Subtree::read(tx.reader(), root.clone(), path)?;
    let (mut recharged, mut within) = (Used::default(), BTreeSet::new());
    for Node { id, inode } in tree.into_nodes() {
        if inode.tree == from {
            let mut inode = inode;
            inode.tree = to;
            recharged.bytes += u128::from(charged_bytes(&inode));
            recharged.files += 1;
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
                reason: "directories with quotas can be nested at most 16 deep",
            });
        }
        if quota.above == from {
            quota.above = to;
            recharged.bytes += quota.used().bytes;
            recharged.files += quota.used().files;
            tx.put_quota(Payer::Tree(id), &quota);
        }
    }
    if to == root.id && trees_above(tx.reader(), from)?.len() >= QUOTA_DEPTH_MAX {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "directories with quotas can be nested at most 16 deep",
        });
    }
    Ok(recharged)
}
