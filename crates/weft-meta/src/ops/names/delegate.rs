//! Delegate: from now on one client changes names in a directory and reports the changes later.

use weft_proto::delegation::{DelegateReply, DelegateRequest};
use weft_proto::limits::IDS_AHEAD_MAX;

use crate::error::MetaError;
use crate::records::keys;
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
    let given = volume.transact(|tx| {
        let Some(inode) = keys::inode(tx.reader(), directory)? else {
            return Ok(DelegateReply::default());
        };
        // A quota must refuse a change before a program sees it succeed.
        if volume.state().growth().may_refuse()
            || !inode.is_directory()
            || inode.links == 0
            || inode.frozen.is_some()
            // The client would not know of the policy that new files get.
            || !inode.policy.is_empty()
        {
            return Ok(DelegateReply::default());
        }
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
        reply.granted = volume.state().delegations().grant(client, directory);
        Ok(reply)
    });
    if given.is_err() {
        volume.state().delegations().end(client, &[directory]);
    }
    given
}
