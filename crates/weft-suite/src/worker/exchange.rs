//! What programs write by hand where a file system has no collectives: two-phase I/O. The processes
//! first exchange their bytes among themselves, so that each holds one contiguous share of the
//! file, and then each moves its share by one call; or the other way round.
//!
//! The ranges that each process sends are computed before the clock runs, in favour of the
//! exchange.

use std::net::Ipv4Addr;

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weft_client::OpenView;
use weft_layout::ViewOffset;

use super::posix_file::runs_of;
use crate::content::Calls;
use crate::error::SuiteError;
use crate::task::Partners;
use crate::workload::{FileShape, Workload};

/// A run of bytes in one memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryRange {
    at: usize,
    length: usize,
}

/// One process's side of an exchange, connected.
pub(crate) struct Exchange {
    me: usize,
    /// The first byte of this process's share in the file.
    from: u64,
    /// By partner: bytes of this process that lie in the partner's share, in the order they are
    /// sent.
    theirs: Vec<Vec<MemoryRange>>,
    /// By partner: its bytes that lie in this process's share.
    mine: Vec<Vec<MemoryRange>>,
    /// By partner, none to itself.
    streams: Vec<Option<TcpStream>>,
    share: Vec<u8>,
}

impl Exchange {
    /// Computes the ranges to exchange, and connects to all partners.
    pub(crate) async fn connect(
        partners: &Partners,
        shape: FileShape,
        listener: &TcpListener,
    ) -> Result<Exchange, SuiteError> {
        let several = partners.parts.len();
        let whole: u64 = partners.parts.iter().map(Workload::bytes).sum();
        let portion = whole.div_ceil(several as u64);
        let bounds = |of: usize| {
            let from = (of as u64 * portion).min(whole);
            from..(from + portion).min(whole)
        };
        let own = bounds(partners.me);
        let mut exchange = Exchange {
            me: partners.me,
            from: own.start,
            theirs: vec![Vec::new(); several],
            mine: vec![Vec::new(); several],
            streams: Vec::new(),
            share: vec![0; (own.end - own.start) as usize],
        };
        for (partner, part) in partners.parts.iter().enumerate() {
            for (at, memory, length) in runs_of(&Calls::new(part, shape)?, shape)? {
                for holder in 0..several {
                    let held = bounds(holder);
                    let (first, end) = (at.max(held.start), (at + length).min(held.end));
                    if first >= end {
                        continue;
                    }
                    let length = (end - first) as usize;
                    if partner == partners.me {
                        let at = memory + (first - at) as usize;
                        exchange.theirs[holder].push(MemoryRange { at, length });
                    }
                    if holder == partners.me {
                        let at = (first - held.start) as usize;
                        exchange.mine[partner].push(MemoryRange { at, length });
                    }
                }
            }
        }
        exchange.streams = streams(partners, listener).await?;
        Ok(exchange)
    }

    /// Sends every partner its bytes and writes this process's share.
    pub(crate) async fn write(
        &mut self,
        view: &OpenView,
        memory: &[u8],
    ) -> Result<u64, SuiteError> {
        let out = self
            .theirs
            .iter()
            .map(|cuts| gather(cuts, memory))
            .collect();
        let lengths: Vec<usize> = self.mine.iter().map(|c| length(c)).collect();
        let came = self.swap(out, &lengths).await?;
        let mut share = std::mem::take(&mut self.share);
        for (cuts, bytes) in self.mine.iter().zip(&came) {
            scatter(cuts, bytes, &mut share);
        }
        Ok(view
            .write_at(ViewOffset(self.from), Bytes::from(share))
            .await?)
    }

    /// Reads this process's share and sends every partner its bytes.
    pub(crate) async fn read(
        &mut self,
        view: &OpenView,
        memory: &mut [u8],
    ) -> Result<u64, SuiteError> {
        let mut share = std::mem::take(&mut self.share);
        let moved = view.read_at(ViewOffset(self.from), &mut share).await?;
        let out = self.mine.iter().map(|cuts| gather(cuts, &share)).collect();
        let lengths: Vec<usize> = self.theirs.iter().map(|c| length(c)).collect();
        let came = self.swap(out, &lengths).await?;
        for (cuts, bytes) in self.theirs.iter().zip(&came) {
            scatter(cuts, bytes, memory);
        }
        Ok(moved)
    }

    /// Sends each partner its bytes while theirs come.
    async fn swap(
        &mut self,
        mut out: Vec<Vec<u8>>,
        lengths: &[usize],
    ) -> Result<Vec<Vec<u8>>, SuiteError> {
        let own = std::mem::take(&mut out[self.me]);
        let pairs = self.streams.iter_mut().zip(out).zip(lengths);
        let swaps = pairs.map(|((stream, out), length)| async move {
            let Some(stream) = stream else {
                return Ok(Vec::new());
            };
            let mut came = vec![0; *length];
            let (mut read, mut write) = stream.split();
            tokio::try_join!(write.write_all(&out), read.read_exact(&mut came))?;
            std::io::Result::Ok(came)
        });
        let swapped = try_join_all(swaps).await;
        let mut came =
            swapped.map_err(SuiteError::local("cannot exchange with", "another client"))?;
        came[self.me] = own;
        Ok(came)
    }
}

/// A connection to each partner: to those before this one by calling, to those after it by being
/// called.
async fn streams(
    partners: &Partners,
    listener: &TcpListener,
) -> Result<Vec<Option<TcpStream>>, SuiteError> {
    let mut streams: Vec<Option<TcpStream>> = partners.ports.iter().map(|_| None).collect();
    let connected = async {
        for (partner, port) in partners.ports.iter().enumerate().take(partners.me) {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await?;
            stream.write_u32(partners.me as u32).await?;
            streams[partner] = Some(stream);
        }
        for _ in partners.me + 1..streams.len() {
            let (mut stream, _) = listener.accept().await?;
            let partner = stream.read_u32().await? as usize;
            let unknown = || std::io::Error::other("a stranger called");
            *streams.get_mut(partner).ok_or_else(unknown)? = Some(stream);
        }
        for stream in streams.iter().flatten() {
            stream.set_nodelay(true)?;
        }
        std::io::Result::Ok(())
    };
    connected
        .await
        .map_err(SuiteError::local("cannot connect to", "another client"))?;
    Ok(streams)
}

fn length(cuts: &[MemoryRange]) -> usize {
    cuts.iter().map(|c| c.length).sum()
}

fn gather(cuts: &[MemoryRange], memory: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(length(cuts));
    for cut in cuts {
        out.extend_from_slice(&memory[cut.at..cut.at + cut.length]);
    }
    out
}

fn scatter(cuts: &[MemoryRange], bytes: &[u8], memory: &mut [u8]) {
    let mut rest = bytes;
    for cut in cuts {
        let (head, tail) = rest.split_at(cut.length);
        memory[cut.at..cut.at + cut.length].copy_from_slice(head);
        rest = tail;
    }
}
