//! Operations in the background, against real servers; a gate can hold back their replies.

use crate::common;

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use common::TestVolume;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, ReadBuf};
use weft_client::{
    Access, Error, File, Group, NewLayout, OpenView, Transfer, Volume, wait_all, wait_any,
};
use weft_layout::{CellIndex, OFFSET_MAX, Pattern, View, ViewOffset};
use weft_net::{BoxRead, Listener, Network, Opened, TcpNetwork};
use weft_proto::{Code, Kind};

/// Holds back the bytes from servers while it is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(AtomicBool, Mutex<Vec<Waker>>)>);

impl Gate {
    fn close(&self) {
        self.0.0.store(true, Ordering::SeqCst);
    }

    fn open(&self) {
        self.0.0.store(false, Ordering::SeqCst);
        self.0.1.lock().unwrap().drain(..).for_each(Waker::wake);
    }
}

struct Gated(BoxRead, Gate);

impl AsyncRead for Gated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let gate = self.1.clone();
        let mut waiting = gate.0.1.lock().unwrap();
        if gate.0.0.load(Ordering::SeqCst) {
            waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        drop(waiting);
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Network for Gate {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        async move {
            let opened = TcpNetwork.connect(address).await?;
            Ok(Opened {
                read: Box::new(Gated(opened.read, self.clone())),
                ..opened
            })
        }
        .boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        TcpNetwork.listen(address)
    }
}

async fn client(test: &TestVolume, gate: &Gate) -> Volume {
    let mut options = test.options();
    options.env.network = Arc::new(gate.clone());
    // The client must not declare a server dead while the gate is closed.
    options.env.timing.silence = Duration::from_mins(2);
    Volume::connect(options).await.unwrap()
}

