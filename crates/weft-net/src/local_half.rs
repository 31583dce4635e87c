//! The halves of a local socket, which wait for room only where there is none.
//!
//! The system's own streams are told of room after every piece that the peer takes out. Peers here
//! share processors, so each such word costs two switches between them, and nobody waits for it but
//! who found the socket full.

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

use crate::env::Opened;
use crate::half::budget;

/// A stream's halves.
pub(crate) fn open(stream: UnixStream) -> io::Result<Opened> {
    stream.set_nonblocking(true)?;
    // Now, and not when it is needed: without one, there is no connection rather than one that
    // breaks.
    let spare = OwnedFd::from(stream.try_clone()?);
    let stream = Arc::new(stream);
    // SAFETY: what is registered holds the stream, so its descriptor is open until that is dropped,
    // and always the same.
    let readable = unsafe { AsyncFd::register_with_interest(stream.clone(), Interest::READABLE) }?;
    Ok(Opened {
        read: Box::new(ReadHalf(readable)),
        write: Box::new(WriteHalf {
            stream,
            room: None,
            spare: Some(spare),
            runtime: Handle::current(),
        }),
        gauge: None,
    })
}

struct ReadHalf(AsyncFd<Arc<UnixStream>>);

/// The peer sees the end of the stream when it is dropped.
struct WriteHalf {
    stream: Arc<UnixStream>,
    /// Hears of room, from when the socket was full until all is written.
    room: Option<AsyncFd<OwnedFd>>,
    /// The descriptor to hear of it by: a poll set takes each once.
    spare: Option<OwnedFd>,
    /// Where the connection's tasks are, whoever writes.
    runtime: Handle,
}

fn is_for_later(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(budget(context));
        loop {
            let mut readable = ready!(self.0.poll_read_ready(context))?;
            // SAFETY: nothing is written there but what the kernel writes.
            let memory = unsafe { buffer.unfilled_mut() };
            let wanted = memory.len();
            let socket = SockRef::from(self.0.get_ref().as_ref());
            match socket.recv_vectored(&mut [MaybeUninitSlice::new(memory)]) {
                Err(e) if is_for_later(&e) => readable.clear_ready(),
                Err(e) => return Poll::Ready(Err(e)),
                Ok((n, _)) => {
                    // Less than was asked for: there is no more, and what comes is heard of.
                    if 0 < n && n < wanted {
                        readable.clear_ready();
                    }
                    // SAFETY: the kernel has written so many bytes.
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
        ready!(budget(context));
        loop {
            let socket = SockRef::from(self.stream.as_ref());
            let room = match &self.room {
                Some(room) => Some(ready!(room.poll_write_ready(context))?),
                None => None,
            };
            // A peer that is gone is an error here, not a signal to the program.
            let sent = socket.send_vectored_with_flags(slices, libc::MSG_NOSIGNAL);
            match sent {
                Err(e) if is_for_later(&e) => match room {
                    Some(mut room) => room.clear_ready(),
                    None => self.hear_of_room()?,
                },
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn hear_of_room(&mut self) -> io::Result<()> {
        let _here = self.runtime.enter();
        let descriptor = match self.spare.take() {
            Some(descriptor) => descriptor,
            // It was lost with a registration that failed.
            None => OwnedFd::from(self.stream.try_clone()?),
        };
        // SAFETY: the descriptor is owned by what is registered.
        self.room =
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
        if let Some(room) = this.room.take() {
            this.spare = Some(room.into_inner());
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_finds_no_room_is_written_when_there_is_some() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (open(ours).unwrap(), open(theirs).unwrap());
        let bytes: Vec<u8> = (0..8_u32 << 20).map(|n| (n % 251) as u8).collect();
        let sent = bytes.clone();
        let writing = tokio::spawn(async move {
            // More than any socket holds, twice: the second time the spare descriptor serves.
            for half in sent.chunks(4 << 20) {
                ours.write.write_all(half).await.unwrap();
                ours.write.flush().await.unwrap();
            }
            drop(ours.write);
            ours.read.read_to_end(&mut Vec::new()).await.unwrap()
        });
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert!(!writing.is_finished(), "nobody reads yet");
        let mut found = Vec::new();
        theirs.read.read_to_end(&mut found).await.unwrap();
        assert!(found == bytes);
        theirs.write.write_all(b"heard").await.unwrap();
        drop(theirs.write);
        assert_eq!(writing.await.unwrap(), 5);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut ours = open(ours).unwrap();
        drop(theirs);
        let error = ours.write.write_all(&[0; 10]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(ours.read.read(&mut [0; 10]).await.unwrap(), 0);
    }
}
