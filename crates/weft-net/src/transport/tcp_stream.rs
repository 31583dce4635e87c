//! The halves of a TCP stream, and what the kernel knows of the bytes in flight.
//!
//! The halves of tokio's `into_split` keep the socket to themselves; the gauge needs it, too.

#![allow(unsafe_code, reason = "no library asks a socket for all of TCP_INFO")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::network::Opened;
use crate::limits::TCP_KEEPALIVE;

/// Splits a stream into its halves and its gauge.
pub(super) fn open(stream: TcpStream) -> io::Result<Opened> {
    stream.set_nodelay(true)?;
    // Half-open connections end even without calls: the peer's machine may be gone.
    let keepalive = TcpKeepalive::new().with_time(TCP_KEEPALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    let stream = Arc::new(stream);
    let weak = Arc::downgrade(&stream);
    Ok(Opened {
        read: Box::new(ReadHalf(stream.clone())),
        write: Box::new(WriteHalf(stream)),
        gauge: Some(Box::new(move || acknowledged(weak.upgrade()?.as_ref()))),
    })
}

struct ReadHalf(Arc<TcpStream>);

/// The peer sees the end of the stream when this half is dropped.
struct WriteHalf(Arc<TcpStream>);

/// Makes a task that always finds its stream ready let others run, as tokio's streams do.
pub(super) fn poll_budget(context: &mut Context<'_>) -> Poll<()> {
    pin!(consume_budget()).poll(context)
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(poll_budget(context));
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read_buf(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other.map(|_| ())),
            }
        }
    }
}

impl WriteHalf {
    fn poll_with(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        ready!(poll_budget(context));
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match write(&self.0) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.0.as_ref()).shutdown(Shutdown::Write))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // An error means that the stream has ended already.
        let _ = SockRef::from(self.0.as_ref()).shutdown(Shutdown::Write);
    }
}

/// The bytes that the peer's machine has acknowledged, while others are in flight.
fn acknowledged(stream: &TcpStream) -> Option<u64> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as `stream` is borrowed, and the kernel writes at
    // most `length` bytes.
    let asked = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: any bytes are a `tcp_info`, and all of it was zeros before the kernel wrote.
    let info = unsafe { info.assume_init() };
    let in_flight = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
    (asked == 0 && in_flight).then_some(info.tcpi_bytes_acked)
}
