//! Clients that come back, clients that do not, and files that only they had.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use weft_proto::meta::{ReassertReply, ReassertRequest};

use crate::error::MetaError;
use crate::open::OpenFiles;
use crate::records::Node;
use crate::records::keys::{self, ORPHANS};
use crate::tx::{Tx, Volume};

/// Orphans that one transaction of [`Namespace::reap_orphans`] takes.
const PAGE: usize = 256;

pub(crate) fn reassert(
    volume: &Volume,
    client: u64,
    request: &ReassertRequest,
) -> Result<ReassertReply, MetaError> {
    let gone = volume.transact_then(
        |tx| {
            tx.force();
            let mut gone = Vec::new();
            let mut held = BTreeSet::new();
            for id in request.reading.iter().chain(&request.writing) {
                if !held.insert(*id) {
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
                    // It may have what it has not stored; whoever else writes, too.
                    if tx.open_files().has_other_writer(client, *id) {
                        tx.must_spill(&mut Node { id: *id, inode })?;
                    }
                } else if inode.size_exact {
                    tx.change(*id, &inode).size_exact = false;
                }
            }
            gone.sort_unstable();
            let_go(volume, tx, client, &held)?;
            Ok(gone)
        },
        |open, gone| {
            let dealt = open.dealt_of(client);
            unsettle_written(volume, open, client);
            open.forget_client(client);
            let is_there = |id: &&u64| gone.binary_search(id).is_err();
            for id in request.reading.iter().filter(is_there) {
                open.attach_reader(client, *id);
            }
            for id in request.writing.iter().filter(is_there) {
                open.attach_writer(client, *id, false);
                open.wrote(*id);
            }
            for (id, dealt) in dealt {
                open.keep_dealt(id, dealt);
            }
        },
    )?;
    Ok(ReassertReply {
        gone,
        ..ReassertReply::default()
    })
}

pub(crate) fn session_ended(volume: &Volume, client: u64) -> Result<(), MetaError> {
    volume.transact_then(
        |tx| let_go(volume, tx, client, &BTreeSet::new()),
        |open, ()| {
            unsettle_written(volume, open, client);
            open.forget_client(client);
        },
    )
}

/// What a client was writing, and will not tell any more.
fn unsettle_written(volume: &Volume, open: &OpenFiles, client: u64) {
    let files = open.of_client(client).into_iter();
    let written = files.filter(|id| open.is_writer(client, *id));
    written.for_each(|id| volume.state().unsettled().note(id));
}

/// What follows from a client having nothing open but `held`.
fn let_go(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    client: u64,
    held: &BTreeSet<u64>,
) -> Result<(), MetaError> {
    for id in tx.open_files().of_client(client) {
        if tx.open_files().is_writer(client, id)
            && let Some(inode) = keys::inode(tx.reader(), id)?
            && (inode.truncate != 0 || !inode.inline)
        {
            // It may have written behind a truncate, and to other forks, and cannot tell any more.
            let now = tx.change(id, &inode);
            now.truncate_raced |= now.truncate != 0;
            if !now.inline && !held.contains(&id) {
                (now.forks_changed, now.size_exact) = (true, false);
            }
        }
        if !held.contains(&id)
            && !volume.state().grace().is_active()
            && tx.open_files().only_by(client, id)
        {
            tx.reap(id)?;
        }
    }
    Ok(())
}

pub(crate) fn reap_orphans(volume: &Volume) -> Result<u64, MetaError> {
    volume.state().grace().end();
    let mut reaped = 0;
    let mut after = Vec::new();
    loop {
        let (count, last) = volume.transact(|tx| {
            let mut ids = Vec::new();
            let mut visit = |key: &[u8], _: &[u8]| {
                ids.extend(keys::number(key));
                if ids.len() == PAGE {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            let from = Bound::Excluded(after.as_slice());
            tx.reader()
                .scan(ORPHANS, from, Bound::Unbounded, &mut visit)?;
            let mut count = 0;
            for id in &ids {
                if !tx.open_files().is_open(*id) {
                    count += u64::from(tx.reap(*id)?);
                }
            }
            Ok((count, ids.last().copied()))
        })?;
        reaped += count;
        match last {
            Some(id) => after = id.to_be_bytes().to_vec(),
            None => return Ok(reaped),
        }
    }
}
