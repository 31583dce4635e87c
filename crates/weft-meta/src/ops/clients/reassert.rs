//! Reassert: a client reconnected and reports what it has open.

use std::collections::BTreeSet;

use weft_proto::meta::{ReassertReply, ReassertRequest};

use super::session_end::{release_all_but, unsettle_written};
use crate::error::MetaError;
use crate::open::SizeBefore;
use crate::records::{Node, keys};
use crate::tx::Volume;

pub(crate) fn reassert(
    volume: &Volume,
    client: u64,
    request: &ReassertRequest,
) -> Result<ReassertReply, MetaError> {
    let gone = volume.transact_then(
        |tx| {
            tx.force();
            let mut gone = Vec::new();
            let mut kept = BTreeSet::new();
            for id in request.reading.iter().chain(&request.writing) {
                if !kept.insert(*id) {
                    continue;
                }
                let Some(inode) = keys::inode(tx.reader(), *id)? else {
                    gone.push(*id);
                    continue;
                };
                if !request.writing.contains(id) {
                    continue;
                }
                if inode.inline {
                    // The client may have bytes that it has not stored; so may another writer.
                    if tx.open_files().has_other_writer(client, *id) {
                        tx.mark_spilling(&mut Node { id: *id, inode })?;
                    }
                } else if inode.size_exact {
                    tx.change(*id, &inode).size_exact = false;
                }
            }
            gone.sort_unstable();
            release_all_but(volume, tx, client, &kept)?;
            Ok(gone)
        },
        |open, gone| {
            let reserved = open.reserved_of(client);
            unsettle_written(volume, open, client);
            open.forget_client(client);
            let is_there = |id: &&u64| gone.binary_search(id).is_err();
            for id in request.reading.iter().filter(is_there) {
                open.attach_reader(client, *id);
            }
            for id in request.writing.iter().filter(is_there) {
                open.attach_writer(client, *id, SizeBefore::Inexact);
                open.wrote(*id);
            }
            for (id, reserved) in reserved {
                open.keep_reserved(id, reserved);
            }
        },
    )?;
    Ok(ReassertReply {
        gone,
        ..ReassertReply::default()
    })
}
