//! A network that passes so many bytes to each server, and is then broken.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use weft_net::{BoxWrite, Listener, Network, Opened, TcpNetwork};

/// The bytes that still pass, by address. No entry: all.
#[derive(Clone, Default)]
pub struct Budgets(Arc<Mutex<HashMap<String, usize>>>);

impl Budgets {
    pub fn set(&self, address: &str, bytes: usize) {
        self.0.lock().insert(address.to_owned(), bytes);
    }
}

struct Bounded {
    write: BoxWrite,
    address: String,
    budgets: Budgets,
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Bounded {
            write,
            address,
            budgets,
        } = &mut *self;
        let mut budgets = budgets.0.lock();
        let budget = budgets.get_mut(address);
        let most = budget.as_ref().map_or(usize::MAX, |budget| **budget);
        if most == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(write).poll_write(context, &bytes[..bytes.len().min(most)]);
        if let (Poll::Ready(Ok(written)), Some(budget)) = (&written, budget) {
            *budget -= written;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(context)
    }
}

impl Network for Budgets {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        async move {
            let opened = TcpNetwork.connect(address).await?;
            let write = Bounded {
                write: opened.write,
                address: address.to_owned(),
                budgets: self.clone(),
            };
            Ok(Opened {
                write: Box::new(write),
                ..opened
            })
        }
        .boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        TcpNetwork.listen(address)
    }
}
