//! Writes that a policy delays, and names that a callback has fetched.

use std::any::Any;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use weft_layout::{Endless, Request, ServerSlot, View, ViewOffset, bytes_of};
use weft_policy::Touched;

use super::span::{Durability, Source};
use crate::file::Waiting;
use crate::limits::{NAMED_CHUNKS_MAX, NAMES_KEPT_MAX};
use crate::policy::Kept;
use crate::{Error, File, OpenView};

/// What a source takes beside its bytes.
const SOURCE_COST: u64 = 128;

/// A write that waits.
struct DelayedWrite {
    view: OpenView,
    request: Request,
    /// Those of contiguous requests that follow one another.
    sources: Vec<Source>,
    ordered: bool,
}

/// Where a contiguous request begins and ends.
fn ends(request: &Request) -> Option<(u64, u64)> {
    match request {
        Request::Contiguous { offset, length } => Some((offset.0, offset.0 + length)),
        _ => None,
    }
}

/// The bytes of a source in order.
fn parts(source: &Source) -> Vec<Bytes> {
    let (mut at, mut all) = (0, Vec::new());
    while at < source.len() {
        let (bytes, range) = source.find(at, source.len() - at);
        at += range.len() as u64;
        all.push(bytes.slice(range));
    }
    all
}

impl Waiting for DelayedWrite {
    fn bytes(&self) -> u64 {
        let bytes: u64 = self.sources.iter().map(Source::len).sum();
        bytes + self.sources.len() as u64 * SOURCE_COST
    }

    fn join(&mut self, next: Box<dyn Waiting>) -> Option<Box<dyn Waiting>> {
        let any: &dyn Any = &*next;
        let follows = any.downcast_ref::<DelayedWrite>().is_some_and(|next| {
            let meets = ends(&self.request)
                .zip(ends(&next.request))
                .is_some_and(|((_, end), (begin, _))| end == begin);
            meets && self.view.fork == next.view.fork && self.view.view() == next.view.view()
        });
        if !follows {
            return Some(next);
        }
        let any: Box<dyn Any> = next;
        if let Ok(mut next) = any.downcast::<DelayedWrite>()
            && let (Request::Contiguous { length, .. }, Some((begin, end))) =
                (&mut self.request, ends(&next.request))
        {
            *length += end - begin;
            self.sources.append(&mut next.sources);
        }
        None
    }

    fn send(mut self: Box<Self>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
        Box::pin(async move {
            let source = match self.sources.len() {
                1 => self.sources.remove(0),
                _ => Source::parts(self.sources.iter().flat_map(parts)),
            };
            let slots = self.view.map.slots(&self.request)?;
            let durability = Durability::Process;
            let view = &self.view;
            let sent = view.write_now(&self.request, &slots, source, durability, self.ordered);
            sent.await.map(drop)
        })
    }
}

impl OpenView {
    /// Keeps a write for later. Returns how many bytes it will move.
    pub(super) async fn write_later(
        &self,
        request: &Request,
        slots: &[ServerSlot],
        source: Source,
        ordered: bool,
        delay: Duration,
    ) -> Result<u64, Error> {
        let mut moved = 0;
        for slot in slots {
            moved += bytes_of(self.map.pieces(request, *slot)?, Endless);
        }
        let write = DelayedWrite {
            view: OpenView::new(self.file.clone(), self.map, &self.fork),
            request: request.clone(),
            sources: vec![source],
            ordered,
        };
        self.file.delay(Box::new(write), delay).await?;
        Ok(moved)
    }

    /// What a request touches, for a plug-in.
    pub(super) fn touched(&self, request: &Request) -> Touched {
        let whole = *self.map.view() == View::canonical() && self.fork == "data";
        let (offset, end) = match request {
            Request::Contiguous { offset, length } => (offset.0, offset.0.saturating_add(*length)),
            _ => (0, request.end()),
        };
        Touched {
            offset,
            bytes: request.memory(),
            canonical: whole.then_some(offset..end),
        }
    }
}

impl File {
    /// Asks for the names of canonical bytes, for the caches, as many as those keep. A failure is
    /// that of the read that needs them.
    pub(crate) async fn fetch_names(&self, start: u64, end: u64) {
        if self.values().names == Kept::None {
            return;
        }
        let fetched = async {
            let known = if self.knows_end() {
                self.known_end()
            } else {
                self.size().await?
            };
            let size = u64::from(self.layout().chunk());
            let most = self.0.volume.shared.chunks.most() / 2;
            let step = most.min(NAMED_CHUNKS_MAX * size / 2).max(size);
            let end = end
                .min(known)
                .min(start.saturating_add(NAMES_KEPT_MAX as u64 * size));
            let view = self.canonical()?;
            let mut at = start;
            while at < end {
                let length = step.min(end - at);
                view.fetch_names_of(at, length).await?;
                at += length;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = fetched.await {
            tracing::debug!(path = %self.path(), %error, "names are not fetched");
        }
    }
}

impl OpenView {
    async fn fetch_names_of(&self, start: u64, length: u64) -> Result<(), Error> {
        let offset = ViewOffset(start);
        let request = Request::Contiguous { offset, length };
        let slots = self.map.slots(&request)?;
        if let Some(slots) = self.chunks_of(&request, &slots)? {
            let kept = self.file.values().names;
            self.names_of(&request, &slots, kept).await?;
        }
        Ok(())
    }
}
