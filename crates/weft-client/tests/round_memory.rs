//! Many collectives at once: they share a server's memory for rounds, and none waits forever.

use crate::common;

use std::time::Duration;

use bytes::Bytes;
use common::TestVolume;
use futures_util::future::{join_all, try_join_all};
use weft_client::{
    Access, Group, JoinedRead, NewLayout, OpenView, Operation, Transfer, Volume, read_joined,
};
use weft_layout::{Pattern, ViewOffset};

/// Each job has two rounds of 16 MiB, the largest size.
const CELLS: u32 = 4;
const BSU: u64 = 4 << 20;
const BYTES: usize = 32 << 20;
/// The memory of a server for rounds.
const ROOM: u64 = 128 << 20;

async fn open(volume: &Volume, path: &str) -> OpenView {
    open_of(CELLS, volume, path).await
}

async fn open_of(cells: u32, volume: &Volume, path: &str) -> OpenView {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(BSU),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    file.canonical().unwrap()
}

/// The bytes that the first server has read.
fn read_bytes(test: &TestVolume) -> u64 {
    let node = test.servers[0].as_ref().unwrap();
    node.store().unwrap().counters().read_bytes
}

fn alone(id: String) -> Group {
    Group::new(id, 1, 0).wait(Duration::from_hours(1))
}

fn all() -> Transfer {
    Transfer::of(Pattern::bytes(BYTES as u64))
}

#[tokio::test(flavor = "multi_thread")]
async fn collectives_that_exceed_the_round_memory_all_finish() {
    const JOBS: usize = 12;
    let test = TestVolume::start(1).await;
    let clients = join_all((0..4).map(|_| test.client())).await;
    let mut views = Vec::new();
    for job in 0..JOBS {
        views.push(open(&clients[job % clients.len()], &format!("/{job}")).await);
    }
    let data = |job: usize| Bytes::from(vec![job as u8 + 1; BYTES]);
    let writes = views.iter().enumerate().map(|(job, view)| {
        let group = alone(format!("writes {job}"));
        view.collective(&group).post_write(all(), data(job))
    });
    let writes: Vec<_> = writes.collect();
    let written = try_join_all(writes.into_iter().map(Operation::wait));
    let written = tokio::time::timeout(Duration::from_mins(2), written).await;
    let written = written.expect("all writes end").unwrap();
    assert!(written.iter().all(|w| w.bytes == BYTES as u64));
    let reads = views.iter().enumerate().map(|(job, view)| {
        let group = alone(format!("reads {job}"));
        view.collective(&group).post_read(all(), vec![0; BYTES])
    });
    let reads: Vec<_> = reads.collect();
    let read = try_join_all(reads.into_iter().map(Operation::wait));
    let read = tokio::time::timeout(Duration::from_mins(2), read).await;
    for (job, (_, read)) in read
        .expect("all reads end")
        .unwrap()
        .into_iter()
        .enumerate()
    {
        assert!(read == data(job), "job {job}");
    }
    test.stop().await;
}

/// Each server may start the jobs in another order; no job waits for one server while it holds
/// memory of another.
#[tokio::test(flavor = "multi_thread")]
async fn joined_reads_that_exceed_the_round_memory_all_finish() {
    const JOBS: usize = 8;
    let test = TestVolume::start(2).await;
    let view = open_of(2 * CELLS, &test.client().await, "/file").await;
    let data = Bytes::from(vec![3; BYTES]);
    view.write_at(ViewOffset(0), data.clone()).await.unwrap();
    let transfer = all();
    let mut buffers = vec![vec![0; BYTES]; JOBS];
    let reads = buffers.iter_mut().map(|buffer| {
        read_joined(vec![JoinedRead {
            view: &view,
            transfer: &transfer,
            buffer,
        }])
    });
    let read = tokio::time::timeout(Duration::from_mins(2), try_join_all(reads)).await;
    assert_eq!(read.expect("all reads end").unwrap(), [BYTES as u64; JOBS]);
    assert!(buffers.iter().all(|buffer| *buffer == data));
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_collectives_leave_their_memory_to_waiting_ones() {
    let test = TestVolume::start(1).await;
    let sound = open(&test.client().await, "/file").await;
    let data = Bytes::from(vec![5; BYTES]);
    sound.write_at(ViewOffset(0), data).await.unwrap();
    let before = read_bytes(&test);
    let mut stand = Vec::new();
    for client in 0..2 {
        let (stopping, stop) = test.stopping_client().await;
        let view = open(&stopping, "/file").await;
        // The client connects to the server before it stops.
        view.size().await.unwrap();
        stop.reads.stop();
        for job in 0..5 {
            let group = alone(format!("stands {client} {job}"));
            let read = view.collective(&group).post_read(all(), vec![0; BYTES]);
            stand.push((read, stopping.clone()));
        }
    }
    // The server reads the first round of each job that fits into the memory.
    let taken = async {
        while read_bytes(&test) < before + ROOM {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let taken = tokio::time::timeout(Duration::from_mins(1), taken).await;
    taken.expect("the jobs fill the memory");
    let mut small = [0; 4];
    let group = alone("small".to_owned());
    let read = sound.collective(&group);
    let read = read.read_at(ViewOffset(9), &mut small);
    let read = tokio::time::timeout(Duration::from_secs(5), read).await;
    assert_eq!(
        read.expect("a small job has memory of its own")
            .unwrap()
            .bytes,
        4
    );
    let mut large = vec![0; BYTES];
    let group = alone("large".to_owned());
    let read = sound.collective(&group);
    let read = read.read_at(ViewOffset(0), &mut large);
    let read = tokio::time::timeout(Duration::from_mins(1), read).await;
    assert_eq!(
        read.expect("stalled jobs free their memory").unwrap().bytes,
        BYTES as u64
    );
    assert!(large.iter().all(|byte| *byte == 5));
    assert!(stand.iter().all(|(read, _)| !read.poll()));
    test.stop().await;
}
