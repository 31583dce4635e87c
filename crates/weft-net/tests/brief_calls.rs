//! Calls that run in the task of their connection: none waits for another, and each finishes even
//! if the connection is lost.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::*;
use futures_util::future::join_all;
use tokio::sync::{Barrier, Notify};
use weft_net::Served;
use weft_proto::Code;
use weft_proto::io::SyncRequest;

fn answer(call: Served) {
    let file = call.request::<SyncRequest>().unwrap().file;
    call.reply.done(&sync_reply(file));
}

/// Starts more calls than one task serves; each can finish only after all have started.
#[tokio::test]
async fn calls_that_wait_for_each_other_run_concurrently() {
    const CALLS: usize = 100;
    let barrier = Arc::new(Barrier::new(CALLS));
    let server = Server::start(Options::default(), move |call| {
        let barrier = barrier.clone();
        async move {
            // Some calls yield so often that they move to tasks of their own.
            for _ in 0..call.id % 20 {
                tokio::task::yield_now().await;
            }
            barrier.wait().await;
            answer(call);
        }
    })
    .await;
    let connection = server.connect().await;
    for _ in 0..3 {
        let calls = (0..CALLS as u64).map(|n| {
            let connection = connection.clone();
            async move { (n, connection.call(&sync(n)).await.unwrap()) }
        });
        for (n, reply) in within(join_all(calls)).await {
            assert_eq!(reply, sync_reply(n));
        }
    }
}

#[tokio::test]
async fn a_call_that_panics_fails_alone() {
    let begun = Arc::new(Barrier::new(11));
    let server = Server::start(Options::default(), move |call| {
        let begun = begun.clone();
        async move {
            begun.wait().await;
            let file = call.request::<SyncRequest>().unwrap().file;
            assert!(file != 5, "the test causes this panic");
            answer(call);
        }
    })
    .await;
    let connection = server.connect().await;
    let calls = (0..11).map(|n| {
        let connection = connection.clone();
        async move { connection.call(&sync(n)).await }
    });
    for (n, result) in within(join_all(calls)).await.into_iter().enumerate() {
        match result {
            Ok(reply) => assert_eq!(reply, sync_reply(n as u64)),
            Err(error) => assert_eq!((n, error.code()), (5, Code::Internal)),
        }
    }
}

#[tokio::test]
async fn calls_finish_after_their_connection_or_the_server_ends() {
    let (go, done) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let begun = Arc::new(AtomicUsize::new(0));
    let seen = (go.clone(), begun.clone(), done.clone());
    let server = Server::start(Options::default(), move |call| {
        let (go, begun, done) = seen.clone();
        async move {
            let going = go.notified();
            begun.fetch_add(1, Ordering::SeqCst);
            going.await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            done.fetch_add(1, Ordering::SeqCst);
            answer(call);
        }
    })
    .await;
    let (lost, stopped) = (server.connect().await, server.connect().await);
    let call = |connection: &weft_net::Connection| {
        let connection = connection.clone();
        tokio::spawn(async move { connection.call(&sync(1)).await })
    };
    let (first, second) = (call(&lost), call(&stopped));
    until("both calls have started", || {
        begun.load(Ordering::SeqCst) == 2
    })
    .await;
    first.abort();
    drop((first, lost));
    let fixture = server.fixture.clone();
    until("the server notices the lost connection", || {
        fixture.closed.load(Ordering::SeqCst) > 0
    })
    .await;
    server.stop().await;
    assert!(within(second).await.unwrap().is_err());
    assert_eq!(done.load(Ordering::SeqCst), 0);
    go.notify_waiters();
    until("both calls are done", || done.load(Ordering::SeqCst) == 2).await;
}

/// The work of a long call between two waits delays no other call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_marked_as_long_gets_its_own_task() {
    let (held, holding) = std::sync::mpsc::channel::<()>();
    let holding = Arc::new(std::sync::Mutex::new(holding));
    let server = Server::start(Options::default(), move |call| {
        let holding = holding.clone();
        async move {
            if call.request::<SyncRequest>().unwrap().file == 1 {
                call.reply.long().await;
                // The call blocks its own task. `block_in_place` moves the other tasks of this
                // thread, which may be the one that drives sockets and timers.
                let _ = tokio::task::block_in_place(|| holding.lock().unwrap().recv());
            }
            answer(call);
        }
    })
    .await;
    let connection = server.connect().await;
    let long = connection.clone();
    let long = tokio::spawn(async move { long.call(&sync(1)).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    for n in 2..50 {
        let reply = within(connection.call(&sync(n))).await.unwrap();
        assert_eq!(reply, sync_reply(n));
    }
    assert!(!long.is_finished());
    held.send(()).unwrap();
    assert_eq!(within(long).await.unwrap().unwrap(), sync_reply(1));
}
