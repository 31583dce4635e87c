//! The data cache against real servers: reads return the written bytes, whatever is in flight.

#[path = "../../weft-client/tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::TestVolume;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use tokio::runtime::Handle;
use weft_client::{Access, File, NewLayout, Volume};
use weft_mount::data::{DataCache, DataConfig, DataError, OpenData};
use weft_proto::{Code, Kind};

fn cache(config: DataConfig) -> Arc<DataCache> {
    DataCache::new(config, Handle::current())
}

async fn attach(volume: &Volume, path: &str, cells: u32, bsu: u64) -> File {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(bsu),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut data);
    data
}

/// The whole file as another client reads it.
async fn elsewhere(test: &TestVolume, path: &str) -> Vec<u8> {
    let volume = test.client().await;
    let file = volume.attach(path, Access::read()).await.unwrap();
    let open = cache(DataConfig::default()).open(file).unwrap();
    let size = open.size().await.unwrap() as usize;
    let read = open.read(0, size + 10).await.unwrap();
    assert_eq!(read.len(), size);
    open.close().await.unwrap();
    read.to_vec()
}

/// Random operations through two opens of one file, and the bytes that reads must return.
struct Oracle {
    bytes: Vec<u8>,
    rng: SmallRng,
}

impl Oracle {
    async fn step(&mut self, open: &OpenData) {
        let length = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(1..100),
            1 => 4096,
            2 => self.rng.random_range(1..200_000),
            _ => 1 << 20,
        };
        let offset = self.rng.random_range(0..3 << 20);
        match self.rng.random_range(0..20) {
            0..8 => {
                let data = noise(self.rng.random(), length);
                let end = offset + length;
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[offset..end].copy_from_slice(&data);
                open.write(offset as u64, data.into()).await.unwrap();
            }
            8..14 => self.read(open, offset, length).await,
            14 => {
                let mut at = 0;
                while at < self.bytes.len() {
                    self.read(open, at, 131_072).await;
                    at += 131_072;
                }
            }
            15 => {
                let size = self.rng.random_range(0..3 << 20);
                self.bytes.resize(size, 0);
                open.truncate(size as u64).await.unwrap();
            }
            16 => {
                let data = noise(self.rng.random(), length);
                let at = open.append(data.clone().into()).await.unwrap();
                assert_eq!(at, self.bytes.len() as u64);
                self.bytes.extend(data);
            }
            17 => drop(open.flush().await.unwrap()),
            18 => open.sync().await.unwrap(),
            _ => assert_eq!(open.size().await.unwrap(), self.bytes.len() as u64),
        }
    }

    async fn read(&self, open: &OpenData, offset: usize, length: usize) {
        let read = open.read(offset as u64, length).await.unwrap();
        let end = (offset + length).min(self.bytes.len());
        let expected = self.bytes.get(offset..end).unwrap_or_default();
        assert_eq!(read.len(), expected.len(), "{length} bytes at {offset}");
        let same = read.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(same, None, "in a read of {length} bytes at {offset}");
    }
}

