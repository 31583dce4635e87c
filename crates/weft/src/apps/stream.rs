//! Long reads and writes of a space of bytes, mostly a view, as requests of a bounded size with
//! several in flight.

use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use weft_client::OpenView;
use weft_layout::ViewOffset;

/// A linear space of bytes: a view, or what stands for one where there are no views.
pub(crate) trait Space: Send + Sync + 'static {
    /// Reads from byte `at` on. Returns the bytes that were there: what was not is left as it was.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> impl Future<Output = Result<u64>> + Send;

    /// Writes all of `data`; bytes that have no place are an error.
    fn write_all(&self, at: u64, data: Bytes) -> impl Future<Output = Result<()>> + Send;
}

impl Space for OpenView {
    async fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<u64> {
        Ok(OpenView::read_at(self, ViewOffset(at), buffer).await?)
    }

    async fn write_all(&self, at: u64, data: Bytes) -> Result<()> {
        write_all(self, at, data).await
    }
}

/// Fills `buffer` from byte `from` on, `piece` bytes a request. Returns the bytes that were there:
/// what was not is left as it was.
pub(crate) async fn read_into(
    space: &impl Space,
    from: u64,
    buffer: &mut [u8],
    (piece, in_flight): (usize, usize),
    progress: impl Fn(u64),
) -> Result<u64> {
    let progress = &progress;
    stream::iter(buffer.chunks_mut(piece.max(1)).enumerate())
        .map(|(i, part)| async move {
            let moved = space.read_at(from + (i * piece) as u64, part).await?;
            progress(part.len() as u64);
            Ok(moved)
        })
        .buffer_unordered(in_flight)
        .try_fold(0, |sum, moved| async move { Ok(sum + moved) })
        .await
}

/// Writes what a producer makes, from byte `from` on; the producer runs on a thread of its own.
///
/// The producer gives its pieces to a function that answers whether there is any use in going on.
/// Returns the bytes written and what the producer returned.
pub(crate) async fn write_from<T: Send + 'static>(
    space: Arc<impl Space>,
    from: u64,
    in_flight: usize,
    progress: impl Fn(u64),
    produce: impl FnOnce(&mut dyn FnMut(Vec<u8>) -> bool) -> T + Send + 'static,
) -> Result<(u64, T)> {
    let (give, mut pieces) = mpsc::channel::<Vec<u8>>(1);
    let producer = tokio::task::spawn_blocking(move || {
        produce(&mut |piece| give.blocking_send(piece).is_ok())
    });
    let mut next = from;
    let placed = stream::poll_fn(move |context| {
        pieces.poll_recv(context).map(|piece| {
            piece.map(|piece| {
                let at = next;
                next += piece.len() as u64;
                (at, piece)
            })
        })
    });
    let (space, progress) = (&space, &progress);
    let written = placed
        .map(|(at, piece)| async move {
            let length = piece.len() as u64;
            space.write_all(at, piece.into()).await?;
            progress(length);
            Ok::<u64, anyhow::Error>(length)
        })
        .buffer_unordered(in_flight)
        .try_fold(0, |sum, length| async move { Ok(sum + length) })
        .await?;
    Ok((written, producer.await?))
}

/// Writes all of `data`; bytes that a view swallows are an error.
pub(crate) async fn write_all(view: &OpenView, at: u64, data: Bytes) -> Result<()> {
    let length = data.len() as u64;
    let moved = view.write_at(ViewOffset(at), data).await?;
    if moved != length {
        bail!(
            "only {moved} of {length} bytes of {} have a place at offset {at} of the view",
            view.file().path()
        );
    }
    Ok(())
}
