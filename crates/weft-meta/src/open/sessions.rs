//! Clients that come back, clients that do not, and files that only they had.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use weft_proto::meta::{ReassertReply, ReassertRequest};

use super::open_files::OpenFiles;
use crate::edit::Edit;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::records::Node;
use crate::records::keys::{self, ORPHANS};

/// Orphans that one transaction of [`Namespace::reap_orphans`] takes.
const PAGE: usize = 256;

impl Namespace {
    /// A client reconnected and tells all that it has open, which replaces what was known of it:
    /// telling twice changes nothing. It must be the first call of the new connection.
    pub fn reassert(
        &self,
        client: u64,
        request: &ReassertRequest,
    ) -> Result<ReassertReply, MetaError> {
        let gone = self.edit_then(
            |edit| {
                edit.force();
                let mut gone = Vec::new();
                let mut held = BTreeSet::new();
                for id in request.reading.iter().chain(&request.writing) {
                    if !held.insert(*id) {
                        continue;
                    }
                    let Some(inode) = keys::inode(edit.reader(), *id)? else {
                        gone.push(*id);
                        continue;
                    };
                    if !request.writing.contains(id) {
                        continue;
                    }
                    if inode.inline {
                        // It may have what it has not stored; whoever else writes, too.
                        if edit.open_files().has_other_writer(client, *id) {
                            edit.must_spill(&mut Node { id: *id, inode })?;
                        }
                    } else if inode.size_exact {
                        edit.change(*id, &inode).size_exact = false;
                    }
                }
                gone.sort_unstable();
                self.let_go(edit, client, &held)?;
                Ok(gone)
            },
            |open, gone| {
                let dealt = open.dealt_of(client);
                self.unsettle_written(open, client);
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

    /// A client is gone for good: its attachments end, and files that only it had open go.
    pub fn session_ended(&self, client: u64) -> Result<(), MetaError> {
        self.edit_then(
            |edit| self.let_go(edit, client, &BTreeSet::new()),
            |open, ()| {
                self.unsettle_written(open, client);
                open.forget_client(client);
            },
        )
    }

    /// What a client was writing, and will not tell any more.
    fn unsettle_written(&self, open: &OpenFiles, client: u64) {
        let files = open.of_client(client).into_iter();
        let written = files.filter(|id| open.is_writer(client, *id));
        written.for_each(|id| self.unsettled.note(id));
    }

    /// What follows from a client having nothing open but `held`.
    fn let_go(
        &self,
        edit: &mut Edit<'_, '_>,
        client: u64,
        held: &BTreeSet<u64>,
    ) -> Result<(), MetaError> {
        for id in edit.open_files().of_client(client) {
            if edit.open_files().is_writer(client, id)
                && let Some(inode) = keys::inode(edit.reader(), id)?
                && (inode.truncate != 0 || !inode.inline)
            {
                // It may have written behind a truncate, and to other forks, and cannot tell any more.
                let now = edit.change(id, &inode);
                now.truncate_raced |= now.truncate != 0;
                if !now.inline && !held.contains(&id) {
                    (now.forks_changed, now.size_exact) = (true, false);
                }
            }
            if !held.contains(&id) && !self.recovering() && edit.open_files().only_by(client, id) {
                reap(edit, id)?;
            }
        }
        Ok(())
    }

    /// The grace period after the service's start is over: files without a name that nobody has
    /// told to have open go, and from now on such files go at once. Answers how many went.
    pub fn reap_orphans(&self) -> Result<u64, MetaError> {
        self.recovered();
        let mut reaped = 0;
        let mut after = Vec::new();
        loop {
            let (count, last) = self.edit(|edit| {
                let mut ids = Vec::new();
                let mut visit = |key: &[u8], _: &[u8]| {
                    ids.extend(keys::number(key));
                    if ids.len() == PAGE {
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                };
                let from = Bound::Excluded(after.as_slice());
                edit.reader()
                    .scan(ORPHANS, from, Bound::Unbounded, &mut visit)?;
                let mut count = 0;
                for id in &ids {
                    if !edit.open_files().is_open(*id) {
                        count += u64::from(reap(edit, *id)?);
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
}

/// Removes a file if it is an orphan.
pub(crate) fn reap(edit: &mut Edit<'_, '_>, id: u64) -> Result<bool, MetaError> {
    let key = id.to_be_bytes();
    if edit.reader().get(ORPHANS, &key)?.is_none() {
        return Ok(false);
    }
    let inode = keys::named_inode(edit.reader(), id)?;
    edit.delete(ORPHANS, &key);
    edit.bury(&Node { id, inode })?;
    Ok(true)
}
