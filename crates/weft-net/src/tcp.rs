//! The real seams: TCP, the system's clock and randomness.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};

use crate::env::{Accepted, Entropy, Listener, Network, Opened, WallClock};
use crate::half;

/// Streams over TCP and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct TcpNetwork;

impl Network for TcpNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        async move { half::open(TcpStream::connect(address).await?) }.boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move { Ok(Box::new(TcpListener::bind(address).await?) as Box<dyn Listener>) }.boxed()
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Accepted>> {
        async move {
            let (stream, peer) = TcpListener::accept(self).await?;
            let opened = half::open(stream)?;
            Ok(Accepted {
                read: opened.read,
                write: opened.write,
                peer: peer.to_string(),
                local: false,
            })
        }
        .boxed()
    }

    fn address(&self) -> io::Result<String> {
        Ok(self.local_addr()?.to_string())
    }
}

/// The system's time of day.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The system's randomness.
#[derive(Clone, Copy, Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, out: &mut [u8]) {
        getrandom::fill(out).expect("the system has randomness");
    }
}
