//! The requests of a whole group from one process, which has the memory of all members: one message
//! to each server.

use bytes::Bytes;
use futures_util::future::{TryFutureExt, ready, try_join_all};
use futures_util::stream::{self, Stream, StreamExt};
use weft_layout::{
    CellIndex, CellLengths, Clipped, Comparison, Endless, MemberOverlap, Pieces, Request, Rounds,
    ServerSlot, Splitter,
};
use weft_net::{CallError, Connection};
use weft_proto::collective::{JoinedReadReply, JoinedReadRequest, JoinedWriteRequest};
use weft_proto::io::{Access, Pattern};

use super::Overlaps;
use super::stream::{Frames, StreamScatter, turns};
use crate::io::{Durability, Writing, lengths};
use crate::volume::Repeat;
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

/// Reads what all members ask for: one message to each server that holds any of it; there it is one
/// job, and what several members want is read from disk once.
///
/// Returns the number of bytes moved, of all members together.
/// # Errors
/// Those of [`OpenView::read_with`]; [`Error::Refused`] when the views are not of one file and
/// fork.
/// # Source
/// PVFS §2.3.1.
pub async fn read_joined(members: Vec<JoinedRead<'_>>) -> Result<u64, Error> {
    let mut requests = Vec::with_capacity(members.len());
    let mut targets = Vec::with_capacity(members.len());
    for member in members {
        member.view.file.commit().await?;
        let (request, target) = member.transfer.reading(member.view, member.buffer)?;
        requests.push((member.view, request));
        targets.push(target);
    }
    let joined = Joined::new(requests)?;
    let mut deals: Vec<_> = joined.slots.iter().map(|_| None).collect();
    // Each server's bytes are taken as they come, whatever the others do: until then they occupy
    // its memory for rounds.
    let streams = joined.slots.iter().enumerate().map(|(i, slot)| {
        let stream = joined.server_stream(*slot);
        Box::pin(stream.map(move |item| (i, item)))
    });
    let mut arriving = stream::select_all(streams);
    while let Some((i, arrived)) = arriving.next().await {
        let done = match arrived? {
            Arrived::Head(head) => {
                let deal = joined.deal(&head, joined.slots[i]);
                deal.map(|deal| deals[i] = Some((deal, head.bytes)))
            }
            Arrived::Bytes(bytes) => match &mut deals[i] {
                Some((deal, _)) => deal.take(&bytes, &mut targets),
                None => Err("bytes came before the head of their stream".to_owned()),
            },
        };
        done.map_err(|reason| joined.view().broken(joined.slots[i], reason))?;
    }
    let mut moved = 0;
    for (deal, slot) in deals.into_iter().zip(&joined.slots) {
        let finished = match deal {
            Some((deal, bytes)) => deal.finish(bytes),
            None => Err("a stream ended before its head".to_owned()),
        };
        moved += finished.map_err(|reason| joined.view().broken(*slot, reason))?;
    }
    Ok(moved)
}

/// Writes what all members bring: one message to each server that holds any of it; there it is one
/// job.
///
/// Returns the number of bytes moved, of all members together.
/// # Durability
/// As of [`OpenView::write_with`], of all if any is [`Transfer::synced`].
/// # Errors
/// Those of [`OpenView::write_with`]; [`Error::Refused`] when the views are not of one file and
/// fork, or when members write the same bytes and `overlaps` does not allow it: nothing is written
/// then.
/// # Source
/// PVFS §2.3.1.
pub async fn write_joined(members: Vec<JoinedWrite<'_>>, overlaps: Overlaps) -> Result<u64, Error> {
    let mut requests = Vec::with_capacity(members.len());
    let mut writings = Vec::with_capacity(members.len());
    for member in members {
        member.view.file.needs_write("write")?;
        member.view.file.commit().await?;
        member.view.file.note_fork(&member.view.fork);
        let writing = member.transfer.writing(member.view, member.data)?;
        requests.push((member.view, writing.request.clone()));
        writings.push(writing);
    }
    let joined = Joined::new(requests)?;
    let mut orders = Vec::with_capacity(joined.slots.len());
    for slot in &joined.slots {
        orders.push(joined.order(*slot, overlaps)?);
    }
    let sends = joined.slots.iter().zip(orders);
    let sends = sends.map(|(slot, order)| joined.send(*slot, order, &writings, overlaps));
    let written = try_join_all(sends).await;
    for member in &joined.members {
        member.view.file.note_write(None);
    }
    Ok(written?.into_iter().sum())
}

