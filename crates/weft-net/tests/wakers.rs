//! Callers whose waker resumes them at once, as those of the mount do: it spawns the caller's
//! future into a runtime. A runtime that ends drops the future at once, with its calls in flight.

use crate::common;

use std::pin::Pin;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use common::*;
use futures_util::future::join;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;
use weft_net::{Bounds, Connection};
use weft_proto::Kind;
use weft_proto::io::SyncRequest;

type Caller = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Spawns its caller into a runtime that has ended.
struct IntoEnded {
    runtime: Handle,
    caller: Mutex<Option<Caller>>,
    woken: Arc<Semaphore>,
}

impl Wake for IntoEnded {
    fn wake(self: Arc<Self>) {
        let caller = self.caller.lock().unwrap().take();
        if let Some(caller) = caller {
            drop(self.runtime.spawn(caller));
            self.woken.add_permits(1);
        }
    }
}

/// Polls `caller` once; its waker then drops it.
fn begin(caller: impl Future<Output = ()> + Send + 'static, woken: &Arc<Semaphore>) {
    let runtime = {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        handle
    };
    let waker = Arc::new(IntoEnded {
        runtime,
        caller: Mutex::new(None),
        woken: woken.clone(),
    });
    let mut caller: Caller = Box::pin(caller);
    let polled = caller
        .as_mut()
        .poll(&mut Context::from_waker(&Waker::from(waker.clone())));
    assert!(polled.is_pending(), "the caller waits for the server");
    *waker.caller.lock().unwrap() = Some(caller);
}

/// Runs a test in a thread of its own: a lock that is never released would block its runtime,
/// including the timers.
fn without_hanging<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (done, heard) = std::sync::mpsc::channel();
    let running = std::thread::spawn(move || {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(test());
        done.send(()).unwrap();
    });
    match heard.recv_timeout(TEST_TIMEOUT) {
        Err(RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => running.join().unwrap(),
    }
}

/// A server with one place per connection that answers one `Sync` per permit of `go`, and a
/// connection to it.
async fn one_place(go: Arc<Semaphore>) -> (Server, Connection) {
    let bounds = Bounds {
        calls: 1,
        ..Bounds::default()
    };
    let options = Options {
        bounds,
        ..Options::default()
    };
    let server = Server::start(options, move |call| {
        let go = go.clone();
        async move {
            if call.kind == Kind::Sync {
                go.acquire().await.unwrap().forget();
                let file = call.request::<SyncRequest>().unwrap().file;
                call.reply.done(&sync_reply(file));
            } else {
                standard(call).await;
            }
        }
    })
    .await;
    let connection = server.connect().await;
    (server, connection)
}

fn call(connection: &Connection, file: u64) -> impl Future<Output = ()> + Send + 'static {
    let connection = connection.clone();
    async move {
        let _ = connection.call(&sync(file)).await;
    }
}

/// A future with one call in flight and a second call that waits for its place.
fn two_calls(connection: &Connection) -> impl Future<Output = ()> + Send + 'static {
    let both = join(call(connection, 1), call(connection, 2));
    async move {
        both.await;
    }
}

async fn taken(woken: &Semaphore) {
    within(woken.acquire()).await.unwrap().forget();
}

#[test]
fn a_reply_to_a_caller_without_a_runtime_blocks_no_other_call() {
    without_hanging(|| async {
        let (go, woken) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (_server, connection) = one_place(go.clone()).await;
        begin(call(&connection, 1), &woken);
        go.add_permits(2);
        taken(&woken).await;
        assert_eq!(connection.call(&sync(2)).await.unwrap(), sync_reply(2));
    });
}

#[test]
fn a_place_for_a_caller_without_a_runtime_blocks_no_other_call() {
    without_hanging(|| async {
        let (go, woken) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (_server, connection) = one_place(go.clone()).await;
        begin(two_calls(&connection), &woken);
        go.add_permits(3);
        taken(&woken).await;
        assert_eq!(connection.call(&sync(3)).await.unwrap(), sync_reply(3));
    });
}

#[test]
fn credit_for_a_caller_without_a_runtime_blocks_no_other_call() {
    without_hanging(|| async {
        let (listener, address) = listener().await;
        let env = by_tcp();
        let (connection, mut raw) =
            tokio::join!(connect(&env, &address), Raw::accept(&listener, 0, 2));
        let (connection, woken) = (connection.unwrap(), Arc::new(Semaphore::new(0)));
        let sender = connection.clone();
        let sending = async move {
            let payload = vec![Bytes::from(vec![0; 1 << 20])];
            let _ = sender.send(&write(1), payload, true).await;
        };
        begin(sending, &woken);
        let first = raw.receive().await.unwrap();
        raw.credit_reply(first.header.request, first.payload.len() as u32)
            .await;
        taken(&woken).await;
        let other = tokio::spawn(call(&connection, 2));
        let request = loop {
            let frame = raw.receive().await.unwrap();
            if frame.header.kind == Kind::Sync {
                break frame.header.request;
            }
        };
        raw.answer_sync(request, 2).await;
        within(other).await.unwrap();
    });
}

#[test]
fn a_connection_with_callers_without_a_runtime_ends_cleanly() {
    without_hanging(|| async {
        let (go, woken) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (server, connection) = one_place(go).await;
        begin(two_calls(&connection), &woken);
        server.stop().await;
        taken(&woken).await;
        until("the connection is lost", || connection.lost().is_some()).await;
    });
}
