//! Checkpoints of trees on real servers, compared with a model; and the duration of checkpoints.

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::TestVolume;
use futures_util::stream::{self, StreamExt};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{Access, Error, Group, NewLayout, Transfer, Volume};
use weft_layout::{FileOffset, Pattern, ViewOffset};
use weft_proto::Code;
use weft_proto::limits::TREE_BATCH_MAX;

/// A tree: the content of each path.
type Tree = BTreeMap<String, Vec<u8>>;

async fn content(volume: &Volume, path: &str) -> Result<Vec<u8>, Error> {
    let file = volume.attach(path, Access::read()).await?;
    let mut data = vec![0; file.size().await? as usize];
    file.canonical()?.read_at(ViewOffset(0), &mut data).await?;
    file.close().await?;
    Ok(data)
}

async fn same(volume: &Volume, root: &str, tree: &Tree, what: &str) {
    let mut names: Vec<String> = Vec::new();
    for entry in volume.list(root).all().await.unwrap() {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
    }
    assert_eq!(names, tree.keys().cloned().collect::<Vec<_>>(), "{what}");
    for (name, expected) in tree {
        let found = content(volume, &format!("{root}/{name}")).await.unwrap();
        assert!(found == *expected, "{what}: {name}");
    }
}

async fn write(volume: &Volume, rng: &mut SmallRng, tree: &mut Tree, name: &str) {
    let (offset, length) = (rng.random_range(0..60_000), rng.random_range(1..90_000));
    let mut data = vec![0; length];
    rng.fill_bytes(&mut data);
    let access = Access::read_write().create(0o644);
    let file = volume.attach(&format!("/t/{name}"), access).await.unwrap();
    let view = file.canonical().unwrap();
    let written = view.write_at(ViewOffset(offset as u64), Bytes::from(data.clone()));
    written.await.unwrap();
    file.close().await.unwrap();
    let bytes = tree.entry(name.to_owned()).or_default();
    bytes.resize(bytes.len().max(offset + length), 0);
    bytes[offset..offset + length].copy_from_slice(&data);
}

