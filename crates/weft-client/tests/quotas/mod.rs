//! Bounds of payers while files are written, over real sockets and real stores.

use std::time::{Duration, Instant};

use weft_client::{Access, Credentials, Error, File, NewBounds, NewLayout, Payer, Volume};
use weft_layout::{CellIndex, View, ViewOffset};
use weft_proto::Code;

use crate::common::TestVolume;

const BLOCK: usize = 64 << 10;
const MIB: u64 = 1 << 20;

fn bytes(most: u64) -> NewBounds {
    NewBounds {
        bytes: Some(Some(most)),
        files: None,
    }
}

fn tree(path: &str) -> Payer {
    Payer::Tree(path.into())
}

/// A client that acts as root, which may set bounds, whatever user runs the test.
async fn as_root(test: &TestVolume) -> Volume {
    test.client().await.on_behalf_of(Credentials::default())
}

async fn create(volume: &Volume, path: &str) -> File {
    let layout = NewLayout {
        cells: Some(3),
        bsu: Some(BLOCK as u64),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

async fn put(file: &File, at: u64) -> Result<u64, Error> {
    let view = file.canonical()?;
    view.write_at(ViewOffset(at), vec![9; BLOCK].into()).await
}

/// Appends a block each `pause` until a write is refused; returns the bytes written.
async fn fill(file: &File, pause: Duration) -> u64 {
    let mut at = 0;
    loop {
        match put(file, at).await {
            Ok(_) => at += BLOCK as u64,
            Err(error) => {
                assert_eq!(error.code(), Code::QuotaExceeded, "{error}");
                return at;
            }
        }
        assert!(at < 4096 * MIB, "nothing stops it");
        tokio::time::sleep(pause).await;
    }
}

/// Repeats a write that the quota refuses until the servers know of the free space.
async fn soon(file: &File, at: u64) {
    let started = Instant::now();
    while let Err(error) = put(file, at).await {
        assert_eq!(error.code(), Code::QuotaExceeded, "{error}");
        assert!(started.elapsed() < Duration::from_secs(5), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_stops_at_the_bound_and_resumes_when_space_is_free() {
    let test = TestVolume::start(2).await;
    let volume = as_root(&test).await;
    volume.make_directory("/t", 0o777).await.unwrap();
    volume.set_quota(&tree("/t"), bytes(3 * MIB)).await.unwrap();
    let file = create(&volume, "/t/f").await;
    assert_eq!(fill(&file, Duration::ZERO).await, 3 * MIB);
    assert_eq!(
        file.size().await.unwrap(),
        3 * MIB,
        "a refused write changed the size"
    );
    put(&file, MIB).await.unwrap();
    // A writer that starts after a round is refused at once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = create(&volume, "/t/late").await;
    assert_eq!(put(&late, 0).await.unwrap_err().code(), Code::QuotaExceeded);
    // A writer outside the tree continues.
    let beside = create(&volume, "/beside").await;
    put(&beside, 0).await.unwrap();
    file.close().await.unwrap();
    let used = volume.quota(&tree("/t")).await.unwrap().unwrap();
    assert_eq!(
        (used.bytes, used.files, used.is_exceeded()),
        (3 * MIB, 3, false)
    );
    volume.truncate("/t/f", MIB).await.unwrap();
    soon(&late, 0).await;
    volume.set_quota(&tree("/t"), bytes(MIB)).await.unwrap();
    let refused = volume.truncate("/t/f", 2 * MIB).await.unwrap_err();
    assert_eq!(refused.code(), Code::QuotaExceeded);
    let again = volume.attach("/t/f", Access::read_write()).await.unwrap();
    assert_eq!(
        put(&again, MIB).await.unwrap_err().code(),
        Code::QuotaExceeded
    );
    volume.unlink("/t/late").await.unwrap();
    late.close().await.unwrap();
    volume.clear_quota(&tree("/t")).await.unwrap();
    soon(&again, MIB).await;
    again.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_forks_stop_at_the_bound_and_return_their_space_when_removed() {
    let test = TestVolume::start(2).await;
    let volume = as_root(&test).await;
    volume.make_directory("/t", 0o777).await.unwrap();
    volume.set_quota(&tree("/t"), bytes(3 * MIB)).await.unwrap();
    let file = create(&volume, "/t/f").await;
    put(&file, 0).await.unwrap();
    let view = file.view_of_fork(View::Cell(CellIndex(1)), "wave").unwrap();
    let mut at = 0;
    let refused = loop {
        match view.write_at(ViewOffset(at), vec![9; BLOCK].into()).await {
            Ok(_) => at += BLOCK as u64,
            Err(error) => break error,
        }
        assert!(at < 64 * MIB, "nothing stops it");
    };
    assert_eq!(refused.code(), Code::QuotaExceeded, "{refused}");
    let most = 3 * MIB + BLOCK as u64;
    assert!(
        (2 * MIB..=most).contains(&at),
        "the writer stops after {at} bytes"
    );
    // Overwriting existing bytes is allowed at the bound.
    view.write_at(ViewOffset(0), vec![8; BLOCK].into())
        .await
        .unwrap();
    file.close().await.unwrap();
    wait_for(&volume, at + BLOCK as u64).await;
    assert_eq!(volume.stat("/t/f").await.unwrap().size, BLOCK as u64);
    let again = volume.attach("/t/f", Access::read_write()).await.unwrap();
    again.remove_fork(CellIndex(1), "wave").await.unwrap();
    again.close().await.unwrap();
    wait_for(&volume, BLOCK as u64).await;
    let other = create(&volume, "/t/g").await;
    soon(&other, 0).await;
    other.close().await.unwrap();
    test.stop().await;
}

/// Waits until the tree is charged `bytes`: the service asks for the lengths of other forks after
/// the last writer has closed the file.
async fn wait_for(volume: &Volume, bytes: u64) {
    let started = Instant::now();
    loop {
        let used = volume.quota(&tree("/t")).await.unwrap().unwrap().bytes;
        if used == bytes {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{used} bytes instead of {bytes}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// An extension sends no bytes, so the bound applies at once and not in rounds. The bound is so
/// high that the servers have no growth limit.
#[tokio::test(flavor = "multi_thread")]
async fn no_file_is_extended_beyond_a_bound() {
    const GIB: u64 = 1 << 30;
    let test = TestVolume::start(2).await;
    let volume = as_root(&test).await;
    volume.make_directory("/t", 0o777).await.unwrap();
    volume.set_quota(&tree("/t"), bytes(5 * GIB)).await.unwrap();
    let file = create(&volume, "/t/f").await;
    let refused = file.extend(100 * GIB).await.unwrap_err();
    assert_eq!(refused.code(), Code::QuotaExceeded, "{refused}");
    assert_eq!(file.size().await.unwrap(), 0);
    file.extend(5 * GIB).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 5 * GIB);
    file.extend(4 * GIB).await.unwrap();
    assert!(file.extend(5 * GIB + 1).await.is_err());
    file.close().await.unwrap();
    assert_eq!(volume.stat("/t/f").await.unwrap().size, 5 * GIB);
    let used = volume.quota(&tree("/t")).await.unwrap().unwrap();
    assert_eq!(used.bytes, 5 * GIB);
    test.stop().await;
}

/// The overshoot is the writes of a round of half a second and those in flight. A busy machine may
/// delay rounds and allow more.
#[tokio::test(flavor = "multi_thread")]
async fn many_writers_exceed_a_bound_by_at_most_the_writes_of_a_round() {
    const WRITERS: u64 = 6;
    const BOUND: u64 = 24 * MIB;
    let test = TestVolume::start(2).await;
    let volume = as_root(&test).await;
    let who = Credentials {
        uid: 1000,
        gid: 1000,
        groups: Vec::new(),
    };
    volume
        .set_quota(&Payer::User(1000), bytes(BOUND))
        .await
        .unwrap();
    let started = Instant::now();
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let (volume, who) = (test.client().await, who.clone());
        writers.push(tokio::spawn(async move {
            let volume = volume.on_behalf_of(who);
            let file = create(&volume, &format!("/f{number}")).await;
            let written = fill(&file, Duration::from_millis(10)).await;
            file.close().await.unwrap();
            written
        }));
    }
    let mut total = 0;
    for writer in writers {
        total += writer.await.unwrap();
    }
    let took = started.elapsed();
    let rate = total as f64 / took.as_secs_f64();
    let over = total.saturating_sub(BOUND);
    println!(
        "{WRITERS} writers of {:.1} MiB/s together: {:.1} MiB beyond a bound of {} MiB, {:.2} s of writing",
        rate / MIB as f64,
        over as f64 / MIB as f64,
        BOUND / MIB,
        over as f64 / rate
    );
    assert!(
        total >= BOUND,
        "the writers stopped before the bound: {total}"
    );
    assert!((over as f64) < 2.0 * rate, "{over} bytes beyond the bound");
    let used = volume.quota(&Payer::User(1000)).await.unwrap().unwrap();
    assert_eq!((used.bytes, used.files), (total, WRITERS));
    test.stop().await;
}

/// The service knows all open files only after a grace period of 20 seconds. Written bytes count
/// before its end.
#[tokio::test(flavor = "multi_thread")]
async fn files_written_before_a_restart_and_closed_after_it_count_at_once() {
    let mut test = TestVolume::start(2).await;
    let volume = as_root(&test).await;
    volume.make_directory("/t", 0o777).await.unwrap();
    volume.set_quota(&tree("/t"), bytes(4 * MIB)).await.unwrap();
    let (closed, open) = (
        create(&volume, "/t/closed").await,
        create(&volume, "/t/open").await,
    );
    let (gone, stop) = test.stopping_client().await;
    let gone = gone.on_behalf_of(Credentials::default());
    let left = create(&gone, "/t/left").await;
    for at in (0..MIB).step_by(BLOCK) {
        put(&closed, at).await.unwrap();
        put(&open, at).await.unwrap();
        put(&left, at).await.unwrap();
    }
    stop.reads.stop();
    stop.writes.stop();
    test.restart_meta().await;
    closed.close().await.unwrap();
    let used = volume.quota(&tree("/t")).await.unwrap().unwrap();
    assert!(used.bytes < 3 * MIB, "settled already: {used:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let late = create(&volume, "/t/late").await;
    assert_eq!(fill(&late, Duration::ZERO).await, MIB);
    // Until the next round, each writer may use the space that was left.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let refused = put(&open, MIB).await.unwrap_err();
    assert_eq!(refused.code(), Code::QuotaExceeded);
    late.close().await.unwrap();
    open.close().await.unwrap();
    drop((left, gone));
    test.stop().await;
}

/// Growth limits expire if the metadata service is gone, so that writers continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_metadata_service_blocks_no_writer_forever() {
    let mut env = weft_net::Env::system();
    env.timing.grace = Duration::from_secs(1);
    let mut test = TestVolume::start_with(1, env).await;
    let volume = as_root(&test).await;
    volume.set_quota(&Payer::User(0), bytes(MIB)).await.unwrap();
    let file = create(&volume, "/f").await;
    let end = fill(&file, Duration::ZERO).await;
    assert_eq!(end, MIB);
    test.meta.take().unwrap().stop().await.unwrap();
    let stopped = Instant::now();
    soon(&file, end).await;
    assert!(stopped.elapsed() > Duration::from_secs(2));
    drop(file);
    drop(volume);
    test.stop().await;
}
