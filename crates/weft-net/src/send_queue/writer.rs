//! The stream of a queue and the batch that is being written to it.

use std::io::{Error, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::frame::EncodedFrame;
use super::lanes::Lanes;
use crate::counters::Counters;
use crate::limits::{WRITE_BYTES, WRITE_SLICES};
use crate::protection::Sealer;
use crate::transport::BoxWrite;

/// The stream and the frames that were taken from the queue for it.
pub(super) struct StreamWriter {
    stream: BoxWrite,
    sealer: Option<Sealer>,
    batch: Vec<EncodedFrame>,
    /// Bytes of the batch that were written.
    written: usize,
}

impl StreamWriter {
    pub(super) fn new(stream: BoxWrite) -> Self {
        StreamWriter {
            stream,
            sealer: None,
            batch: Vec::new(),
            written: 0,
        }
    }

    /// Whether all frames that it took were written.
    pub(super) fn is_idle(&self) -> bool {
        self.batch.is_empty()
    }

    /// Protects frames with `sealer` from now on, if there is one.
    pub(super) fn protect(&mut self, sealer: Option<Sealer>) {
        self.sealer = sealer.or(self.sealer.take());
    }

    /// Adds one frame to the batch.
    pub(super) fn push(&mut self, frame: EncodedFrame) {
        self.batch.push(frame);
    }

    /// Fills the batch with the frames that leave next.
    pub(super) fn fill(&mut self, lanes: &mut Lanes) {
        let (mut slices, mut bytes) = (0, 0);
        while slices < WRITE_SLICES && bytes < WRITE_BYTES {
            let Some(frame) = lanes.pop() else { break };
            slices += frame.slices_max();
            bytes += frame.bytes;
            self.batch.push(frame);
        }
    }

    /// The batch's share of the bulk lane's budget.
    pub(super) fn bulk_bytes(&self) -> usize {
        self.batch.iter().map(|frame| frame.bulk_bytes).sum()
    }

    /// Protects, counts and announces the batch, before its first byte is written.
    pub(super) fn begin(&mut self, counters: &Counters) {
        for frame in self.batch.iter_mut().filter(|frame| frame.protected) {
            let Some(sealer) = &mut self.sealer else {
                unreachable!("frames are marked as protected when the sealer is set")
            };
            frame.seal(sealer);
        }
        for frame in &mut self.batch {
            counters.sent(frame.bytes);
            if let Some(before_write) = frame.before_write.take() {
                before_write();
            }
        }
    }

    /// Writes the batch as far as the stream takes it; ready, with an empty batch, when all of it
    /// is written.
    pub(super) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let all = || self.batch.iter().flat_map(EncodedFrame::slices);
        let total: usize = all().map(<[u8]>::len).sum();
        let mut slices: Vec<IoSlice<'_>> = all().map(IoSlice::new).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, self.written);
        while self.written < total {
            let n = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, rest))?;
            if n == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.written += n;
            IoSlice::advance_slices(&mut rest, n);
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        drop(slices);
        self.batch.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    pub(super) fn into_stream(self) -> BoxWrite {
        self.stream
    }
}
