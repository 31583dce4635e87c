//! Addressed files against real servers. `./check --long` runs the other tests of this program with
//! addressed files as well.

use crate::common;

use bytes::Bytes;
use common::TestVolume;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::{CellIndex, ServerId, Storage, View, ViewOffset};
use weft_store::CounterSnapshot;

const CHUNK: usize = 64 << 10;

async fn create(volume: &Volume, path: &str, chunk: usize, bsu: u64) -> File {
    let layout = NewLayout {
        chunk: Some(chunk as u32),
        bsu: Some(bsu),
        storage: Some(Storage::Addressed),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut data);
    data
}

async fn write(file: &File, offset: u64, data: impl Into<Bytes>) {
    let view = file.canonical().unwrap();
    view.write_at(ViewOffset(offset), data.into())
        .await
        .unwrap();
}

async fn contents(file: &File, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    let view = file.canonical().unwrap();
    view.read_at(ViewOffset(0), &mut data).await.unwrap();
    data
}

/// The sum of a counter over all servers.
fn sum(test: &TestVolume, of: impl Fn(&CounterSnapshot) -> u64) -> u64 {
    let nodes = test.servers.iter().flatten();
    nodes
        .map(|node| of(&node.store().unwrap().counters()))
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_chunks_are_neither_sent_nor_stored_again() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let data = random(1, 48 * CHUNK);
    let first = create(&volume, "/first", CHUNK, 4 * CHUNK as u64).await;
    write(&first, 0, data.clone()).await;
    let (put, received) = (sum(&test, |c| c.chunks_put), sum(&test, |c| c.write_bytes));
    assert_eq!(put, 48);
    // Of a second file with a tenth of other bytes, that tenth is sent.
    let mut other = data.clone();
    other[10 * CHUNK..14 * CHUNK].copy_from_slice(&random(2, 4 * CHUNK));
    let second = create(&volume, "/second", CHUNK, 4 * CHUNK as u64).await;
    write(&second, 0, other.clone()).await;
    assert_eq!(sum(&test, |c| c.chunks_put) - put, 4);
    assert_eq!(sum(&test, |c| c.chunks_named), 44);
    let more = sum(&test, |c| c.write_bytes) - received;
    let names = 48 * 32;
    assert!(
        more <= 4 * CHUNK as u64 + names,
        "{more} bytes were written"
    );
    assert_eq!(contents(&second, other.len()).await, other);
    assert_eq!(contents(&first, data.len()).await, data);
    // Nothing of what both have goes with one of them.
    first.close().await.unwrap();
    volume.unlink("/first").await.unwrap();
    // Its cells are deleted in the background.
    let mut removed = 0;
    for _ in 0..200 {
        removed += clean(&volume).await;
        if removed > 0 && sum(&test, |c| c.chunks_cleaned) == 4 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(removed, 4 * CHUNK as u64);
    assert_eq!(contents(&second, other.len()).await, other);
}

/// Checkpoints of an application, each a new file: what has not changed since the last one stays
/// where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_with_x_percent_changed_ships_x_percent_and_five_at_most() {
    const STATE: usize = 256 * CHUNK;
    const CALL: usize = 4 << 20;
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut state = random(3, STATE);
    let mut shipped = Vec::new();
    for (number, percent) in [100, 1, 10, 30, 0, 60].into_iter().enumerate() {
        // A part of its arrays, wherever that lies.
        let changed = STATE * percent / 100;
        let start = (STATE - changed) / 3;
        state[start..start + changed].copy_from_slice(&random(9 + number as u64, changed));
        let path = format!("/state.{number}");
        let file = create(&volume, &path, CHUNK, 4 * CHUNK as u64).await;
        let before = volume.counters().bytes_sent;
        for at in (0..STATE).step_by(CALL) {
            write(&file, at as u64, state[at..at + CALL].to_vec()).await;
        }
        let sent = volume.counters().bytes_sent - before;
        let share = 100.0 * sent as f64 / STATE as f64;
        shipped.push((percent, share));
        assert!(share <= percent as f64 + 5.0, "{shipped:?}");
        assert!(contents(&file, STATE).await == state);
        file.close().await.unwrap();
    }
    println!("percent changed and shipped: {shipped:?}");
    test.stop().await;
}

