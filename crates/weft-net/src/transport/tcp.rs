//! Streams over TCP.

use std::io;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};

use super::network::{Accepted, Listener, Network, Opened};
use super::tcp_stream;

/// Streams over TCP and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct TcpNetwork;

impl Network for TcpNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        async move { tcp_stream::open(TcpStream::connect(address).await?) }.boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move { Ok(Box::new(TcpListener::bind(address).await?) as Box<dyn Listener>) }.boxed()
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Accepted>> {
        async move {
            let (stream, peer) = TcpListener::accept(self).await?;
            let opened = tcp_stream::open(stream)?;
            Ok(Accepted {
                read: opened.read,
                write: opened.write,
                peer: peer.to_string(),
                local: false,
                process: None,
            })
        }
        .boxed()
    }

    fn address(&self) -> io::Result<String> {
        Ok(self.local_addr()?.to_string())
    }
}