async fn created(volume: &Volume, path: &str, cells: u32) -> File {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(1000),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

fn served(test: &TestVolume, kind: Kind) -> u64 {
    let nodes = test.servers.iter().flatten();
    nodes
        .map(|n| n.metrics().net().snapshot().calls_of(kind))
        .sum()
}

fn sent(test: &TestVolume) -> u64 {
    let nodes = test.servers.iter().flatten();
    nodes.map(|n| n.metrics().net().snapshot().bytes_sent).sum()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("timed out waiting until {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pointer_moves_when_an_operation_is_posted() {
    let test = TestVolume::start(2).await;
    let gate = Gate::default();
    let volume = client(&test, &gate).await;
    let file = created(&volume, "/file", 3).await;
    let view = file.canonical().unwrap();
    // The client connects to each server before the gate closes.
    view.write(vec![0; 3000].into()).await.unwrap();
    view.seek(ViewOffset(0));
    gate.close();
    let lengths = [10, 2500, 1, 4000, 777];
    let mut at = 0;
    let mut writes = Vec::new();
    for (i, length) in lengths.into_iter().enumerate() {
        writes.push(view.post_write(vec![i as u8 + 1; length].into()));
        at += length as u64;
        assert_eq!(view.position(), ViewOffset(at));
    }
    assert!(
        writes.iter().all(|w| !w.poll()),
        "a write ended without a reply"
    );
    gate.open();
    for (outcome, length) in wait_all(writes).await.into_iter().zip(lengths) {
        assert_eq!(outcome.unwrap().bytes, length as u64);
    }
    view.seek(ViewOffset(0));
    let reads: Vec<_> = lengths.iter().map(|l| view.post_read(*l)).collect();
    assert_eq!(view.position(), ViewOffset(at));
    for (i, (outcome, length)) in wait_all(reads).await.into_iter().zip(lengths).enumerate() {
        let outcome = outcome.unwrap();
        assert_eq!(outcome.bytes, length as u64);
        assert_eq!(outcome.buffer, vec![i as u8 + 1; length], "{i}");
    }
    // A read beyond the end moves nothing: the caller's bytes stay.
    let beyond = view.post_read_into(vec![9; 50]).wait().await.unwrap();
    assert_eq!((beyond.bytes, beyond.buffer), (0, vec![9; 50]));
    view.post_sync().wait().await.unwrap();
    file.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_of_one_view_run_concurrently_and_can_be_awaited_in_any_order() {
    let test = TestVolume::start(1).await;
    let gate = Gate::default();
    let volume = client(&test, &gate).await;
    let file = created(&volume, "/file", 1).await;
    let view = file.view(View::Cell(CellIndex(0))).unwrap();
    view.write(vec![7; 8000].into()).await.unwrap();
    view.seek(ViewOffset(0));
    let (reads_before, writes_before) = (served(&test, Kind::Read), served(&test, Kind::Write));
    gate.close();
    let mut operations: Vec<_> = (0..8).map(|_| view.post_read(1000)).collect();
    operations.extend((0..4).map(|_| view.post_write(vec![8; 500].into())));
    // The server has all calls and the client has no reply: the calls run concurrently.
    until("the server has all calls", || {
        served(&test, Kind::Read) == reads_before + 8
            && served(&test, Kind::Write) == writes_before + 4
    })
    .await;
    assert!(operations.iter().all(|o| !o.poll()));
    assert!(wait_any(&mut operations).now_or_never().is_none());
    gate.open();
    let (mut ended, mut bytes) = (0, 0);
    while let Some(i) = wait_any(&mut operations).await {
        assert!(operations[i].poll());
        bytes += operations.swap_remove(i).wait().await.unwrap().bytes;
        ended += 1;
    }
    assert_eq!((ended, bytes), (12, 10_000));
    assert!(wait_any::<weft_client::Outcome>(&mut []).await.is_none());
    assert_eq!(file.size().await.unwrap(), 10_000);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_read_stops_its_servers_and_frees_its_memory() {
    const LENGTH: usize = 48 << 20;
    let test = TestVolume::start(1).await;
    let gate = Gate::default();
    let volume = client(&test, &gate).await;
    let file = created(&volume, "/file", 1).await;
    let view = file.view(View::Cell(CellIndex(0))).unwrap();
    view.write(vec![7; LENGTH].into()).await.unwrap();
    let (calls, bytes) = (served(&test, Kind::Read), sent(&test));
    gate.close();
    let read = view.post_read_at(ViewOffset(0), vec![0; LENGTH]);
    until("the server reads", || served(&test, Kind::Read) > calls).await;
    drop(read);
    // More calls than a connection has places: dropped calls free their places.
    for _ in 0..2000 {
        drop(view.post_read_at(ViewOffset(0), vec![0; 100]));
    }
    gate.open();
    let after = view.post_read_at(ViewOffset(5), vec![0; 10]).wait().await;
    assert_eq!(after.unwrap().buffer, [7; 10]);
    let sent = sent(&test) - bytes;
    assert!(sent < LENGTH as u64 / 2, "the server sent {sent} bytes");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_write_leaves_a_file_with_an_exact_size() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = created(&volume, "/file", 2).await;
    let view = file.canonical().unwrap();
    view.write(vec![1; 5000].into()).await.unwrap();
    for _ in 0..20 {
        let write = view.post_write(vec![2; 300_000].into());
        tokio::task::yield_now().await;
        drop(write);
    }
    // Cancelled writes may still be in flight; the sync waits for them.
    view.post_sync().wait().await.unwrap();
    file.close().await.unwrap();
    let (told, reader) = (
        volume.stat("/file").await.unwrap().size,
        volume.attach("/file", Access::read()).await.unwrap(),
    );
    assert!(told >= 5000);
    assert_eq!(reader.size().await.unwrap(), told);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_returned_by_the_wait() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = created(&volume, "/file", 2).await;
    let view = file.canonical().unwrap();
    view.write(vec![1; 4000].into()).await.unwrap();

    let past = view.post_read_at(ViewOffset(OFFSET_MAX - 10), vec![0; 100]);
    let error = past.wait().await.unwrap_err();
    assert!(matches!(error, Error::Map(_)), "{error}");

    test.stop_server(1).await;
    let posted = [
        view.post_read_at(ViewOffset(0), vec![0; 1000]),
        view.post_write_at(ViewOffset(1000), vec![2; 10].into()),
        view.post_write_at(ViewOffset(0), vec![3; 10].into()),
        view.post_sync(),
    ];
    let outcomes = wait_all(posted).await;
    let codes: Vec<Option<Code>> = outcomes
        .iter()
        .map(|o| o.as_ref().err().map(Error::code))
        .collect();
    let away = Some(Code::Unavailable);
    assert_eq!(codes, [None, away, None, away]);
    test.stop().await;
}

#[test]
fn threads_without_a_runtime_post_and_wait() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (test, view) = runtime.block_on(async {
        let test = TestVolume::start(2).await;
        let file = created(&test.client().await, "/file", 2).await;
        (test, Arc::new(file.canonical().unwrap()))
    });
    let write = |view: Arc<OpenView>, i: u8| {
        std::thread::spawn(move || {
            let data = Bytes::from(vec![i; 1500]);
            let write = view.post_write_at(ViewOffset(u64::from(i) * 1500), data);
            write.wait_blocking().unwrap().bytes
        })
    };
    let threads: Vec<_> = (0..8).map(|i| write(view.clone(), i)).collect();
    assert!(threads.into_iter().all(|t| t.join().unwrap() == 1500));
    let read = view.post_read(12_000);
    while !read.poll() {
        std::thread::yield_now();
    }
    let read = read.wait_blocking().unwrap();
    assert!(
        read.buffer
            .chunks(1500)
            .zip(0_u8..)
            .all(|(c, i)| c == [i; 1500])
    );
    runtime.block_on(test.stop());
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_can_be_posted_polled_and_awaited() {
    let test = TestVolume::start(2).await;
    let gate = Gate::default();
    let volume = client(&test, &gate).await;
    let file = created(&volume, "/posted", 2).await;
    let view = file.canonical().unwrap();

    // A write by pattern, an operation of the namespace, and an invalid pattern.
    let records = Transfer::of(Pattern::bytes(64).every(128).times(100));
    let data: Bytes = (0..6400_u32).map(|i| (i / 64) as u8).collect();
    gate.close();
    let write = view.post_write_with(records.clone(), data.clone());
    let other = volume.clone();
    let mkdir = volume.post("mkdir", async move {
        other.make_directory("/made", 0o755).await
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!write.poll() && !mkdir.poll());
    gate.open();
    assert_eq!(write.wait().await.unwrap().bytes, 6400);
    mkdir.wait().await.unwrap();
    assert!(volume.stat("/made").await.is_ok());
    let twice = Transfer::of(Pattern::bytes(64).every(32).times(2));
    let refused = view.post_write_with(twice, data.clone()).wait().await;
    assert!(matches!(refused, Err(Error::Pattern(_))), "{refused:?}");

    // Several reads run at a time, and any may finish first.
    let list = Pattern::list([(0, 64), (128, 64), (640, 64)]);
    let mut reads = vec![
        view.post_read_with(records, vec![0; 6400]),
        view.post_read_with(Transfer::of(list), vec![0; 192]),
    ];
    while let Some(i) = wait_any(&mut reads).await {
        let outcome = reads.swap_remove(i).wait().await.unwrap();
        match outcome.bytes {
            6400 => assert_eq!(outcome.buffer, data),
            192 => assert_eq!(
                (outcome.buffer[63], outcome.buffer[64], outcome.buffer[191]),
                (0, 1, 5)
            ),
            other => panic!("{other} bytes"),
        }
    }

    // One thread may post the collectives of all members of a group, several at once; they run in
    // the order of posting.
    let groups = [0, 1].map(|member| Group::new("posted", 2, member));
    let mut writes = Vec::new();
    for round in 0..3 {
        for (group, byte) in groups.iter().zip([10, 20]) {
            let at = ViewOffset(10_000 + 100 * (2 * round + u64::from(group.member())));
            let part = Transfer::of(Pattern::bytes(100)).at(at);
            let data = Bytes::from(vec![byte + round as u8; 100]);
            writes.push(view.collective(group).post_write(part, data));
        }
    }
    for done in wait_all(writes).await {
        assert_eq!(done.unwrap().bytes, 100);
    }
    let reads = groups.iter().map(|group| {
        let part = Transfer::of(Pattern::bytes(600)).at(ViewOffset(10_000));
        view.collective(group).post_read(part, vec![0; 600])
    });
    for done in wait_all(reads).await {
        let (collected, buffer) = done.unwrap();
        assert_eq!(collected.bytes, 600);
        let parts: Vec<u8> = buffer.chunks(100).map(|part| part[50]).collect();
        assert_eq!(parts, [10, 20, 11, 21, 12, 22]);
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_after_a_cancellation_stays() {
    const LENGTH: usize = 4 << 20;
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let access = Access::read_write().create_new(0o644);
    let file = volume.attach("/cancelled", access).await.unwrap();
    let view = file.canonical().unwrap();
    for round in 0..40_u8 {
        let old = Bytes::from(vec![255; LENGTH]);
        let operation = view.post_write_at(ViewOffset(0), old);
        if round % 3 > 0 {
            tokio::time::sleep(Duration::from_micros(400 * u64::from(round % 8))).await;
        }
        operation.cancel().await;
        let new = Bytes::from(vec![round; LENGTH]);
        view.write_at(ViewOffset(0), new.clone()).await.unwrap();
        for _ in 0..3 {
            let mut found = vec![0; LENGTH];
            view.read_at(ViewOffset(0), &mut found).await.unwrap();
            assert!(found == new, "round {round}");
        }
    }
    file.close().await.unwrap();
    test.stop().await;
}
