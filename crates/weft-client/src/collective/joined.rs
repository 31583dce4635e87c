//! The requests of a whole group from one process, which has the memory of all members: one message to each server.

use bytes::Bytes;
use futures_util::future::try_join_all;
use weft_layout::{CellIndex, Clipped, Piece, Request, Rounds, ServerSlot, Shared};
use weft_net::CallError;
use weft_proto::collective::{JoinedReadReply, JoinedReadRequest, JoinedWriteRequest};
use weft_proto::io::Access;

use super::stream::{Deal, Frames, in_order};
use super::{Overlaps, slots};
use crate::read::lengths;
use crate::transfer::Writing;
use crate::volume::Repeat;
use crate::write::Durability;
use crate::{Error, OpenView, Transfer};

/// What one member reads.
pub struct JoinedRead<'a> {
    /// Through which view; all members' are of one file and fork.
    pub view: &'a OpenView,
    /// What.
    pub transfer: &'a Transfer,
    /// Where to.
    pub buffer: &'a mut [u8],
}

/// What one member writes.
pub struct JoinedWrite<'a> {
    /// Through which view; all members' are of one file and fork.
    pub view: &'a OpenView,
    /// What.
    pub transfer: &'a Transfer,
    /// Its bytes.
    pub data: Bytes,
}

/// Reads what all members want: one message to each server that holds any of it; there it is one job, and what several
/// members want is read from disk once.
///
/// Returns the number of bytes moved, of all members together.
/// # Errors
/// Those of [`OpenView::read_with`]; [`Error::Refused`] when the views are not of one file and fork.
/// # Source
/// PVFS §2.3.1.
pub async fn read_joined(members: Vec<JoinedRead<'_>>) -> Result<u64, Error> {
    let mut parts = Vec::with_capacity(members.len());
    let mut targets = Vec::with_capacity(members.len());
    for member in members {
        let (request, target) = member.transfer.reading(member.view, member.buffer)?;
        parts.push((member.view, request));
        targets.push(target);
    }
    let joined = Joined::new(parts)?;
    let mut moved = 0;
    // Memory has one owner, so servers are asked at once and listened to one after the other, within their windows.
    let asked = joined.slots.iter().map(|slot| joined.ask(*slot));
    let answers = try_join_all(asked).await?;
    for (slot, (head, mut incoming)) in joined.slots.iter().zip(answers) {
        let view = joined.view();
        let broken = |reason: String| view.broken(*slot, reason);
        let mut deal = joined.deal(&head, *slot).map_err(broken)?;
        loop {
            let next = incoming.next().await;
            let next = next.map_err(|e| Error::of_call(view.what("read for a group from"), e))?;
            let Some(bytes) = next else { break };
            deal.take(&bytes, &mut targets).map_err(broken)?;
        }
        moved += deal.finish(head.bytes).map_err(broken)?;
    }
    Ok(moved)
}

/// Writes what all members bring: one message to each server that holds any of it; there it is one job.
///
/// Returns the number of bytes moved, of all members together.
/// # Durability
/// As of [`OpenView::write_with`], of all if any is [`Transfer::synced`].
/// # Errors
/// Those of [`OpenView::write_with`]; [`Error::Refused`] when the views are not of one file and fork, or when members write
/// the same bytes and `overlaps` does not allow it: nothing is written then.
/// # Source
/// PVFS §2.3.1.
pub async fn write_joined(members: Vec<JoinedWrite<'_>>, overlaps: Overlaps) -> Result<u64, Error> {
    let mut parts = Vec::with_capacity(members.len());
    let mut writings = Vec::with_capacity(members.len());
    for member in members {
        let writing = member.transfer.writing(member.view, member.data)?;
        parts.push((member.view, writing.request.clone()));
        writings.push(writing);
    }
    let joined = Joined::new(parts)?;
    let mut orders = Vec::with_capacity(joined.slots.len());
    for slot in &joined.slots {
        orders.push(joined.order(*slot, overlaps)?);
    }
    let sends = joined.slots.iter().zip(orders);
    let sends = sends.map(|(slot, order)| joined.send(*slot, order, &writings, overlaps));
    let written = try_join_all(sends).await;
    for (view, _) in &joined.parts {
        view.file.note_write(None);
    }
    Ok(written?.into_iter().sum())
}

/// All members' requests on one file.
struct Joined<'a> {
    parts: Vec<(&'a OpenView, Request)>,
    slots: Vec<ServerSlot>,
}

/// In which order the members' bytes travel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Rounds,
    MemberAfterMember,
}

