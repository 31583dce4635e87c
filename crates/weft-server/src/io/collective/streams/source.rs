//! The sources of a collective write: one stream of each member, or one of the process that sends
//! for all.

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use weft_net::Payload;

use super::assembly::Assembly;
use crate::io::collective::memory::StallTimeout;

/// One stream.
pub(in crate::io::collective) struct Source {
    payload: Payload,
    /// Received bytes that are not used yet.
    rest: Bytes,
    /// The length of the frame that they came in.
    frame: usize,
    lost: bool,
    stall_timeout: StallTimeout,
}

/// All sources of a job.
pub(in crate::io::collective) enum Sources {
    /// One for each member.
    Each(Vec<Source>),
    /// One for all members.
    One(Source),
}

impl Source {
    fn new(payload: Payload, stall_timeout: StallTimeout) -> Source {
        Source {
            payload,
            rest: Bytes::new(),
            frame: 0,
            lost: false,
            stall_timeout,
        }
    }

    /// Waits for bytes; `false` if the stream has ended, or stalls for too long.
    pub(in crate::io::collective) async fn more(&mut self) -> bool {
        if self.rest.is_empty() {
            let next = tokio::select! {
                biased;
                next = self.payload.next() => next,
                _ = self.stall_timeout.elapsed(|| 0) => None,
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

    /// Takes received bytes, at most `most`.
    pub(in crate::io::collective) fn take(&mut self, most: u64) -> Bytes {
        let taken = most.min(self.rest.len() as u64) as usize;
        self.rest.split_to(taken)
    }

    /// Reopens the window when a frame is used up.
    pub(in crate::io::collective) fn release(&mut self) {
        if self.rest.is_empty() {
            self.payload.release_chunk(self.frame);
        }
    }

    /// Copies received bytes into the round; returns whether the round needs more of this member.
    fn feed(&mut self, round: &mut Assembly, member: usize) -> bool {
        let taken = round.fill(member, &self.rest);
        self.rest.advance(taken);
        if taken > 0 {
            self.release();
        }
        round.wants(member)
    }

    async fn fill(&mut self, round: &mut Assembly, member: usize) {
        while self.feed(round, member) && !self.lost && self.more().await {}
    }
}

impl Sources {
    /// One stream of each member; a stream that stalls for longer than `stall_timeout` is lost.
    pub(in crate::io::collective) fn each(
        payloads: Vec<Payload>,
        stall_timeout: &StallTimeout,
    ) -> Sources {
        let source = |payload| Source::new(payload, stall_timeout.clone());
        Sources::Each(payloads.into_iter().map(source).collect())
    }

    /// One stream for all members.
    pub(in crate::io::collective) fn one(payload: Payload, stall_timeout: StallTimeout) -> Sources {
        Sources::One(Source::new(payload, stall_timeout))
    }

    /// Fills a round, except for the bytes of lost members.
    pub(in crate::io::collective) async fn fill(&mut self, round: &mut Assembly, members: usize) {
        let sources = match self {
            Sources::Each(sources) => sources,
            Sources::One(source) => {
                for member in 0..members {
                    source.fill(round, member).await;
                }
                return;
            }
        };
        let mut waiting = FuturesUnordered::new();
        for (member, source) in sources.iter_mut().enumerate() {
            if source.feed(round, member) && !source.lost {
                waiting.push(wait(member, source));
            }
        }
        while let Some((member, source, more)) = waiting.next().await {
            if more && source.feed(round, member) {
                waiting.push(wait(member, source));
            }
        }
    }

    /// The stream of a member.
    pub(in crate::io::collective) fn of(&mut self, member: usize) -> &mut Source {
        match self {
            Sources::Each(sources) => &mut sources[member],
            Sources::One(source) => source,
        }
    }

    /// Members whose stream ended early, or stalled for too long.
    pub(in crate::io::collective) fn lost(&self, members: usize) -> Vec<usize> {
        match self {
            Sources::Each(sources) => (0..sources.len()).filter(|i| sources[*i].lost).collect(),
            Sources::One(source) if source.lost => (0..members).collect(),
            Sources::One(_) => Vec::new(),
        }
    }
}

async fn wait(member: usize, source: &mut Source) -> (usize, &mut Source, bool) {
    let more = source.more().await;
    (member, source, more)
}