/// Runs the cleaners; returns the bytes that they removed.
async fn clean(volume: &Volume) -> u64 {
    let mut removed = 0;
    for server in 0..3 {
        let cleaned = volume.clean(ServerId(server), true).await.unwrap();
        assert_eq!(cleaned.missing, 0);
        removed += cleaned.removed_bytes;
    }
    removed
}

/// Chunks and BSUs of which neither divides the other, through the canonical view and cells.
#[tokio::test(flavor = "multi_thread")]
async fn any_chunk_size_goes_with_any_bsu() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut rng = SmallRng::seed_from_u64(7);
    for (n, (chunk, bsu)) in [
        (4096, 10_000),
        (5000, 4096),
        (70_001, 333),
        (65_536, 1 << 20),
    ]
    .into_iter()
    .enumerate()
    {
        let file = create(&volume, &format!("/file{n}"), chunk, bsu).await;
        let mut wanted = Vec::new();
        for step in 0..60 {
            let (at, length) = (rng.random_range(0..400_000), rng.random_range(1..150_000));
            // Some bytes come again.
            let data = random(step % 5, length);
            wanted.resize(wanted.len().max(at + length), 0);
            wanted[at..at + length].copy_from_slice(&data);
            write(&file, at as u64, data).await;
        }
        assert!(
            contents(&file, wanted.len()).await == wanted,
            "{chunk}, {bsu}"
        );
        let grid = file.layout().grid();
        for cell in 0..3 {
            let view = file.view(View::Cell(CellIndex(cell))).unwrap();
            let size = view.size().await.unwrap() as usize;
            let mut bytes = vec![0; size];
            view.read_at(ViewOffset(0), &mut bytes).await.unwrap();
            for at in (0..size).step_by(977) {
                let place = grid.canonical(CellIndex(cell), weft_layout::CellOffset(at as u64));
                assert_eq!(bytes[at], wanted[place.unwrap().0 as usize]);
            }
        }
        file.close().await.unwrap();
    }
    assert!(clean(&volume).await > 0, "overwritten chunks are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn addressed_files_survive_restarts_with_their_chunks() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let data = random(3, 20 * CHUNK + 17);
    let file = create(&volume, "/file", CHUNK, CHUNK as u64).await;
    write(&file, 0, data.clone()).await;
    for server in 0..2 {
        test.stop_server(server).await;
        test.start_server(server).await;
    }
    assert_eq!(contents(&file, data.len()).await, data);
    assert_eq!(sum(&test, |c| c.chunks_put), 0);
    write(&file, 0, data.clone()).await;
    assert_eq!(
        sum(&test, |c| c.chunks_put),
        0,
        "known chunks are not put again"
    );
    assert_eq!(contents(&file, data.len()).await, data);
}

/// Cautious writes on several servers are staged in frames; here none ends where a chunk does.
#[tokio::test(flavor = "multi_thread")]
async fn cautious_writes_keep_the_bytes_of_all_their_frames() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let layout = NewLayout {
        chunk: Some(100_000),
        bsu: Some(7000),
        storage: Some(Storage::Addressed),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach("/file", access.cautious()).await.unwrap();
    let mut wanted = Vec::new();
    for (n, at) in [0, 5 << 20, 3_000_001].into_iter().enumerate() {
        let data = random(n as u64, 6 << 20);
        wanted.resize(wanted.len().max(at + data.len()), 0);
        wanted[at..at + data.len()].copy_from_slice(&data);
        write(&file, at as u64, data).await;
        assert!(contents(&file, wanted.len()).await == wanted, "from {at}");
    }
}
