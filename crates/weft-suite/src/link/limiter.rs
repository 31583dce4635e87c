//! A network whose streams share one link: a token bucket each way.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use weft_net::{Accepted, Listener, Network, Opened};

/// What passes at once, at most: a stream must not keep the link from others for long.
const AT_ONCE: usize = 64 << 10;
/// How much an idle link may pass without waiting.
const BURST: f64 = 128.0 * 1024.0;

/// Streams that are accepted through a link of limited bandwidth. Those that are opened are not
/// limited: a server opens none but for its heartbeat.
pub struct LimitedNetwork {
    below: Arc<dyn Network>,
    link: Link,
}

#[derive(Clone)]
struct Link {
    inward: Arc<Bucket>,
    outward: Arc<Bucket>,
}

/// When the link will have passed everything that was sent over it.
struct Bucket {
    bytes_per_second: f64,
    free: Mutex<Option<Instant>>,
}

impl LimitedNetwork {
    /// Limits what is accepted through `below` to so many bytes per second, each way.
    pub fn new(below: Arc<dyn Network>, bytes_per_second: u64) -> LimitedNetwork {
        let bucket = || {
            Arc::new(Bucket {
                bytes_per_second: bytes_per_second.max(1) as f64,
                free: Mutex::new(None),
            })
        };
        let link = Link {
            inward: bucket(),
            outward: bucket(),
        };
        LimitedNetwork { below, link }
    }
}

impl Network for LimitedNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        self.below.connect(address)
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = LimitedListener {
                below: self.below.listen(address).await?,
                link: self.link.clone(),
            };
            Ok(Box::new(listener) as Box<dyn Listener>)
        }
        .boxed()
    }
}

struct LimitedListener {
    below: Box<dyn Listener>,
    link: Link,
}

impl Listener for LimitedListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Accepted>> {
        async move {
            let accepted = self.below.accept().await?;
            let read = Limited::new(accepted.read, self.link.inward.clone());
            let write = Limited::new(accepted.write, self.link.outward.clone());
            Ok(Accepted {
                read: Box::new(read),
                write: Box::new(write),
                ..accepted
            })
        }
        .boxed()
    }

    fn address(&self) -> io::Result<String> {
        self.below.address()
    }
}

impl Bucket {
    /// Puts bytes on the link; returns how long the sender has to wait.
    fn pass(&self, bytes: usize) -> Duration {
        let now = Instant::now();
        let credit = Duration::from_secs_f64(BURST / self.bytes_per_second);
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // An idle link has its burst again.
        let earliest = now.checked_sub(credit).unwrap_or(now);
        let from = free.map_or(earliest, |free| free.max(earliest));
        *free = Some(from + takes);
        (from + takes).saturating_duration_since(now)
    }
}

/// One way of a stream.
struct Limited<S> {
    stream: S,
    bucket: Arc<Bucket>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Limited<S> {
    fn new(stream: S, bucket: Arc<Bucket>) -> Limited<S> {
        Limited {
            stream,
            bucket,
            waiting: None,
        }
    }

    fn poll_free(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        }
        Poll::Ready(())
    }

    fn passed(&mut self, bytes: usize) {
        let wait = self.bucket.pass(bytes);
        if !wait.is_zero() {
            self.waiting = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_free(context));
        let most = buffer.remaining().min(AT_ONCE);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        self.passed(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_free(context));
        let part = &data[..data.len().min(AT_ONCE)];
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, part))?;
        self.passed(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use weft_net::TcpNetwork;

    use super::*;

    /// The duration of two concurrent streams through one link.
    async fn two_streams(bytes_per_second: u64, bytes: usize, back: bool) -> Duration {
        let network = LimitedNetwork::new(Arc::new(TcpNetwork), bytes_per_second);
        let mut listener = network.listen("127.0.0.1:0").await.unwrap();
        let address = listener.address().unwrap();
        let began = std::time::Instant::now();
        let mut ends = Vec::new();
        for _ in 0..2 {
            let mut near = network.connect(&address).await.unwrap();
            let mut far = listener.accept().await.unwrap();
            ends.push(tokio::spawn(async move {
                let (from, to) = if back {
                    (&mut far.write, &mut near.read)
                } else {
                    (&mut near.write, &mut far.read)
                };
                let data = vec![7; bytes];
                let mut found = vec![0; bytes];
                let (sent, read) = tokio::join!(from.write_all(&data), to.read_exact(&mut found));
                sent.unwrap();
                read.unwrap();
                assert_eq!(data, found);
            }));
        }
        for end in ends {
            end.await.unwrap();
        }
        began.elapsed()
    }

    #[tokio::test]
    async fn streams_share_the_link_in_each_direction() {
        // 1 MiB at 4 MiB/s takes 0.22 s, because the first 128 KiB are free.
        for back in [false, true] {
            let took = two_streams(4 << 20, 512 << 10, back).await.as_secs_f64();
            assert!((0.2..1.0).contains(&took), "{took} s");
        }
    }
}
