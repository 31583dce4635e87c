//! Delegate: from now on one client changes names in a directory and reports the changes later.

use weft_kv::Reader;
use weft_proto::delegation::{DelegateReply, DelegateRequest};
use weft_proto::limits::{DELEGATED_ALSO_MAX, IDS_AHEAD_MAX};

use crate::checkpoints::has_checkpoints;
use crate::error::MetaError;
use crate::records::keys;
use crate::records::record::InodeRecord;
use crate::servers::placement;
use crate::tx::Volume;

pub(crate) fn delegate(
    volume: &Volume,
    now: i64,
    client: u64,
    request: &DelegateRequest,
) -> Result<DelegateReply, MetaError> {
    let directory = request.directory;
    let pool = volume.state().servers().pool(now);
    let delegations = volume.state().delegations();
    // What is taken back below was granted by this call, and by no other one.
    let _granting = delegations.granting();
    // What another client has is not asked back for this.
    let also = request.also.iter().take(DELEGATED_ALSO_MAX).copied();
    let also: Vec<u64> = also.filter(|other| delegations.is_free(*other)).collect();
    let is_new = !delegations.holds(client, directory);
    let given = volume.transact(|tx| {
        let Some(inode) = delegable(volume, tx.reader(), directory)? else {
            return Ok(DelegateReply::default());
        };
        let mut reply = DelegateReply {
            granted: true,
            ..DelegateReply::default()
        };
        for _ in 0..request.ids.min(IDS_AHEAD_MAX) {
            let id = tx.next_id()?;
            if reply.layouts.is_empty() {
                reply.first = id;
            }
            let layout = placement::choose(&pool, id, None, inode.layout_options.as_ref(), b"")?;
            reply.layouts.push((&layout).into());
        }
        // Inside the transaction, so that every later commit conflicts with the delegation.
        reply.granted = delegations.grant(client, directory);
        if reply.granted {
            for other in &also {
                if delegable(volume, tx.reader(), *other)?.is_some()
                    && delegations.grant(client, *other)
                {
                    reply.also.push(*other);
                }
            }
        }
        Ok(reply)
    });
    let Ok(mut reply) = given else {
        delegations.end(client, &also);
        if is_new {
            delegations.end(client, &[directory]);
        }
        return given;
    };
    let asked = std::iter::once(directory).filter(|_| reply.granted && is_new);
    let granted: Vec<u64> = asked.chain(reply.also.iter().copied()).collect();
    let recalled = recalled_of(volume, client, &granted);
    if recalled.contains(&directory) {
        delegations.end(client, &granted);
        return Ok(DelegateReply::default());
    }
    delegations.end(client, &recalled);
    reply.also.retain(|other| !recalled.contains(other));
    Ok(reply)
}

/// Those directories in which another client may have changed names that this one does not know
/// yet: it takes a name for absent that is there, or the other way round. Commits that follow
/// conflict with the delegation.
fn recalled_of(volume: &Volume, client: u64, granted: &[u64]) -> Vec<u64> {
    if granted.is_empty() {
        return Vec::new();
    }
    let state = volume.state();
    if !state.changes().wait_for_commits() {
        return granted.to_vec();
    }
    let recalled = |directory: &&u64| state.leases().is_recalled_from(client, **directory);
    granted.iter().filter(recalled).copied().collect()
}

/// The inode of a directory that may be delegated.
fn delegable(
    volume: &Volume,
    reader: &dyn Reader,
    directory: u64,
) -> Result<Option<InodeRecord>, MetaError> {
    let Some(inode) = keys::inode(reader, directory)? else {
        return Ok(None);
    };
    let may = inode.is_directory()
        && inode.links > 0
        && inode.frozen.is_none()
        // A quota must refuse a change before a program sees it succeed.
        && !volume.state().growth().may_refuse()
        // The client would not know of the policy that new files get.
        && inode.policy.is_empty()
        // It must not be removed.
        && !has_checkpoints(reader, directory)?;
    Ok(may.then_some(inode))
}