/// Waits until the metadata service is connected to all servers and completes truncations at once.
async fn found_again(volume: &Volume) {
    let access = Access::read_write().create(0o644);
    let probe = volume.attach("/probe", access).await.unwrap();
    let view = probe.canonical().unwrap();
    view.write_at(ViewOffset(0), vec![1; 1 << 20].into())
        .await
        .unwrap();
    probe.close().await.unwrap();
    let started = Instant::now();
    while let Err(error) = volume.truncate("/probe", 0).await {
        assert_eq!(error.code(), Code::Unavailable, "{error}");
        assert!(started.elapsed() < Duration::from_secs(30), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn refused<T>(result: Result<T, Error>, code: Code) {
    let error = result.err().expect("the call is refused");
    assert_eq!(error.code(), code, "{error}");
}

/// Random writes, deletes, renames, truncations, checkpoints, rollbacks, removals of checkpoints
/// and restarts of servers.
async fn model(seed: u64, steps: usize) {
    let mut servers = TestVolume::start(3).await;
    let volume = servers.client().await;
    volume.make_directory("/t", 0o755).await.unwrap();
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut tree, mut kept) = (Tree::new(), BTreeMap::<String, Tree>::new());
    for step in 0..steps {
        let name = ["a", "b", "c", "d"][rng.random_range(0..4)];
        let path = format!("/t/{name}");
        let there = tree.contains_key(name);
        let checkpoint = rng.random_range(0..3).to_string();
        let what = format!("seed {seed}, step {step}");
        match rng.random_range(0..16) {
            0..6 => write(&volume, &mut rng, &mut tree, name).await,
            6 if there => {
                volume.unlink(&path).await.unwrap();
                tree.remove(name);
            }
            7 if there => {
                let to = ["a", "b", "c", "d"][rng.random_range(0..4)];
                volume.rename(&path, &format!("/t/{to}")).await.unwrap();
                let bytes = tree.remove(name).unwrap();
                tree.insert(to.to_owned(), bytes);
            }
            8 if there => {
                let size = rng.random_range(0..100_000);
                volume.truncate(&path, size).await.unwrap();
                tree.get_mut(name).unwrap().resize(size as usize, 0);
            }
            9..12 => {
                let made = volume.make_checkpoint("/t", &checkpoint).await;
                if let std::collections::btree_map::Entry::Vacant(e) = kept.entry(checkpoint) {
                    let bytes: usize = tree.values().map(Vec::len).sum();
                    assert_eq!(made.unwrap().size, bytes as u64, "{what}");
                    e.insert(tree.clone());
                } else {
                    refused(made, Code::Exists);
                }
            }
            12 | 13 => {
                let rolled = volume.roll_back("/t", &checkpoint).await;
                if let Some(then) = kept.get(&checkpoint) {
                    rolled.unwrap();
                    tree = then.clone();
                    same(&volume, "/t", &tree, &what).await;
                } else {
                    refused(rolled, Code::NotFound);
                }
            }
            14 => {
                let removed = volume.remove_checkpoint("/t", &checkpoint).await;
                assert_eq!(
                    removed.is_ok(),
                    kept.remove(&checkpoint).is_some(),
                    "{what}"
                );
            }
            _ => {
                let server = rng.random_range(0..3);
                servers.stop_server(server).await;
                servers.start_server(server).await;
                found_again(&volume).await;
            }
        }
    }
    same(&volume, "/t", &tree, "at the end").await;
    for (name, then) in &kept {
        let root = format!("/t/.weft/checkpoints/{name}");
        same(
            &volume,
            &root,
            then,
            &format!("seed {seed}, checkpoint {name}"),
        )
        .await;
    }
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_and_rollbacks_of_random_trees_match_the_model() {
    let cases = std::env::var("WEFT_CASES")
        .ok()
        .and_then(|c| c.parse().ok());
    for seed in 0..cases.unwrap_or(2) {
        model(seed, 60).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_a_checkpoint_keeps_its_holes_and_can_be_copied() {
    let servers = TestVolume::start(2).await;
    let volume = servers.client().await;
    volume.make_directory("/t", 0o755).await.unwrap();
    let access = Access::read_write().create(0o644);
    let file = volume.attach("/t/f", access.clone()).await.unwrap();
    let view = file.canonical().unwrap();
    let at = 20 << 20;
    view.write_at(ViewOffset(at), vec![7; 10_000].into())
        .await
        .unwrap();
    volume.make_checkpoint("/t", "c").await.unwrap();
    view.write_at(ViewOffset(0), vec![8; 1 << 20].into())
        .await
        .unwrap();
    file.truncate(5).await.unwrap();
    let path = "/t/.weft/checkpoints/c/f";
    let kept = volume.attach(path, Access::read()).await.unwrap();
    assert_eq!(kept.size().await.unwrap(), at + 10_000);
    assert!(kept.canonical().unwrap().size().await.unwrap() == at + 10_000);
    let mut ranges = kept.data_ranges(FileOffset(0), 0);
    let first = ranges.next().await.unwrap().unwrap();
    assert_eq!(first.start, at);
    assert!(kept.forks().await.unwrap().iter().any(|f| f.length > 0));
    let copy = volume.attach("/copy", access).await.unwrap();
    let length = at + 10_000;
    let copied = copy.copy_range(&kept, FileOffset(0), FileOffset(0), length);
    assert_eq!(copied.await.unwrap(), length);
    let found = content(&volume, "/copy").await.unwrap();
    assert!(found[..at as usize].iter().all(|b| *b == 0));
    assert!(found[at as usize..].iter().all(|b| *b == 7));
    let canonical = kept.canonical().unwrap();
    let wrote = canonical.write_at(ViewOffset(0), Bytes::from_static(b"no"));
    refused(wrote.await, Code::Invalid);
    refused(volume.attach(path, Access::write()).await, Code::ReadOnly);
    servers.stop().await;
}

/// The tree has more files on one server than one call names. A writer writes each number to the
/// oldest file and then to the youngest, so the oldest is never behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_a_large_tree_is_consistent() {
    const FILES: usize = TREE_BATCH_MAX + 100;
    let servers = TestVolume::start(1).await;
    let volume = servers.client().await;
    volume.make_directory("/t", 0o755).await.unwrap();
    let access = Access::read_write().create(0o644);
    let made = stream::iter(0..FILES).map(|number| {
        let (volume, access) = (volume.clone(), access.clone());
        tokio::spawn(async move {
            let path = format!("/t/{number}");
            let file = volume.attach(&path, access).await.unwrap();
            let view = file.canonical().unwrap();
            let data = Bytes::from(0_u64.to_le_bytes().to_vec());
            view.write_at(ViewOffset(0), data).await.unwrap();
            (file.id(), file)
        })
    });
    let mut made: Vec<_> = made.buffer_unordered(64).collect().await;
    let files: BTreeMap<_, _> = made.drain(..).map(Result::unwrap).collect();
    assert_eq!(files.len(), FILES);
    let (oldest, youngest) = (files.values().next(), files.values().next_back());
    let views = [oldest, youngest].map(|file| file.unwrap().canonical().unwrap());
    let paths = [oldest, youngest].map(|file| file.unwrap().path()["/t/".len()..].to_owned());
    let ended = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let ended = ended.clone();
        async move {
            let mut number = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                number += 1;
                for view in &views {
                    let data = Bytes::from(number.to_le_bytes().to_vec());
                    view.write_at(ViewOffset(0), data).await.unwrap();
                }
            }
            number
        }
    });
    for round in 0..3 {
        let name = format!("c{round}");
        volume.make_checkpoint("/t", &name).await.unwrap();
        let mut numbers = Vec::new();
        for path in &paths {
            let path = format!("/t/.weft/checkpoints/{name}/{path}");
            let bytes = content(&volume, &path).await.unwrap();
            numbers.push(u64::from_le_bytes(bytes.try_into().unwrap()));
        }
        let ahead = numbers[0].checked_sub(numbers[1]);
        assert!(ahead.is_some_and(|ahead| ahead <= 1), "{numbers:?}");
    }
    ended.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 3);
    // The checkpoint has all files.
    let names = volume.list("/t/.weft/checkpoints/c0").all().await.unwrap();
    assert_eq!(names.len(), FILES);
    assert!(names.iter().all(|entry| entry.attributes.size == 8));
    volume.roll_back("/t", "c0").await.unwrap();
    volume.remove_checkpoint("/t", "c0").await.unwrap();
    servers.stop().await;
}

