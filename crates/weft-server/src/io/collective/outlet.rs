//! Where the bytes of a collective read go: a stream to each member, or one stream to the process
//! that asks for all.

use futures_util::future::join_all;
use weft_net::{Parcel, Reply};
use weft_proto::collective::{CollectiveReadReply, JoinedReadReply};
use weft_proto::io::CellRun;
use weft_proto::{Code, Failure, prost::Message};

use super::room::Patience;

/// One stream.
pub(super) struct Outlet<M> {
    reply: Option<Reply>,
    head: Option<M>,
    left: u64,
    /// How long it may take nothing.
    patience: Patience,
}

/// All of a job's.
pub(super) enum Outlets {
    /// One for each member.
    Each(Vec<Outlet<CollectiveReadReply>>),
    /// One for all.
    One(Outlet<JoinedReadReply>),
}

impl<M: Message> Outlet<M> {
    /// Sends the next bytes. Whoever no longer wants them gets none: nobody else is held up.
    async fn give(&mut self, payload: Parcel) {
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
            stood = self.patience.ends(|| caller.taken()) => Err(stood),
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_)) => self.reply = None,
            // The others wait for it no longer.
            Err(stood) => {
                let what =
                    format!("nothing of this answer was taken for {stood:.1?} while others waited");
                if let Some(reply) = self.reply.take() {
                    reply.fail(&Failure::new(Code::MembersMissing, what));
                }
            }
        }
    }

    /// Sends the head of a stream without bytes.
    async fn begin(&mut self) {
        if self.left == 0 && self.head.is_some() {
            self.give(Parcel::default()).await;
        }
    }
}

impl Outlets {
    /// Streams to these members, of as many bytes each.
    pub(super) fn each(
        replies: Vec<Reply>,
        bytes: &[u64],
        lengths: &[CellRun],
        missing: &[u32],
        patience: &Patience,
    ) -> Outlets {
        let outlet = |(reply, bytes): (Reply, &u64)| Outlet {
            reply: Some(reply),
            head: Some(CollectiveReadReply {
                lengths: lengths.to_vec(),
                bytes: *bytes,
                missing: missing.to_vec(),
            }),
            left: *bytes,
            patience: patience.clone(),
        };
        Outlets::Each(replies.into_iter().zip(bytes).map(outlet).collect())
    }

    /// One stream for all.
    pub(super) fn one(
        reply: Reply,
        bytes: u64,
        lengths: Vec<CellRun>,
        patience: Patience,
    ) -> Outlets {
        Outlets::One(Outlet {
            reply: Some(reply),
            head: Some(JoinedReadReply { lengths, bytes }),
            left: bytes,
            patience,
        })
    }

    /// Answers those that get no bytes.
    pub(super) async fn begin(&mut self) {
        match self {
            Outlets::Each(outlets) => {
                join_all(outlets.iter_mut().map(Outlet::begin)).await;
            }
            Outlets::One(outlet) => outlet.begin().await,
        }
    }

    /// Sends a round: what each member gets.
    pub(super) async fn give(&mut self, round: Vec<Parcel>) {
        match self {
            Outlets::Each(outlets) => {
                let pairs = outlets.iter_mut().zip(round);
                let sends = pairs
                    .filter(|(_, payload)| !payload.parts.is_empty())
                    .map(|(outlet, payload)| outlet.give(payload));
                join_all(sends).await;
            }
            Outlets::One(outlet) => outlet.give(Parcel::joined(round)).await,
        }
    }

    /// Whether anybody still wants this member's bytes.
    pub(super) fn wants(&self, member: usize) -> bool {
        match self {
            Outlets::Each(outlets) => outlets[member].wants(),
            Outlets::One(outlet) => outlet.wants(),
        }
    }

    /// Tells all whose stream has not ended that it failed.
    pub(super) fn fail(self, failure: &Failure) {
        match self {
            Outlets::Each(outlets) => outlets.into_iter().for_each(|o| o.fail(failure)),
            Outlets::One(outlet) => outlet.fail(failure),
        }
    }
}

impl<M> Outlet<M> {
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
