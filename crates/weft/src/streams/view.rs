//! Streams a view's data with several requests in flight and bounded memory.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use indicatif::ProgressBar;
use tokio::task::{JoinHandle, block_in_place};
use weft_client::{Error, OpenView};
use weft_layout::ViewOffset;

use super::blocking::{blocking, panicked};
use super::buffers::{Buffer, Buffers};

use crate::limits::{STREAM_REQUEST_BYTES, STREAM_REQUESTS_MAX};

/// Reads bytes of a view; where the view holds no data, buffers hold zeros.
pub(crate) struct ZeroedReader {
    view: Arc<OpenView>,
    /// A read was short, so the view has bytes without data: buffers are cleared before reading.
    short: AtomicBool,
}

impl ZeroedReader {
    pub(crate) fn new(view: Arc<OpenView>) -> ZeroedReader {
        ZeroedReader {
            view,
            short: AtomicBool::new(false),
        }
    }

    /// Whether any read so far returned fewer bytes than it asked for, because the view has no data
    /// there or the file was truncated.
    pub(crate) fn came_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Fills `buffer` with the view's bytes from `offset` on.
    ///
    /// Clearing a buffer costs a good part of a read, and most files never need it: only a read
    /// beyond a cell's end leaves bytes unset. So the first short read is repeated into a cleared
    /// buffer, and from then on all buffers are cleared.
    pub(crate) async fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len() as u64;
        if !self.short.load(Ordering::Relaxed) {
            if self.view.read_at(ViewOffset(offset), buffer).await? == length {
                return Ok(());
            }
            self.short.store(true, Ordering::Relaxed);
        }
        buffer.fill(0);
        self.view.read_at(ViewOffset(offset), buffer).await?;
        Ok(())
    }
}

/// Writes view bytes `start..end` to `sink`, with reads of `step` bytes; ranges without data are
/// zeros.
pub(crate) async fn read_out(
    view: Arc<OpenView>,
    start: u64,
    end: u64,
    step: usize,
    sink: &mut (impl Write + Send),
) -> Result<()> {
    let depth = if step > STREAM_REQUEST_BYTES {
        1
    } else {
        STREAM_REQUESTS_MAX
    };
    let buffers = Buffers::new(depth + 1, step);
    let reader = Arc::new(ZeroedReader::new(view));
    let mut reads: FuturesOrdered<JoinHandle<Result<Buffer, Error>>> = FuturesOrdered::new();
    let mut next = start;
    loop {
        while next < end && reads.len() < depth {
            let length = (end - next).min(step as u64) as usize;
            let mut buffer = buffers.take(length).await;
            let (reader, offset) = (reader.clone(), next);
            reads.push_back(tokio::spawn(async move {
                reader.fill(offset, &mut buffer).await.map(|()| buffer)
            }));
            next += length as u64;
        }
        let Some(read) = reads.next().await else {
            break;
        };
        let buffer = read.map_err(|e| panicked(&e))??;
        block_in_place(|| sink.write_all(&buffer)).context("cannot write to standard output")?;
    }
    block_in_place(|| sink.flush()).context("cannot write to standard output")
}

/// Writes what `source` yields, at most `limit` bytes, to view bytes `start..`. `bar` advances to
/// the length of the prefix that is written.
///
/// # Cancellation
/// A pending read of `source` keeps waiting for input on its own thread.
pub(crate) async fn write_in(
    view: Arc<OpenView>,
    start: u64,
    limit: Option<u64>,
    mut source: impl Read + Send + 'static,
    bar: &ProgressBar,
) -> Result<()> {
    let buffers = Buffers::new(STREAM_REQUESTS_MAX + 1, STREAM_REQUEST_BYTES);
    let mut writes: FuturesOrdered<JoinHandle<Result<u64, Error>>> = FuturesOrdered::new();
    let mut total = 0;
    loop {
        let wanted = limit
            .map_or(STREAM_REQUEST_BYTES as u64, |limit| limit - total)
            .min(STREAM_REQUEST_BYTES as u64) as usize;
        let mut buffer = buffers.take(wanted).await;
        let read = blocking(move || {
            let got = read_full(&mut source, &mut buffer)?;
            Ok((source, buffer, got))
        });
        let got;
        (source, buffer, got) = read.await.context("cannot read standard input")?;
        if got == 0 {
            break;
        }
        buffer.truncate(got);
        let (view, offset) = (view.clone(), start + total);
        let data = buffer.freeze();
        writes.push_back(tokio::spawn(async move {
            view.write_at(ViewOffset(offset), data).await?;
            Ok(got as u64)
        }));
        total += got as u64;
        if writes.len() >= STREAM_REQUESTS_MAX
            && let Some(done) = writes.next().await
        {
            bar.inc(done.map_err(|e| panicked(&e))??);
        }
    }
    while let Some(done) = writes.next().await {
        bar.inc(done.map_err(|e| panicked(&e))??);
    }
    Ok(())
}

/// Reads until the buffer is full or the source ends.
fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