/// What arrives from one server, in order.
enum Arrived {
    /// The stream begins.
    Head(JoinedReadReply),
    /// The next bytes.
    Bytes(Bytes),
}

/// All members' requests on one file.
struct Joined<'a> {
    members: Vec<MemberRequest<'a>>,
    slots: Vec<ServerSlot>,
}

/// One member's request.
struct MemberRequest<'a> {
    view: &'a OpenView,
    /// The request with the caller's numbers of its bytes.
    local: Request,
    pattern: Pattern,
    /// The request as the server decodes it: the same bytes in the same order, perhaps in other
    /// pieces. Both sides make rounds of this.
    on_wire: Request,
}

impl<'a> MemberRequest<'a> {
    fn new(view: &'a OpenView, local: Request) -> Result<MemberRequest<'a>, Error> {
        let pattern = view.pattern(&local)?;
        let on_wire = Request::try_from(&pattern);
        Ok(MemberRequest {
            view,
            local,
            on_wire: on_wire.map_err(|e| Error::of_convert("send a request", &e))?,
            pattern,
        })
    }
}

/// In which order the members' bytes travel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Rounds,
    MemberAfterMember,
}

impl<'a> Joined<'a> {
    fn new(requests: Vec<(&'a OpenView, Request)>) -> Result<Joined<'a>, Error> {
        let members = requests.into_iter();
        let members = members.map(|(view, request)| MemberRequest::new(view, request));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = members.first().map(|member| member.view) else {
            return Ok(Joined {
                members,
                slots: Vec::new(),
            });
        };
        let same = |v: &OpenView| {
            v.file.id() == first.file.id()
                && v.fork == first.fork
                && v.checkpoint == first.checkpoint
        };
        if let Some(other) = members.iter().find(|member| !same(member.view)) {
            let why = "the members of a joined request have one file, fork and checkpoint";
            return Err(Error::invalid(other.view.what("join requests on"), why));
        }
        let all = first.map.grid().slots_in_use();
        let mut joined = Joined {
            members,
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
        self.members[0].view
    }

    /// The members' pieces as the server sees them.
    fn pieces(&self, slot: ServerSlot) -> Result<Vec<Pieces>, Error> {
        let pieces = |member: &MemberRequest<'_>| member.view.map.pieces(&member.on_wire, slot);
        Ok(self.members.iter().map(pieces).collect::<Result<_, _>>()?)
    }

    /// The same bytes, as they lie in the members' memory.
    fn local<L: CellLengths + Clone>(
        &self,
        slot: ServerSlot,
        lengths: &L,
    ) -> Result<Vec<Splitter<L>>, Error> {
        let local = |member: &MemberRequest<'_>| {
            let pieces = member.view.map.pieces(&member.local, slot)?;
            Ok(Splitter::new(pieces, lengths.clone()))
        };
        self.members.iter().map(local).collect()
    }

    fn accesses(&self, slot: ServerSlot) -> Vec<Access> {
        let access = |member: &MemberRequest<'_>| member.view.access(&member.pattern, slot);
        self.members.iter().map(access).collect()
    }

    async fn ask(
        &self,
        slot: ServerSlot,
    ) -> Result<(JoinedReadReply, weft_net::Incoming<JoinedReadRequest>), Error> {
        let a = &self.view().file.0;
        let server = a.layout.servers()[slot.0 as usize];
        let ask = |connection: Connection| {
            let request = JoinedReadRequest {
                accesses: self.accesses(slot),
            };
            async move { connection.fetch(&request).await }
        };
        let asked = a.volume.on_server(server, Repeat::Safe, ask).await;
        asked.map_err(|e| self.failed("read", server, e))
    }

    /// One server's answer.
    fn server_stream(&self, slot: ServerSlot) -> impl Stream<Item = Result<Arrived, Error>> + Send {
        let asked = self.ask(slot).map_ok(move |(head, incoming)| {
            let bytes = stream::try_unfold(incoming, move |mut incoming| async move {
                let next = incoming.next().await;
                let next =
                    next.map_err(|e| Error::of_call(self.view().what("read for a group from"), e))?;
                Ok(next.map(|bytes| (Arrived::Bytes(bytes), incoming)))
            });
            stream::once(ready(Ok(Arrived::Head(head)))).chain(bytes)
        });
        asked.try_flatten_stream()
    }

    fn failed(&self, doing: &str, server: weft_layout::ServerId, error: CallError) -> Error {
        let doing = self
            .view()
            .what(&format!("{doing} for {} members", self.members.len()));
        Error::of_call(format!("{doing}, server {server}"), error)
    }

    fn deal(
        &self,
        head: &JoinedReadReply,
        slot: ServerSlot,
    ) -> Result<StreamScatter<impl CellLengths + use<>>, String> {
        let lengths = lengths(&head.lengths, self.view().map.grid().cells())?;
        let lengths = std::sync::Arc::new(lengths);
        let length_of = move |cell: CellIndex| lengths.get(&cell).copied().unwrap_or(0);
        let text = |e: Error| e.to_string();
        let pieces = self.pieces(slot).map_err(text)?.into_iter();
        let clipped = pieces.map(|pieces| Clipped::new(pieces, length_of.clone()));
        let rounds = Rounds::new(self.view().map.grid(), slot, clipped);
        let local = self.local(slot, &length_of).map_err(text)?;
        Ok(StreamScatter::new(turns(rounds), local))
    }

    /// The order in which the members' bytes go to a server, which sees it the same way.
    fn order(&self, slot: ServerSlot, overlaps: Overlaps) -> Result<Order, Error> {
        let pieces = self.pieces(slot)?;
        let overlap = Comparison::new(self.view().map.grid(), slot, pieces).overlap();
        let why = match overlap {
            MemberOverlap::No => return Ok(Order::Rounds),
            MemberOverlap::Byte { .. } | MemberOverlap::Unknown
                if overlaps == Overlaps::MemberOrder =>
            {
                return Ok(Order::MemberAfterMember);
            }
            MemberOverlap::Byte {
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
            MemberOverlap::Unknown => {
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
            accesses: self.accesses(slot),
            chunk: a.layout.chunk_code(),
            bytes: pieces.iter().cloned().flatten().map(|p| p.length).sum(),
            sync: writings.iter().any(|w| w.durability == Durability::Power),
            member_order: overlaps == Overlaps::MemberOrder,
        };
        let rounds = Rounds::new(self.view().map.grid(), slot, pieces.clone());
        let local = self.local(slot, &Endless)?;
        let mut frames = match order {
            Order::Rounds => Frames::new(turns(rounds), local),
            Order::MemberAfterMember => {
                let bytes = |pieces: Pieces| pieces.map(|p| p.length).sum();
                Frames::new(pieces.into_iter().map(bytes).enumerate(), local)
            }
        };
        let sent = async {
            let connection = a.volume.server_connection(server).await?;
            let mut left = request.bytes;
            let first = frames.next(writings, &mut left);
            let mut outgoing = connection.send(&request, vec![first], left == 0).await?;
            while left > 0 && !outgoing.answered() {
                let frame = frames.next(writings, &mut left);
                outgoing.more(vec![frame], left == 0).await?;
            }
            outgoing.stamped_reply().await
        };
        let sent = sent.await;
        let (reply, stamp) = sent.map_err(|e| self.failed("write", server, e))?;
        if !request.sync {
            self.view().file.note_acknowledged(server, &stamp);
        }
        Ok(reply.bytes)
    }
}
