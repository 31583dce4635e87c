//! The sinks of a collective read: one stream to each member, or one to the process that asks for
//! all.

use futures_util::future::join_all;
use weft_net::{Reply, ReplyPayload};
use weft_proto::collective::{CollectiveReadReply, JoinedReadReply};
use weft_proto::io::CellRun;
use weft_proto::{Code, Failure, prost::Message};

use crate::io::collective::memory::StallTimeout;

/// One stream.
pub(in crate::io::collective) struct Sink<M> {
    reply: Option<Reply>,
    head: Option<M>,
    /// Bytes that are still to be sent.
    left: u64,
    stall_timeout: StallTimeout,
}

/// All sinks of a job.
pub(in crate::io::collective) enum Sinks {
    /// One for each member.
    Each(Vec<Sink<CollectiveReadReply>>),
    /// One for all members.
    One(Sink<JoinedReadReply>),
}

impl<M: Message> Sink<M> {
    /// Sends the next bytes, unless the receiver is gone or stalls: others must not wait for it.
    async fn send(&mut self, payload: ReplyPayload) {
        self.left -= payload.bytes();
        let last = self.left == 0;
        let Some(reply) = &mut self.reply else { return };
        let head = self.head.take();
        let caller = reply.caller();
        let sending = async {
            match &head {
                Some(head) => reply.head(head, payload, last).await,
                None => reply.data(payload, last).await,
            }
        };
        let sent = tokio::select! {
            biased;
            sent = sending => Ok(sent),
            stalled = self.stall_timeout.elapsed(|| caller.taken()) => Err(stalled),
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_)) => self.reply = None,
            Err(stalled) => {
                let what = format!(
                    "no byte of this reply was received for {stalled:.1?} while others waited"
                );
                if let Some(reply) = self.reply.take() {
                    reply.fail(&Failure::new(Code::MembersMissing, what));
                }
            }
        }
    }

    /// Sends the reply of a stream without bytes.
    async fn send_empty(&mut self) {
        if self.left == 0 && self.head.is_some() {
            self.send(ReplyPayload::default()).await;
        }
    }
}

impl Sinks {
    /// Streams to these members, `bytes` long each.
    pub(in crate::io::collective) fn each(
        replies: Vec<Reply>,
        bytes: &[u64],
        lengths: &[CellRun],
        missing: &[u32],
        stall_timeout: &StallTimeout,
    ) -> Sinks {
        let sink = |(reply, bytes): (Reply, &u64)| Sink {
            reply: Some(reply),
            head: Some(CollectiveReadReply {
                lengths: lengths.to_vec(),
                bytes: *bytes,
                missing: missing.to_vec(),
            }),
            left: *bytes,
            stall_timeout: stall_timeout.clone(),
        };
        Sinks::Each(replies.into_iter().zip(bytes).map(sink).collect())
    }

    /// One stream for all members.
    pub(in crate::io::collective) fn one(
        reply: Reply,
        bytes: u64,
        lengths: Vec<CellRun>,
        stall_timeout: StallTimeout,
    ) -> Sinks {
        Sinks::One(Sink {
            reply: Some(reply),
            head: Some(JoinedReadReply { lengths, bytes }),
            left: bytes,
            stall_timeout,
        })
    }

    /// Answers receivers that get no bytes.
    pub(in crate::io::collective) async fn send_empty(&mut self) {
        match self {
            Sinks::Each(sinks) => {
                join_all(sinks.iter_mut().map(Sink::send_empty)).await;
            }
            Sinks::One(sink) => sink.send_empty().await,
        }
    }

    /// Sends a round: the payload of each member.
    pub(in crate::io::collective) async fn send(&mut self, round: Vec<ReplyPayload>) {
        match self {
            Sinks::Each(sinks) => {
                let pairs = sinks.iter_mut().zip(round);
                let sends = pairs
                    .filter(|(_, payload)| !payload.parts.is_empty())
                    .map(|(sink, payload)| sink.send(payload));
                join_all(sends).await;
            }
            Sinks::One(sink) => sink.send(ReplyPayload::joined(round)).await,
        }
    }

    /// Whether this member's bytes still have a receiver.
    pub(in crate::io::collective) fn wants(&self, member: usize) -> bool {
        match self {
            Sinks::Each(sinks) => sinks[member].wants(),
            Sinks::One(sink) => sink.wants(),
        }
    }

    /// Fails all streams that have not ended.
    pub(in crate::io::collective) fn fail(self, failure: &Failure) {
        match self {
            Sinks::Each(sinks) => sinks.into_iter().for_each(|o| o.fail(failure)),
            Sinks::One(sink) => sink.fail(failure),
        }
    }
}

impl<M> Sink<M> {
    fn wants(&self) -> bool {
        let there = self.reply.as_ref().is_some_and(|r| !r.cancelled());
        self.left > 0 && there
    }

    fn fail(self, failure: &Failure) {
        let begun = self.left > 0 || self.head.is_some();
        if let Some(reply) = self.reply.filter(|_| begun) {
            reply.fail(failure);
        }
    }
}