impl<'a> Joined<'a> {
    fn new(parts: Vec<(&'a OpenView, Request)>) -> Result<Joined<'a>, Error> {
        let Some((first, _)) = parts.first() else {
            return Ok(Joined {
                parts,
                slots: Vec::new(),
            });
        };
        let same = |v: &OpenView| {
            v.file.id() == first.file.id()
                && v.fork == first.fork
                && v.checkpoint == first.checkpoint
        };
        if let Some((other, _)) = parts.iter().find(|(view, _)| !same(view)) {
            let why = "the members of a joined request have one file, fork and checkpoint";
            return Err(Error::invalid(other.what("join requests on"), why));
        }
        let all = slots(first);
        let mut joined = Joined {
            parts,
            slots: Vec::new(),
        };
        for slot in all {
            if joined.pieces(slot)?.iter_mut().any(|p| p.next().is_some()) {
                joined.slots.push(slot);
            }
        }
        Ok(joined)
    }

    fn view(&self) -> &'a OpenView {
        self.parts[0].0
    }

    fn pieces(&self, slot: ServerSlot) -> Result<Vec<weft_layout::Pieces>, Error> {
        let pieces = |(view, request): &(&OpenView, Request)| view.map.pieces(request, slot);
        Ok(self.parts.iter().map(pieces).collect::<Result<_, _>>()?)
    }

    fn accesses(&self, slot: ServerSlot) -> Result<Vec<Access>, Error> {
        let access =
            |(view, request): &(&OpenView, Request)| Ok(view.access(&view.pattern(request)?, slot));
        self.parts.iter().map(access).collect()
    }

    async fn ask(
        &self,
        slot: ServerSlot,
    ) -> Result<(JoinedReadReply, weft_net::Incoming<JoinedReadRequest>), Error> {
        let a = &self.view().file.0;
        let server = a.layout.servers()[slot.0 as usize];
        let mut tries = 0;
        loop {
            let request = JoinedReadRequest {
                accesses: self.accesses(slot)?,
            };
            let asked = match a.volume.server_connection(server).await {
                Ok(connection) => connection.fetch(&request).await,
                Err(e) => Err(e),
            };
            match asked {
                Ok(answer) => return Ok(answer),
                Err(e) if tries == 0 && a.volume.try_again(&e, Repeat::Safe).await => tries += 1,
                Err(e) => return Err(self.failed("read", server, e)),
            }
        }
    }

    fn failed(&self, doing: &str, server: weft_layout::ServerId, error: CallError) -> Error {
        let doing = self
            .view()
            .what(&format!("{doing} for {} members", self.parts.len()));
        Error::of_call(format!("{doing}, server {server}"), error)
    }

    fn deal(&self, head: &JoinedReadReply, slot: ServerSlot) -> Result<Deal, String> {
        let lengths = lengths(&head.lengths, self.view().map.grid().cells())?;
        let lengths = std::sync::Arc::new(lengths);
        let pieces = self.pieces(slot).map_err(|e| e.to_string())?;
        let clip = |pieces| {
            let lengths = lengths.clone();
            let length_of = move |cell: CellIndex| lengths.get(&cell).copied().unwrap_or(0);
            Clipped::new(pieces, length_of)
        };
        let rounds = Rounds::new(self.view().map.grid(), slot, pieces.into_iter().map(clip));
        Ok(Deal::new(in_order(rounds)))
    }

    /// The order in which the members' bytes go to a server, which sees it the same way.
    fn order(&self, slot: ServerSlot, overlaps: Overlaps) -> Result<Order, Error> {
        let shared = Rounds::new(self.view().map.grid(), slot, self.pieces(slot)?).shared();
        let why = match shared {
            Shared::No => return Ok(Order::Rounds),
            _ if overlaps == Overlaps::MemberOrder => return Ok(Order::MemberAfterMember),
            Shared::Byte {
                first,
                second,
                cell,
                offset,
            } => {
                format!(
                    "members {first} and {second} both write byte {} of cell {cell}",
                    offset.0
                )
            }
            Shared::Unknown => {
                "they have too many pieces to see that none writes what another writes".to_owned()
            }
        };
        Err(Error::invalid(self.view().what("join writes of"), why))
    }

    async fn send(
        &self,
        slot: ServerSlot,
        order: Order,
        writings: &[Writing],
        overlaps: Overlaps,
    ) -> Result<u64, Error> {
        let a = &self.view().file.0;
        let server = a.layout.servers()[slot.0 as usize];
        let pieces = self.pieces(slot)?;
        let request = JoinedWriteRequest {
            accesses: self.accesses(slot)?,
            chunk: a.layout.chunk(),
            bytes: pieces.iter().cloned().flatten().map(|p| p.length).sum(),
            sync: writings.iter().any(|w| w.durability == Durability::Power),
            member_order: overlaps == Overlaps::MemberOrder,
        };
        let rounds = Rounds::new(self.view().map.grid(), slot, pieces.clone());
        let stream: Box<dyn Iterator<Item = (usize, Piece)> + Send> = match order {
            Order::Rounds => Box::new(in_order(rounds)),
            Order::MemberAfterMember => {
                let numbered = pieces.into_iter().enumerate();
                Box::new(
                    numbered.flat_map(|(member, pieces)| pieces.map(move |piece| (member, piece))),
                )
            }
        };
        let sent = async {
            let connection = a.volume.server_connection(server).await?;
            let mut frames = Frames::new(stream);
            let mut left = request.bytes;
            let first = frames.next(writings, &mut left);
            let mut outgoing = connection.send(&request, vec![first], left == 0).await?;
            while left > 0 && !outgoing.answered() {
                let frame = frames.next(writings, &mut left);
                outgoing.more(vec![frame], left == 0).await?;
            }
            outgoing.reply().await
        };
        Ok(sent
            .await
            .map_err(|e| self.failed("write", server, e))?
            .bytes)
    }
}