async fn compare(config: DataConfig, (cells, bsu): (u32, u64), seed: u64) {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let cache = cache(config);
    let opens = [
        cache
            .open(attach(&volume, "/file", cells, bsu).await)
            .unwrap(),
        cache
            .open(attach(&volume, "/file", cells, bsu).await)
            .unwrap(),
    ];
    let mut oracle = Oracle {
        bytes: Vec::new(),
        rng: SmallRng::seed_from_u64(seed),
    };
    for _ in 0..150 {
        let which = oracle.rng.random_range(0..2);
        oracle.step(&opens[which]).await;
    }
    for open in &opens {
        open.close().await.unwrap();
    }
    assert_eq!(cache.dirty_bytes(), 0);
    assert!(elsewhere(&test, "/file").await == oracle.bytes);
    let attributes = volume.stat("/file").await.unwrap();
    assert_eq!(attributes.size, oracle.bytes.len() as u64);
    assert!(attributes.size_exact);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_opens_of_a_file_see_one_file() {
    compare(DataConfig::default(), (3, 4096), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_opens_of_a_file_see_one_file_during_constant_flushing() {
    let config = DataConfig {
        flush_after: Duration::from_millis(4),
        file_dirty: 100_000,
        total_dirty: 500_000,
        read_ahead: 2 << 20,
        ..DataConfig::default()
    };
    compare(config, (4, 65_536), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_strict_opens_of_a_file_see_one_file() {
    let config = DataConfig {
        write_behind: false,
        ..DataConfig::default()
    };
    compare(config, (1, 65_536), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_read_sees_the_latest_write_of_another_client() {
    let test = TestVolume::start(2).await;
    let config = DataConfig {
        write_behind: false,
        ..DataConfig::default()
    };
    let (one, two) = (test.client().await, test.client().await);
    let writer = cache(config)
        .open(attach(&one, "/file", 2, 4096).await)
        .unwrap();
    let reader = cache(config)
        .open(attach(&two, "/file", 2, 4096).await)
        .unwrap();
    for i in 0..20_u64 {
        assert_eq!(reader.read(i * 1000, 1000).await.unwrap(), Bytes::new());
        writer
            .write(i * 1000, vec![i as u8; 1000].into())
            .await
            .unwrap();
        let read = reader.read(i * 1000, 2000).await.unwrap();
        assert_eq!(read, vec![i as u8; 1000]);
    }
    test.stop().await;
}

/// An invalidation between the query of a file's end and the append must not lose the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_during_invalidations_overwrite_nothing() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let cache = cache(DataConfig::default());
    let done = Arc::new(AtomicBool::new(false));
    let invalidations = std::thread::spawn({
        let (cache, done) = (cache.clone(), done.clone());
        move || {
            while !done.load(Ordering::Relaxed) {
                cache.invalidate_all();
            }
        }
    });
    let mut end = 0;
    for _ in 0..200 {
        // With a second writer the service does not know where the file ends.
        let file = attach(&volume, "/file", 1, 65_536).await;
        let other = attach(&volume, "/file", 1, 65_536).await;
        let open = cache.open(file).unwrap();
        for _ in 0..3 {
            assert_eq!(open.append(vec![7; 300].into()).await.unwrap(), end);
            end += 300;
        }
        other.close().await.unwrap();
        open.close().await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    invalidations.join().unwrap();
    assert!(elsewhere(&test, "/file").await == vec![7; end as usize]);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_sequential_writes_become_one_request_per_mebibyte_per_server() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let config = DataConfig {
        flush_after: Duration::from_mins(1),
        ..DataConfig::default()
    };
    let open = cache(config)
        .open(attach(&volume, "/file", 2, 65_536).await)
        .unwrap();
    let before = volume.counters();
    let data = noise(7, 16 << 20);
    for (i, chunk) in data.chunks(4096).enumerate() {
        let chunk = Bytes::copy_from_slice(chunk);
        open.write(i as u64 * 4096, chunk).await.unwrap();
    }
    open.flush().await.unwrap();
    let after = volume.counters();
    let writes = after.calls_of(Kind::Write) - before.calls_of(Kind::Write);
    assert_eq!(writes, 16 * 2);
    assert!(elsewhere(&test, "/file").await == data);
    open.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scattered_small_writes_become_one_request_per_server() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let config = DataConfig {
        flush_after: Duration::from_mins(1),
        ..DataConfig::default()
    };
    let open = cache(config)
        .open(attach(&volume, "/file", 2, 65_536).await)
        .unwrap();
    let mut expected = vec![0; 200 * 10_000];
    for i in (0..200_usize).rev() {
        let data = noise(i as u64, 2000);
        expected[i * 10_000..][..2000].copy_from_slice(&data);
        open.write(i as u64 * 10_000, data.into()).await.unwrap();
    }
    expected.truncate(199 * 10_000 + 2000);
    let before = volume.counters();
    open.flush().await.unwrap();
    let after = volume.counters();
    assert_eq!(
        after.calls_of(Kind::Write) - before.calls_of(Kind::Write),
        2
    );
    assert!(elsewhere(&test, "/file").await == expected);
    open.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sequential_reads_are_read_ahead_and_random_ones_are_not() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = attach(&volume, "/file", 2, 65_536).await;
    let data = noise(8, 32 << 20);
    let open = cache(DataConfig::default()).open(file).unwrap();
    open.write(0, data.clone().into()).await.unwrap();
    open.close().await.unwrap();

    let file = volume.attach("/file", Access::read()).await.unwrap();
    let open = cache(DataConfig::default()).open(file).unwrap();
    let before = volume.counters();
    let mut copies = 0;
    for at in (0..data.len()).step_by(131_072) {
        let read = open.read_buffers(at as u64, 131_072).await.unwrap();
        copies += usize::from(read.buffers().count() > 2);
        assert!(read.into_bytes() == data[at..at + 131_072]);
    }
    assert_eq!(
        copies, 0,
        "a read copies nothing: it has one buffer per server"
    );
    let after = volume.counters();
    let reads = after.calls_of(Kind::Read) - before.calls_of(Kind::Read);
    // One for the first read, and a piece that ends at the next mebibyte.
    assert!(
        reads <= 2 * 33,
        "{reads} requests for 32 MiB from two servers"
    );

    let before = volume.counters();
    for i in 0..200_u64 {
        let at = (i * 7919 % 8000) as usize * 4096;
        assert!(open.read(at as u64, 4096).await.unwrap() == data[at..at + 4096]);
    }
    let after = volume.counters();
    assert_eq!(
        after.calls_of(Kind::Read) - before.calls_of(Kind::Read),
        200
    );
    let bytes = after.bytes_received - before.bytes_received;
    assert!(bytes < 200 * 4300, "{bytes} bytes for 200 reads of 4 KiB");
    open.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_seen_by_a_reader_that_has_read_ahead() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let open = cache(DataConfig::default())
        .open(attach(&volume, "/file", 2, 65_536).await)
        .unwrap();
    let mut data = noise(9, 8 << 20);
    open.write(0, data.clone().into()).await.unwrap();
    open.flush().await.unwrap();
    let mut rng = SmallRng::seed_from_u64(1);
    for at in (0..data.len()).step_by(131_072) {
        let read = open.read(at as u64, 131_072).await.unwrap();
        assert!(read == data[at..at + 131_072], "at {at}");
        let place = at + rng.random_range(0..1 << 20);
        if place < data.len() - 10 {
            data[place..place + 10].copy_from_slice(b"0123456789");
            open.write(place as u64, Bytes::from_static(b"0123456789"))
                .await
                .unwrap();
            if rng.random() {
                open.flush().await.unwrap();
            }
        }
    }
    open.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_during_write_behind_loses_nothing() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let open = cache(DataConfig::default())
        .open(attach(&volume, "/file", 2, 65_536).await)
        .unwrap();
    let data = noise(10, 24 << 20);
    let mut rng = SmallRng::seed_from_u64(2);
    for (i, chunk) in data.chunks(1 << 18).enumerate() {
        if i == 30 {
            test.stop_server(1).await;
        }
        if i == 60 {
            test.start_server(1).await;
        }
        let offset = i as u64 * (1 << 18);
        for (j, part) in chunk.chunks(1 << 16).enumerate() {
            let at = offset + j as u64 * (1 << 16);
            open.write(at, Bytes::copy_from_slice(part)).await.unwrap();
        }
        if rng.random_range(0..8) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    open.sync().await.unwrap();
    open.close().await.unwrap();
    assert!(elsewhere(&test, "/file").await == data);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_lost_with_a_dead_server_are_reported_in_time_and_once_to_each_open() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let config = DataConfig {
        outage_timeout: Duration::from_millis(600),
        flush_after: Duration::from_millis(20),
        total_dirty: 4 << 20,
        ..DataConfig::default()
    };
    let cache = cache(config);
    let one = cache
        .open(attach(&volume, "/file", 2, 65_536).await)
        .unwrap();
    let two = cache
        .open(attach(&volume, "/file", 2, 65_536).await)
        .unwrap();
    one.write(0, noise(1, 1 << 20).into()).await.unwrap();
    one.flush().await.unwrap();
    test.stop_server(1).await;

    let started = Instant::now();
    for i in 0..32 {
        one.write(i << 20, noise(i, 1 << 20).into()).await.unwrap();
    }
    let error = one.sync().await.unwrap_err();
    assert!(matches!(error, DataError::Lost { .. }), "{error}");
    assert_eq!(error.code(), Code::Unavailable);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    one.flush().await.unwrap();
    let error = two.flush().await.unwrap_err();
    assert!(matches!(error, DataError::Lost { .. }), "{error}");
    two.flush().await.unwrap();
    assert_eq!(cache.dirty_bytes(), 0);

    // Later writes are not held up, and arrive when the server is back.
    test.start_server(1).await;
    let data = noise(99, 3 << 20);
    for _ in 0..100 {
        one.write(0, data.clone().into()).await.unwrap();
        if one.flush().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.flush().await.unwrap();
    assert!(one.read(0, 3 << 20).await.unwrap() == data);
    let _ = two.close().await;
    one.close().await.unwrap();
    assert!(elsewhere(&test, "/file").await[..3 << 20] == data);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dirty_bytes_are_flushed_when_they_are_old() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let config = DataConfig {
        flush_after: Duration::from_millis(100),
        ..DataConfig::default()
    };
    let cache = cache(config);
    let open = cache
        .open(attach(&volume, "/file", 1, 65_536).await)
        .unwrap();
    open.write(5, Bytes::from_static(b"hello")).await.unwrap();
    assert!(cache.dirty_bytes() > 0);
    for _ in 0..200 {
        if cache.dirty_bytes() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(elsewhere(&test, "/file").await, b"\0\0\0\0\0hello");
    open.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_size_query_hides_no_truncation_by_another_client() {
    let mut test = TestVolume::start(2).await;
    let (one, two) = (test.client().await, test.client().await);
    let config = DataConfig {
        write_behind: false,
        ..DataConfig::default()
    };
    let length = 300_000;
    let file = attach(&one, "/file", 2, 65_536).await;
    let open = cache(config).open(file).unwrap();
    open.write(0, noise(1, length).into()).await.unwrap();
    for size in [10, 20] {
        // No server answers, and the caller is interrupted.
        test.stop_server(1).await;
        let limit = Duration::from_millis(200);
        if size == 10 {
            let cancelled = tokio::time::timeout(limit, open.size()).await;
            assert!(cancelled.is_err(), "{cancelled:?}");
        } else {
            let cancelled = tokio::time::timeout(limit, open.read(0, length)).await;
            assert!(cancelled.is_err());
        }
        test.start_server(1).await;
        open.write(0, noise(size, length).into()).await.unwrap();
        two.truncate("/file", size).await.unwrap();
        assert_eq!(open.size().await.unwrap(), size);
        assert_eq!(open.read(0, length).await.unwrap().len() as u64, size);
    }
    open.close().await.unwrap();
    test.stop().await;
}

/// Another client appends; this cache has a query in flight, and an earlier open.
#[tokio::test(flavor = "multi_thread")]
async fn replies_and_opens_from_before_an_invalidation_are_not_trusted_after_it() {
    let test = TestVolume::start(1).await;
    let (volume, other) = (test.client().await, test.client().await);
    let cache = cache(DataConfig::default());
    let open = cache
        .open(attach(&volume, "/file", 1, 65_536).await)
        .unwrap();
    open.write(0, vec![1; 1000].into()).await.unwrap();
    open.flush().await.unwrap();
    let file = attach(&other, "/file", 1, 65_536).await;
    let view = file.canonical().unwrap();
    let mut size = 1000;
    for newly_opened in [false, true] {
        let query = open.begin_size_query();
        view.write_at(weft_layout::ViewOffset(size), vec![2; 500].into())
            .await
            .unwrap();
        let again;
        if newly_opened {
            query.answered(Some(size));
            let file = attach(&volume, "/file", 1, 65_536).await;
            again = cache.open(file).unwrap();
            again.invalidate_older();
        } else {
            open.invalidate();
            query.answered(Some(size));
        }
        size += 500;
        assert_eq!(open.size().await.unwrap(), size);
        assert_eq!(open.read(0, 9999).await.unwrap().len() as u64, size);
    }
    test.stop().await;
}
