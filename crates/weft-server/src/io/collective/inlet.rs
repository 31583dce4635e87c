//! Where the bytes of a collective write come from: a stream of each member, or one stream of the
//! process that sends for all.

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use weft_net::Payload;

use super::assembly::Assembly;
use super::room::Patience;

/// One stream.
pub(super) struct Inlet {
    payload: Payload,
    /// What came and belongs to a later round.
    rest: Bytes,
    /// How long the frame was that this is left of.
    frame: usize,
    lost: bool,
    /// How long it may stand still.
    patience: Patience,
}

/// All of a job's.
pub(super) enum Inlets {
    /// One of each member.
    Each(Vec<Inlet>),
    /// One of all.
    One(Inlet),
}

impl Inlet {
    fn new(payload: Payload, patience: Patience) -> Inlet {
        Inlet {
            payload,
            rest: Bytes::new(),
            frame: 0,
            lost: false,
            patience,
        }
    }

    /// Waits until there are bytes; `false` if the stream has ended, or stands still for too long.
    pub(super) async fn more(&mut self) -> bool {
        if self.rest.is_empty() {
            let next = tokio::select! {
                biased;
                next = self.payload.next() => next,
                _ = self.patience.ends(|| 0) => None,
            };
            let Some(bytes) = next else {
                self.lost = true;
                return false;
            };
            self.frame = bytes.len();
            self.rest = bytes;
        }
        true
    }

    /// Takes what has come, at most `most` bytes.
    pub(super) fn take(&mut self, most: u64) -> Bytes {
        let taken = most.min(self.rest.len() as u64) as usize;
        self.rest.split_to(taken)
    }

    /// What was taken is done with.
    pub(super) fn release(&mut self) {
        if self.rest.is_empty() {
            self.payload.release_chunk(self.frame);
        }
    }

    /// Puts what has come into the round; whether the round wants more of this member.
    fn put(&mut self, round: &mut Assembly, member: usize) -> bool {
        let taken = round.put(member, &self.rest);
        self.rest.advance(taken);
        if taken > 0 {
            self.release();
        }
        round.wants(member)
    }

    async fn fill(&mut self, round: &mut Assembly, member: usize) {
        while self.put(round, member) && !self.lost && self.more().await {}
    }
}

impl Inlets {
    /// One stream of each member; one that stands still for longer than `patience` says is lost.
    pub(super) fn each(payloads: Vec<Payload>, patience: &Patience) -> Inlets {
        let inlet = |payload| Inlet::new(payload, patience.clone());
        Inlets::Each(payloads.into_iter().map(inlet).collect())
    }

    /// One stream of all.
    pub(super) fn one(payload: Payload, patience: Patience) -> Inlets {
        Inlets::One(Inlet::new(payload, patience))
    }

    /// Fills a round, as far as no member is lost.
    pub(super) async fn fill(&mut self, round: &mut Assembly, members: usize) {
        let inlets = match self {
            Inlets::Each(inlets) => inlets,
            Inlets::One(inlet) => {
                for member in 0..members {
                    inlet.fill(round, member).await;
                }
                return;
            }
        };
        let mut waiting = FuturesUnordered::new();
        for (member, inlet) in inlets.iter_mut().enumerate() {
            if inlet.put(round, member) && !inlet.lost {
                waiting.push(wait(member, inlet));
            }
        }
        while let Some((member, inlet, more)) = waiting.next().await {
            if more && inlet.put(round, member) {
                waiting.push(wait(member, inlet));
            }
        }
    }

    /// This member's stream.
    pub(super) fn of(&mut self, member: usize) -> &mut Inlet {
        match self {
            Inlets::Each(inlets) => &mut inlets[member],
            Inlets::One(inlet) => inlet,
        }
    }

    /// Members whose stream ended before its time, or stood still for too long.
    pub(super) fn lost(&self, members: usize) -> Vec<usize> {
        match self {
            Inlets::Each(inlets) => (0..inlets.len()).filter(|i| inlets[*i].lost).collect(),
            Inlets::One(inlet) if inlet.lost => (0..members).collect(),
            Inlets::One(_) => Vec::new(),
        }
    }
}

async fn wait(member: usize, inlet: &mut Inlet) -> (usize, &mut Inlet, bool) {
    let more = inlet.more().await;
    (member, inlet, more)
}
