//! The halves of a local socket, which register for write readiness only while the socket is full.
//!
//! Tokio's streams are woken after every piece that the peer reads. Peers here share processors, so
//! each such wake-up costs two context switches, and only a writer that found the socket full needs
//! it.

#![allow(
    unsafe_code,
    reason = "a ReadBuf takes what was read into it in no other way, nor does a poll set a descriptor"
)]

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::{MaybeUninitSlice, SockRef};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::runtime::Handle;

use super::network::Opened;
use super::tcp_stream::poll_budget;

/// Splits a stream into its halves.
pub(super) fn open(stream: UnixStream) -> io::Result<Opened> {
    stream.set_nonblocking(true)?;
    // Duplicated now, so that a process out of descriptors fails to connect instead of breaking a
    // connection later.
    let spare = OwnedFd::from(stream.try_clone()?);
    let stream = Arc::new(stream);
    // SAFETY: the registered value holds the stream, so the descriptor stays open and the same
    // until that value is dropped.
    let readable = unsafe { AsyncFd::register_with_interest(stream.clone(), Interest::READABLE) }?;
    Ok(Opened {
        read: Box::new(ReadHalf(readable)),
        write: Box::new(WriteHalf {
            stream,
            writable: None,
            spare: Some(spare),
            runtime: Handle::current(),
        }),
        gauge: None,
    })
}

struct ReadHalf(AsyncFd<Arc<UnixStream>>);

/// The peer sees the end of the stream when this half is dropped.
struct WriteHalf {
    stream: Arc<UnixStream>,
    /// Registered for write readiness from the moment the socket is full until all is written.
    writable: Option<AsyncFd<OwnedFd>>,
    /// The descriptor for that registration: a poll set takes each descriptor once.
    spare: Option<OwnedFd>,
    /// The runtime of the connection's tasks, from whichever thread a write comes.
    runtime: Handle,
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(poll_budget(context));
        loop {
            let mut readable = ready!(self.0.poll_read_ready(context))?;
            // SAFETY: only the kernel writes there, and only initialized bytes.
            let memory = unsafe { buffer.unfilled_mut() };
            let wanted = memory.len();
            let socket = SockRef::from(self.0.get_ref().as_ref());
            match socket.recv_vectored(&mut [MaybeUninitSlice::new(memory)]) {
                Err(e) if would_block(&e) => readable.clear_ready(),
                Err(e) => return Poll::Ready(Err(e)),
                Ok((n, _)) => {
                    // A short read emptied the socket; the next bytes wake this task.
                    if 0 < n && n < wanted {
                        readable.clear_ready();
                    }
                    // SAFETY: the kernel has written `n` bytes.
                    unsafe { buffer.assume_init(n) };
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl WriteHalf {
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(poll_budget(context));
        loop {
            let socket = SockRef::from(self.stream.as_ref());
            let writable = match &self.writable {
                Some(writable) => Some(ready!(writable.poll_write_ready(context))?),
                None => None,
            };
            // A peer that is gone is an error here, not a signal to the program.
            let sent = socket.send_vectored_with_flags(slices, libc::MSG_NOSIGNAL);
            match sent {
                Err(e) if would_block(&e) => match writable {
                    Some(mut writable) => writable.clear_ready(),
                    None => self.register_writable()?,
                },
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn register_writable(&mut self) -> io::Result<()> {
        let _runtime = self.runtime.enter();
        let descriptor = match self.spare.take() {
            Some(descriptor) => descriptor,
            // A registration that failed has dropped it.
            None => OwnedFd::from(self.stream.try_clone()?),
        };
        // SAFETY: the registered value owns the descriptor.
        self.writable =
            Some(unsafe { AsyncFd::register_with_interest(descriptor, Interest::WRITABLE) }?);
        Ok(())
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_send(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(writable) = this.writable.take() {
            this.spare = Some(writable.into_inner());
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // An error means that the stream has ended already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_write_to_a_full_socket_resumes_when_the_peer_reads() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (open(ours).unwrap(), open(theirs).unwrap());
        let bytes: Vec<u8> = (0..8_u32 << 20).map(|n| (n % 251) as u8).collect();
        let sent = bytes.clone();
        let writing = tokio::spawn(async move {
            // Each write exceeds any socket buffer: the second one reuses the spare descriptor.
            for half in sent.chunks(4 << 20) {
                ours.write.write_all(half).await.unwrap();
                ours.write.flush().await.unwrap();
            }
            drop(ours.write);
            ours.read.read_to_end(&mut Vec::new()).await.unwrap()
        });
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert!(
            !writing.is_finished(),
            "the write waits for the peer to read"
        );
        let mut found = Vec::new();
        theirs.read.read_to_end(&mut found).await.unwrap();
        assert!(found == bytes);
        theirs.write.write_all(b"heard").await.unwrap();
        drop(theirs.write);
        assert_eq!(writing.await.unwrap(), 5);
    }

    #[tokio::test]
    async fn writing_to_a_closed_peer_fails() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut ours = open(ours).unwrap();
        drop(theirs);
        let error = ours.write.write_all(&[0; 10]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(ours.read.read(&mut [0; 10]).await.unwrap(), 0);
    }
}
