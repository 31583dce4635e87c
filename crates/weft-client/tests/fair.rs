//! Jobs of many clients take turns on a server: no call waits for the end of another client's large
//! job.
//!
//! The tests count the calls that finish while a large job runs; they measure no times.

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{TestVolume, one_cell as view};
use futures_util::future::join_all;
use weft_client::{OpenView, Transfer};
use weft_layout::{Pattern, ViewOffset};

const BYTES: u64 = 64 << 20;
const SMALL: usize = 4 << 10;
/// Small calls that must finish during a large job of about a second. A server that runs one job
/// after the other finishes one or two.
const MANY: usize = 10;

async fn fill(view: &OpenView) {
    let piece = Bytes::from(vec![5; 4 << 20]);
    for at in (0..BYTES).step_by(piece.len()) {
        view.write_at(ViewOffset(at), piece.clone()).await.unwrap();
    }
}

/// A large job: every fourth byte, 16 million pieces.
fn many_pieces() -> (Transfer, usize) {
    let pieces = BYTES / 4;
    let every = Pattern::bytes(1).every(4).times(pieces);
    (Transfer::of(every), pieces as usize)
}

/// Reads 4 KiB repeatedly and counts the reads.
async fn read_small(view: &OpenView, done: &AtomicUsize) {
    let mut buffer = vec![0; SMALL];
    for at in (0..BYTES).step_by(1 << 20).cycle() {
        assert_eq!(
            view.read_at(ViewOffset(at), &mut buffer).await.unwrap(),
            4096
        );
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes 4 KiB repeatedly and counts the writes.
async fn write_small(view: &OpenView, done: &AtomicUsize) {
    let data = Bytes::from(vec![6; SMALL]);
    for at in (0..BYTES).step_by(1 << 20).cycle() {
        view.write_at(ViewOffset(at), data.clone()).await.unwrap();
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// The small calls that finish while `large` runs: reads of the same client, reads of another
/// client, and writes of another client.
async fn beside(
    large: impl Future<Output = ()>,
    same: &OpenView,
    other: &OpenView,
    third: &OpenView,
) -> [usize; 3] {
    let counts = [const { AtomicUsize::new(0) }; 3];
    tokio::select! {
        () = large => {}
        () = read_small(same, &counts[0]) => {}
        () = read_small(other, &counts[1]) => {}
        () = write_small(third, &counts[2]) => {}
    }
    counts.map(AtomicUsize::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn small_calls_finish_during_a_large_read() {
    let test = TestVolume::start(1).await;
    let (one, two) = (test.client().await, test.client().await);
    let same = view(&one, "/file").await;
    fill(&same).await;
    let (other, third) = (view(&two, "/file").await, view(&two, "/third").await);
    let (transfer, bytes) = many_pieces();
    let reading = same.post_read_with(transfer, vec![0; bytes]);
    let large = async {
        let read = reading.wait().await.unwrap();
        assert!(read.buffer.iter().all(|byte| *byte == 5));
    };
    let counts = beside(large, &same, &other, &third).await;
    assert!(counts.iter().all(|n| *n >= MANY), "{counts:?}");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_calls_finish_during_a_large_write() {
    let test = TestVolume::start(1).await;
    let (one, two) = (test.client().await, test.client().await);
    let same = view(&one, "/file").await;
    fill(&same).await;
    let written = view(&one, "/written").await;
    let (other, third) = (view(&two, "/file").await, view(&two, "/third").await);
    let (transfer, bytes) = many_pieces();
    let writing = written.post_write_with(transfer, vec![7; bytes].into());
    let large = async {
        writing.wait().await.unwrap();
    };
    let counts = beside(large, &same, &other, &third).await;
    assert!(counts.iter().all(|n| *n >= MANY), "{counts:?}");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_jobs_of_one_client_do_not_delay_the_single_job_of_another() {
    const JOBS: usize = 16;
    const EACH: usize = 8 << 20;
    let test = TestVolume::start(1).await;
    let (one, two) = (test.client().await, test.client().await);
    let many = view(&one, "/file").await;
    fill(&many).await;
    let only = view(&two, "/file").await;
    // A busy machine may let one try begin late.
    let mut before = JOBS;
    for _ in 0..3 {
        let ended = AtomicUsize::new(0);
        let jobs = (0..JOBS).map(|job| {
            let at = ViewOffset((job * EACH) as u64 % BYTES);
            let reading = many.post_read_at(at, vec![0; EACH]);
            let ended = &ended;
            async move {
                let read = reading.wait().await.unwrap();
                assert_eq!(read.bytes, EACH as u64);
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        let jobs: Vec<_> = jobs.collect();
        let mine = async {
            let mut buffer = vec![0; EACH];
            only.read_at(ViewOffset(0), &mut buffer).await.unwrap();
            ended.load(Ordering::Relaxed)
        };
        let (finished, _) = tokio::join!(mine, join_all(jobs));
        before = before.min(finished);
    }
    assert!(before <= JOBS / 2, "{before} of {JOBS} jobs finished first");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_its_replies_delays_no_other() {
    let test = TestVolume::start(1).await;
    let sound = view(&test.client().await, "/file").await;
    fill(&sound).await;
    let (stopping, stop) = test.stopping_client().await;
    let stopping = view(&stopping, "/file").await;
    // The client connects to the server before it stops.
    stopping.size().await.unwrap();
    stop.reads.stop();
    let stands = (0..8).map(|job| {
        let at = ViewOffset(job * (8 << 20));
        stopping.post_read_at(at, vec![0; 8 << 20])
    });
    let posted: Vec<_> = stands.collect();
    let all_stand = join_all(posted.into_iter().map(weft_client::Operation::wait));
    let passes = async {
        let mut small = vec![0; SMALL];
        for at in (0..BYTES).step_by(1 << 20) {
            sound.read_at(ViewOffset(at), &mut small).await.unwrap();
            let data = Bytes::from(vec![5; SMALL]);
            sound.write_at(ViewOffset(at), data).await.unwrap();
        }
        let (transfer, bytes) = many_pieces();
        let mut large = vec![0; bytes];
        sound.read_with(&transfer, &mut large).await.unwrap();
        assert!(large.iter().all(|byte| *byte == 5));
    };
    tokio::select! {
        in_time = tokio::time::timeout(Duration::from_mins(2), passes) => in_time.unwrap(),
        ended = all_stand => panic!("a stopped client finished {} calls", ended.len()),
    }
    test.stop().await;
}
