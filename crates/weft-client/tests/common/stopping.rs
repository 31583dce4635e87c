//! The network of a process that is stopped: its connections stay open and move nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_client::Volume;
use weft_net::{BoxRead, BoxWrite, Listener, Network, Opened, TcpNetwork};

use super::TestVolume;

/// The remaining I/O of a stopped process: three more steps in each direction, then nothing.
#[derive(Default)]
pub struct Stop {
    pub reads: Way,
    pub writes: Way,
}

#[derive(Default)]
pub struct Way {
    on: AtomicBool,
    passed: AtomicUsize,
}

impl Way {
    pub fn stop(&self) {
        self.on.store(true, Ordering::SeqCst);
    }

    fn passes(&self) -> bool {
        !self.on.load(Ordering::SeqCst) || self.passed.fetch_add(1, Ordering::SeqCst) < 3
    }
}

#[derive(Clone, Default)]
struct Stopping(Arc<Stop>);

struct Half<S>(S, Arc<Stop>);

impl AsyncRead for Half<BoxRead> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.1.reads.passes() {
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Half<BoxWrite> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.1.writes.passes() {
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_write(context, &bytes[..bytes.len().min(64 << 10)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Network for Stopping {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        async move {
            let opened = TcpNetwork.connect(address).await?;
            Ok(Opened {
                read: Box::new(Half(opened.read, self.0.clone())),
                write: Box::new(Half(opened.write, self.0.clone())),
                gauge: None,
            })
        }
        .boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        TcpNetwork.listen(address)
    }
}

impl TestVolume {
    /// A client that can be stopped and is not declared dead for two minutes.
    pub async fn stopping_client(&self) -> (Volume, Arc<Stop>) {
        let network = Stopping::default();
        let stop = network.0.clone();
        let mut options = self.options();
        options.env.network = Arc::new(network);
        options.env.timing.silence = Duration::from_mins(2);
        (Volume::connect(options).await.unwrap(), stop)
    }
}
