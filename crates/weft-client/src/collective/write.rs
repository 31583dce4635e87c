//! A member's write: one stream to each server, as of a single write, taken as the job needs it.

use std::future::Future;

use futures_util::stream::{FuturesUnordered, StreamExt};
use weft_layout::ServerSlot;
use weft_proto::Code;
use weft_proto::collective::{CollectiveWriteReply, CollectiveWriteRequest, Membership};
use weft_proto::io::Pattern;

use super::{Collected, Collective, Overlaps, add_missing};
use crate::Error;
use crate::io::{Durability, Gather, Writing, send_frames};
use crate::volume::RetryUntil;

/// All answers, or the first error. Where members are missing, every server must answer before this
/// call ends: a member that leaves earlier counts as missing there.
async fn all_answers<T>(
    mut calls: FuturesUnordered<impl Future<Output = Result<T, Error>>>,
) -> Result<Vec<T>, Error> {
    let (mut all, mut failed) = (Vec::with_capacity(calls.len()), None);
    while let Some(answer) = calls.next().await {
        match answer {
            Ok(answer) => all.push(answer),
            Err(error) if error.code() == Code::MembersMissing => drop(failed.get_or_insert(error)),
            Err(error) => return Err(failed.unwrap_or(error)),
        }
    }
    failed.map_or(Ok(all), Err)
}

impl Collective<'_> {
    pub(super) async fn write_request(
        &self,
        writing: Writing,
        membership: Membership,
    ) -> Result<Collected, Error> {
        self.view.file.needs_write("write")?;
        let pattern = self.view.pattern(&writing.request)?;
        self.view.file.note_fork(&self.view.fork);
        let slots = self.view.map.grid().slots_in_use();
        let writes =
            slots.map(|slot| self.write_slot(&writing, &pattern, membership.clone(), slot));
        let written = all_answers(writes.collect()).await;
        // Others wrote, too, and even a failed write may have moved the end of the file.
        self.view.file.note_write(None);
        let mut collected = Collected::default();
        for reply in written? {
            collected.bytes += reply.bytes;
            add_missing(&mut collected.missing, &reply.missing);
        }
        Ok(collected)
    }

    async fn write_slot(
        &self,
        writing: &Writing,
        pattern: &Pattern,
        membership: Membership,
        slot: ServerSlot,
    ) -> Result<CollectiveWriteReply, Error> {
        let a = &self.view.file.0;
        let server = a.layout.servers()[slot.0 as usize];
        let pieces = self.view.map.pieces(&writing.request, slot)?;
        let mut retry = RetryUntil::new(membership.wait);
        let mut call = CollectiveWriteRequest {
            membership,
            access: self.view.access(pattern, slot),
            chunk: a.layout.chunk_code(),
            bytes: pieces.clone().map(|p| p.length).sum(),
            sync: writing.durability == Durability::Power,
            ordered: writing.ordered,
            member_order: self.group.overlaps == Overlaps::MemberOrder,
        };
        loop {
            let gather = Gather::new(pieces.clone(), &writing.source);
            let sent = match a.volume.server_connection(server).await {
                Ok(connection) => send_frames(&connection, &call, gather).await,
                Err(e) => Err(e),
            };
            match sent {
                Ok((reply, stamp)) => {
                    if writing.durability == Durability::Process {
                        self.view.file.note_acknowledged(server, &stamp);
                    }
                    return Ok(reply);
                }
                Err(e) if retry.again(&a.volume, &e).await => {
                    call.membership.again = true;
                    call.access = self.view.access(pattern, slot);
                }
                Err(e) => {
                    let what = format!("{} on server {server}", self.what("write"));
                    return Err(Error::of_write(what, &a.path, e));
                }
            }
        }
    }
}