async fn median(mut work: impl AsyncFnMut(usize) -> Duration) -> Duration {
    let mut times = Vec::new();
    for i in 0..9 {
        times.push(work(i).await);
    }
    times.sort_unstable();
    times[4]
}

/// Writes one byte into each of `chunks` sparse chunks of 64 KiB, spread over `length`.
async fn fill(volume: &Volume, path: &str, chunks: u64, length: u64) {
    const AT_ONCE: u64 = 4096;
    let layout = NewLayout {
        chunk: Some(65_536),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    let view = file.canonical().unwrap();
    let stride = length / chunks;
    let mut at = 0;
    while at < chunks {
        let now = AT_ONCE.min(chunks - at);
        let pattern = Pattern::bytes(1).every(stride.cast_signed()).times(now);
        let transfer = Transfer::of(pattern).at(ViewOffset(at * stride));
        let data = Bytes::from(vec![1; now as usize]);
        view.write_with(&transfer, data).await.unwrap();
        at += now;
    }
    view.write_at(ViewOffset(length - 1), Bytes::from_static(b"e"))
        .await
        .unwrap();
    file.sync().await.unwrap();
    file.close().await.unwrap();
}

/// The duration of writing 64 MiB, 1 MiB at a time, and a sync.
async fn writes(volume: &Volume, path: &str) -> Duration {
    let access = Access::write().create(0o644);
    let file = volume.attach(path, access).await.unwrap();
    let view = file.canonical().unwrap();
    let data = Bytes::from(vec![3; 1 << 20]);
    let started = Instant::now();
    for i in 0..64 {
        view.write_at(ViewOffset(i << 20), data.clone())
            .await
            .unwrap();
    }
    file.sync().await.unwrap();
    file.close().await.unwrap();
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "fills 100,000 chunks and measures; run alone"]
async fn a_checkpoint_of_a_terabyte_takes_as_long_as_one_of_a_megabyte() {
    let chunks = std::env::var("WEFT_CHUNKS")
        .ok()
        .and_then(|c| c.parse().ok());
    let chunks = chunks.unwrap_or(100_000);
    let servers = TestVolume::start(2).await;
    let volume = servers.client().await;
    fill(&volume, "/short", 16, 1 << 20).await;
    fill(&volume, "/long", chunks, 1 << 40).await;
    let mut made = Vec::new();
    for path in ["/short", "/long"] {
        made.push(
            median(async |i| {
                let started = Instant::now();
                let done = volume.make_checkpoint(path, &i.to_string()).await;
                done.unwrap();
                started.elapsed()
            })
            .await,
        );
    }
    for _ in 0..2 {
        writes(&volume, "/w").await;
    }
    let before = median(async |_| writes(&volume, "/w").await).await;
    let after = median(async |i| {
        volume.make_checkpoint("/w", &i.to_string()).await.unwrap();
        writes(&volume, "/w").await
    })
    .await;
    let ratio = before.as_secs_f64() / after.as_secs_f64();
    println!(
        "checkpoint of 1 MiB {:?}, of 1 TiB with {chunks} chunks {:?}; writes after one {ratio:.2} of before",
        made[0], made[1]
    );
    assert!(
        made.iter().all(|t| *t < Duration::from_millis(50)),
        "{made:?}"
    );
    assert!(made[1] < made[0] * 2, "{made:?}");
    assert!(ratio >= 0.8, "{ratio}");
    servers.stop().await;
}

/// Operations posted on a view of a checkpoint use the checkpoint, not the live file.
#[tokio::test(flavor = "multi_thread")]
async fn operations_posted_on_a_checkpoint_read_it_and_write_nothing() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let access = Access::read_write().create(0o644);
    let file = volume.attach("/kept", access).await.unwrap();
    let view = file.canonical().unwrap();
    let (old, new) = (Bytes::from(vec![1; 300]), Bytes::from(vec![2; 300]));
    view.write_at(ViewOffset(0), old.clone()).await.unwrap();
    let checkpoint = volume.make_checkpoint("/kept", "then").await.unwrap();
    view.write_at(ViewOffset(0), new.clone()).await.unwrap();
    let kept = file.canonical().unwrap().of_checkpoint(&checkpoint);
    let all = || Transfer::of(Pattern::bytes(300));
    let alone = |id| Group::new(id, 1, 0);
    let reads = [
        kept.post_read_at(ViewOffset(0), vec![0; 300]),
        kept.post_read_with(all(), vec![0; 300]),
        kept.post_read(300),
    ];
    for read in reads {
        assert_eq!(read.wait().await.unwrap().buffer, old);
    }
    let group = alone("reads");
    let read = kept.collective(&group).post_read(all(), vec![0; 300]);
    assert_eq!(read.wait().await.unwrap().1, old);
    let written = [
        kept.post_write_at(ViewOffset(0), old.clone()),
        kept.post_write_with(all(), old.clone()),
    ];
    for written in written {
        refused(written.wait().await, Code::Invalid);
    }
    let group = alone("writes");
    let written = kept.collective(&group).post_write(all(), old.clone());
    refused(written.wait().await, Code::Invalid);
    let mut lives = vec![0; 300];
    view.read_at(ViewOffset(0), &mut lives).await.unwrap();
    assert_eq!(lives, new);
    test.stop().await;
}
