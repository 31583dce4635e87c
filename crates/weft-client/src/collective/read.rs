//! A member's read: one stream from each server, as of a single read, once all members have come.

use std::collections::HashMap;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use weft_layout::{Request, ServerSlot};
use weft_net::{CallError, Incoming};
use weft_proto::Code;
use weft_proto::collective::{CollectiveReadReply, CollectiveReadRequest, Membership};
use weft_proto::io::{Pattern, ReadReply};

use super::{Collected, Collective, add_missing};
use crate::Error;
use crate::io::{Scatter, Sink};
use crate::volume::RetryUntil;

/// What arrives from one server, in order.
enum Arrived {
    /// The stream begins, perhaps anew.
    Head(CollectiveReadReply),
    /// The next bytes.
    Bytes(Bytes),
}

type ServerStream<'a> = Pin<Box<dyn Stream<Item = (usize, Result<Arrived, Error>)> + Send + 'a>>;

/// Where one server's stream is.
enum State {
    Ask(Membership),
    Stream(Membership, Box<Incoming<CollectiveReadRequest>>),
    Done,
}

impl Collective<'_> {
    pub(super) async fn read_request(
        &self,
        request: &Request,
        mut memory: impl Sink,
        membership: Membership,
    ) -> Result<Collected, Error> {
        let view = self.view;
        let pattern = view.pattern(request)?;
        view.clear_ghosts(request, &mut memory);
        let slots: Vec<ServerSlot> = view.map.grid().slots_in_use().collect();
        let mut scatters = Vec::with_capacity(slots.len());
        let mut streams: Vec<ServerStream<'_>> = Vec::with_capacity(slots.len());
        for (i, slot) in slots.iter().enumerate() {
            scatters.push(Scatter::new(view.map.pieces(request, *slot)?));
            let stream = self.server_stream(&pattern, membership.clone(), *slot);
            streams.push(Box::pin(stream.map(move |item| (i, item))));
        }
        let mut collected = Collected::default();
        let mut arriving = stream::select_all(streams);
        // Where members are missing, each server is to say so by itself, as of a write.
        let mut failed = None;
        while let Some((i, arrived)) = arriving.next().await {
            let arrived = match arrived {
                Err(error) if error.code() == Code::MembersMissing => {
                    failed.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(failed.unwrap_or(error)),
                Ok(arrived) => arrived,
            };
            let done = match arrived {
                Arrived::Head(head) => {
                    add_missing(&mut collected.missing, &head.missing);
                    let (lengths, bytes) = (head.lengths, head.bytes);
                    let head = ReadReply {
                        lengths,
                        bytes,
                        ..ReadReply::default()
                    };
                    scatters[i].begin(&head, &view.map)
                }
                Arrived::Bytes(bytes) => scatters[i].take(&bytes, &mut memory),
            };
            done.map_err(|reason| view.broken(slots[i], reason))?;
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        let mut lengths = HashMap::new();
        for (mut scatter, slot) in scatters.into_iter().zip(&slots) {
            let moved = scatter.finish();
            collected.bytes += moved.map_err(|reason| view.broken(*slot, reason))?;
            lengths.extend(scatter.into_lengths());
        }
        view.clear_beyond(request, collected.bytes, &lengths, &mut memory)?;
        Ok(collected)
    }

    /// One server's answer; begins anew while a lost server is looked for.
    fn server_stream<'a>(
        &'a self,
        pattern: &'a Pattern,
        membership: Membership,
        slot: ServerSlot,
    ) -> impl Stream<Item = Result<Arrived, Error>> + Send + 'a {
        let retry = RetryUntil::new(membership.wait);
        let start = (State::Ask(membership), retry);
        stream::unfold(start, move |(mut state, mut retry)| async move {
            loop {
                let (error, membership) = match state {
                    State::Done => return None,
                    State::Ask(membership) => match self.ask(pattern, &membership, slot).await {
                        Ok((head, incoming)) => {
                            let next = State::Stream(membership, Box::new(incoming));
                            return Some((Ok(Arrived::Head(head)), (next, retry)));
                        }
                        Err(e) => (e, membership),
                    },
                    State::Stream(membership, mut incoming) => match incoming.next().await {
                        Ok(Some(bytes)) => {
                            let next = State::Stream(membership, incoming);
                            return Some((Ok(Arrived::Bytes(bytes)), (next, retry)));
                        }
                        Ok(None) => return None,
                        Err(e) => (e, membership),
                    },
                };
                if retry.again(&self.view.file.0.volume, &error).await {
                    state = State::Ask(Membership {
                        again: true,
                        ..membership
                    });
                    continue;
                }
                let server = self.view.file.0.layout.servers()[slot.0 as usize];
                let what = format!("{} from server {server}", self.what("read"));
                return Some((Err(Error::of_call(what, error)), (State::Done, retry)));
            }
        })
    }

    async fn ask(
        &self,
        pattern: &Pattern,
        membership: &Membership,
        slot: ServerSlot,
    ) -> Result<(CollectiveReadReply, Incoming<CollectiveReadRequest>), CallError> {
        let a = &self.view.file.0;
        let connection = a
            .volume
            .server_connection(a.layout.servers()[slot.0 as usize])
            .await?;
        connection
            .fetch(&CollectiveReadRequest {
                membership: membership.clone(),
                access: self.view.access(pattern, slot),
            })
            .await
    }
}
