//! The payload of a request.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use weft_proto::limits::{self, window_cost};

use crate::framing::Chunk;
use crate::server::call_table::CallTable;
use crate::server::reply_flow::ReplyFlow;

/// The payload of a call, as it arrives. Dropping it lets the rest go unread.
pub struct Payload {
    chunks: mpsc::UnboundedReceiver<Chunk>,
    calls: Arc<CallTable>,
    id: u64,
    flow: Arc<ReplyFlow>,
    /// Window of the chunks taken and not released.
    held: u64,
    /// Window released and not yet credited.
    uncredited: u64,
}

impl Payload {
    pub(in crate::server) fn new(
        calls: Arc<CallTable>,
        id: u64,
        flow: Arc<ReplyFlow>,
        chunks: mpsc::UnboundedReceiver<Chunk>,
    ) -> Self {
        Payload {
            chunks,
            calls,
            id,
            flow,
            held: 0,
            uncredited: 0,
        }
    }

    /// The next bytes; `None` at the end, and also when the caller is gone before it (so compare
    /// with the length that the request announced).
    ///
    /// The caller sends no more than its window until [`Payload::release`] is called.
    pub async fn next(&mut self) -> Option<Bytes> {
        Some(self.next_chunk().await?.bytes)
    }

    /// As [`Payload::next`], with checksums: the payload of one frame is one chunk.
    pub async fn next_chunk(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.recv().await?;
        self.held += window_cost(chunk.bytes.len());
        Some(chunk)
    }

    /// Lets the client send as much again as was taken so far. Call it when all that memory is
    /// free.
    pub fn release(&mut self) {
        self.give_back(self.held);
    }

    /// Lets the client send as much again as one chunk of this length, for services that hold
    /// several at a time.
    pub fn release_chunk(&mut self, len: usize) {
        self.give_back(window_cost(len).min(self.held));
    }

    fn give_back(&mut self, cost: u64) {
        self.held -= cost;
        self.uncredited += cost;
        // Credits are gathered into few frames: no caller runs out of window for less than that.
        if self.uncredited >= u64::from(limits::CREDIT_MAX) {
            let credit = std::mem::take(&mut self.uncredited);
            self.calls.release(self.id, &self.flow, credit);
        }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.chunks.close();
        while let Ok(chunk) = self.chunks.try_recv() {
            self.held += window_cost(chunk.bytes.len());
        }
        self.release();
    }
}
