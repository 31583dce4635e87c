//! The data cache over small files whose bytes are stored with their metadata.

#[path = "../../weft-client/tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::TestVolume;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use tokio::runtime::Handle;
use weft_client::{Access, File, Volume};
use weft_mount::data::{DataCache, DataConfig, OpenData};
use weft_proto::Kind;

fn cache(config: DataConfig) -> Arc<DataCache> {
    DataCache::new(config, Handle::current())
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

/// The bytes that reads must return.
struct Oracle {
    bytes: Vec<u8>,
    rng: SmallRng,
}

impl Oracle {
    async fn read(&self, open: &OpenData, offset: usize, length: usize) {
        let read = open.read(offset as u64, length).await.unwrap();
        let end = (offset + length).min(self.bytes.len());
        let expected = self.bytes.get(offset..end).unwrap_or_default();
        assert_eq!(read.len(), expected.len(), "{length} bytes at {offset}");
        let same = read.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(same, None, "in a read of {length} bytes at {offset}");
    }
}

async fn attach_inline(volume: &Volume, path: &str) -> File {
    let access = Access::read_write().create(0o644).inline();
    volume.attach(path, access).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_is_stored_with_its_metadata_and_touches_no_server() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let cache = cache(DataConfig::default());
    let open = cache.open(attach_inline(&volume, "/file").await).unwrap();
    let before = volume.counters();
    let data = noise(3, 5000);
    open.write(0, Bytes::copy_from_slice(&data[..2000]))
        .await
        .unwrap();
    open.write(2000, Bytes::copy_from_slice(&data[2000..]))
        .await
        .unwrap();
    assert_eq!(open.size().await.unwrap(), 5000);
    assert!(open.read(0, 9000).await.unwrap() == data);
    open.flush().await.unwrap();
    open.close().await.unwrap();
    let after = volume.counters();
    let calls = |kind| after.calls_of(kind) - before.calls_of(kind);
    assert_eq!((calls(Kind::StoreInline), calls(Kind::Write)), (1, 0));

    let before = volume.counters();
    // Read at once, before the service knows that the file was closed.
    let again = volume.attach("/file", Access::read_write().inline());
    let open = cache.open(again.await.unwrap()).unwrap();
    assert!(open.read(0, 9000).await.unwrap() == data);
    open.truncate(3000).await.unwrap();
    open.write(3500, Bytes::from_static(b"end")).await.unwrap();
    open.close().await.unwrap();
    let after = volume.counters();
    assert_eq!(after.calls_of(Kind::Read), before.calls_of(Kind::Read));
    let mut expected = data[..3000].to_vec();
    expected.resize(3500, 0);
    expected.extend(b"end");
    assert!(elsewhere(&test, "/file").await == expected);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_that_grows_or_is_opened_by_others_moves_to_its_cells() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let cache = cache(DataConfig::default());
    let open = cache.open(attach_inline(&volume, "/grows").await).unwrap();
    let data = noise(4, 3 << 20);
    open.write(0, Bytes::copy_from_slice(&data[..1000]))
        .await
        .unwrap();
    open.flush().await.unwrap();
    open.write(1000, Bytes::copy_from_slice(&data[1000..]))
        .await
        .unwrap();
    assert!(open.read(0, data.len()).await.unwrap() == data);
    open.flush().await.unwrap();
    assert!(open.read(0, data.len()).await.unwrap() == data);
    open.close().await.unwrap();
    assert!(elsewhere(&test, "/grows").await == data);

    let open = cache.open(attach_inline(&volume, "/shared").await).unwrap();
    open.write(0, Bytes::from_static(b"0123456789"))
        .await
        .unwrap();
    open.flush().await.unwrap();
    open.write(3, Bytes::from_static(b"xyz")).await.unwrap();
    // A client that cannot work with inline files makes the service move it.
    assert_eq!(elsewhere(&test, "/shared").await, b"0123456789");
    open.close().await.unwrap();
    assert_eq!(elsewhere(&test, "/shared").await, b"012xyz6789");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_inline_opens_of_a_file_see_one_file() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let cache = cache(DataConfig {
        flush_after: Duration::from_millis(4),
        ..DataConfig::default()
    });
    for seed in 0..8 {
        let path = format!("/file-{seed}");
        let opens = [
            cache.open(attach_inline(&volume, &path).await).unwrap(),
            cache.open(attach_inline(&volume, &path).await).unwrap(),
        ];
        let mut oracle = Oracle {
            bytes: Vec::new(),
            rng: SmallRng::seed_from_u64(seed),
        };
        for _ in 0..30 {
            let open = &opens[oracle.rng.random_range(0..2)];
            let at = oracle.rng.random_range(0..6000);
            match oracle.rng.random_range(0..5) {
                0..2 => {
                    let data = noise(oracle.rng.random(), oracle.rng.random_range(1..3000));
                    oracle
                        .bytes
                        .resize(oracle.bytes.len().max(at + data.len()), 0);
                    oracle.bytes[at..at + data.len()].copy_from_slice(&data);
                    open.write(at as u64, data.into()).await.unwrap();
                }
                2 => oracle.read(open, at, 4000).await,
                3 if oracle.rng.random_range(0..4) == 0 => {
                    oracle.bytes.resize(at, 0);
                    open.truncate(at as u64).await.unwrap();
                }
                _ => drop(open.flush().await.unwrap()),
            }
        }
        for open in &opens {
            open.close().await.unwrap();
        }
        assert!(elsewhere(&test, &path).await == oracle.bytes, "seed {seed}");
    }
    test.stop().await;
}
