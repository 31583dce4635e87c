//! Long reads and writes of a byte space, usually a view, as bounded requests with several in
//! flight.

use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use weft_client::OpenView;
use weft_layout::ViewOffset;

/// A linear byte space: a view, or its replacement on file systems without views.
pub(crate) trait Space: Send + Sync + 'static {
    /// Reads from byte `at` on. Returns how many bytes exist; the buffer is unchanged where there
    /// are none.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> impl Future<Output = Result<u64>> + Send;

    /// Writes all of `data`. It is an error if some bytes have no place.
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

/// Fills `buffer` from byte `from` on, `piece` bytes a request. Returns how many bytes exist; the
/// buffer is unchanged where there are none.
pub(crate) async fn read_into(
    space: &impl Space,
    from: u64,
    buffer: &mut [u8],
    (piece, in_flight): (usize, usize),
    progress: impl Fn(u64),
) -> Result<u64> {
    let progress = &progress;
    stream::iter(buffer.chunks_mut(piece.max(1)).enumerate())
        .map(|(i, chunk)| async move {
            let moved = space.read_at(from + (i * piece) as u64, chunk).await?;
            progress(chunk.len() as u64);
            Ok(moved)
        })
        .buffer_unordered(in_flight)
        .try_fold(0, |sum, moved| async move { Ok(sum + moved) })
        .await
}

/// Writes the pieces of a producer, from byte `from` on. The producer runs on a separate thread.
///
/// The producer passes each piece to a function, which returns false once writing has failed.
/// Returns the bytes written and the producer's result.
pub(crate) async fn write_from<T: Send + 'static>(
    space: Arc<impl Space>,
    from: u64,
    in_flight: usize,
    progress: impl Fn(u64),
    produce: impl FnOnce(&mut dyn FnMut(Vec<u8>) -> bool) -> T + Send + 'static,
) -> Result<(u64, T)> {
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(1);
    let producer = tokio::task::spawn_blocking(move || {
        produce(&mut |piece| sender.blocking_send(piece).is_ok())
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

/// Writes all of `data` to a view. It is an error if the view discards some bytes.
pub(crate) async fn write_all(view: &OpenView, at: u64, data: Bytes) -> Result<()> {
    let length = data.len() as u64;
    let moved = view.write_at(ViewOffset(at), data).await?;
    if moved != length {
        bail!(
            "only {moved} of {length} bytes have a place at offset {at} of the view of {}",
            view.file().path()
        );
    }
    Ok(())
}
