//! Consistency policies on real servers: what each promises, and what it costs.

use crate::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::TestVolume;
use common::linear::{Event, is_linearizable};
use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{Access, Changes, DiskCacheOptions, File, NewLayout, OpenView, Policy, Volume};
use weft_layout::{FileOffset, Storage, View, ViewOffset};
use weft_proto::{Code, Kind};

const SERVERS: u32 = 3;
const CHUNK: u64 = 4096;
/// Bytes of a file: two chunks on each server.
const LENGTH: usize = 2 * SERVERS as usize * CHUNK as usize;

fn layout() -> NewLayout {
    NewLayout {
        bsu: Some(CHUNK),
        chunk: Some(CHUNK as u32),
        storage: Some(Storage::Addressed),
        ..NewLayout::default()
    }
}

async fn open(volume: &Volume, path: &str, policy: Policy) -> OpenView {
    let access = Access::read_write().create(0o644).layout(&layout());
    let file = volume.attach(path, access.policy(policy)).await.unwrap();
    file.view(View::canonical()).unwrap()
}

fn random(seed: u64) -> Bytes {
    let mut data = vec![0; LENGTH];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut data);
    data.into()
}

async fn write(view: &OpenView, data: impl Into<Bytes>) {
    view.write_at(ViewOffset(0), data.into()).await.unwrap();
}

async fn read(view: &OpenView) -> Vec<u8> {
    let mut data = vec![0; LENGTH];
    let bytes = view.read_at(ViewOffset(0), &mut data).await.unwrap();
    data.truncate(bytes as usize);
    data
}

/// Calls of a kind so far.
fn calls(volume: &Volume, kind: Kind) -> u64 {
    let counters = volume.counters();
    let found = counters.calls.iter().find(|(of, _)| *of == kind);
    found.map_or(0, |(_, calls)| *calls)
}

/// Calls that a read by this view costs: for names, and for bytes.
async fn cost(view: &OpenView, expected: &[u8]) -> (u64, u64) {
    let volume = view.file().volume();
    let before = (calls(volume, Kind::ReadNames), calls(volume, Kind::Read));
    assert!(read(view).await == expected);
    (
        calls(volume, Kind::ReadNames) - before.0,
        calls(volume, Kind::Read) - before.1,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_names_and_chunks_cost_no_call() {
    let test = TestVolume::start(SERVERS).await;
    let (writer, reader) = (test.client().await, test.client().await);
    let servers = u64::from(SERVERS);
    for (policy, again) in [
        (Policy::POSIX, (0, servers)),
        (Policy::SEQ_1, (0, servers)),
        (Policy::SEQ_2, (0, 0)),
        (Policy::FOR_1, (0, servers)),
        (Policy::FOR_2, (0, 0)),
        (Policy::REL_1, (0, 0)),
        (Policy::SESSION, (0, 0)),
        (Policy::NFS, (0, 0)),
        (Policy::IMMUTABLE, (0, 0)),
    ] {
        let path = format!("/{policy}");
        let data = random(1);
        let written = open(&writer, &path, policy).await;
        write(&written, data.clone()).await;
        written.file().close().await.unwrap();
        let access = Access::read().policy(policy);
        let view = reader.attach(path, access).await.unwrap();
        let view = view.view(View::canonical()).unwrap();
        cost(&view, &data).await;
        assert_eq!(cost(&view, &data).await, again, "{policy}");
    }
    test.stop().await;
}

/// A client that has read nothing yet finds what others of its machine have read.
#[tokio::test(flavor = "multi_thread")]
async fn chunks_on_disk_are_shared_by_clients_and_never_wrong() {
    let test = TestVolume::start(SERVERS).await;
    let folder = tempfile::tempdir().unwrap();
    let client = async || {
        let mut options = test.options();
        options.disk_cache = Some(DiskCacheOptions::at(folder.path()));
        Volume::connect(options).await.unwrap()
    };
    let servers = u64::from(SERVERS);
    let (data, other) = (random(1), random(2));
    let written = open(&test.client().await, "/f", Policy::FOR_1).await;
    write(&written, data.clone()).await;
    let view = open(&client().await, "/f", Policy::SEQ_2).await;
    assert_eq!(cost(&view, &data).await, (servers, servers));
    let files = || {
        let folders = std::fs::read_dir(folder.path()).unwrap();
        let files = folders.flat_map(|of| std::fs::read_dir(of.unwrap().path()).unwrap());
        let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths
    };
    // They go to the disk by themselves; a file that is not complete has an extension.
    let complete = async |chunks: usize| loop {
        let files = files();
        if files.len() == chunks && files.iter().all(|file| file.extension().is_none()) {
            return files;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let chunks = LENGTH / CHUNK as usize;
    complete(chunks).await;
    let view = open(&client().await, "/f", Policy::SEQ_2).await;
    assert_eq!(cost(&view, &data).await, (servers, 0));
    // A file with some of the chunks, and names of its own.
    let mut mixed = other.to_vec();
    mixed[..CHUNK as usize].copy_from_slice(&data[..CHUNK as usize]);
    let copy = open(&test.client().await, "/g", Policy::FOR_1).await;
    write(&copy, mixed.clone()).await;
    let view = open(&client().await, "/g", Policy::SEQ_2).await;
    assert!(cost(&view, &mixed).await.1 > 0);
    for path in complete(2 * chunks - 1).await {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[9] ^= 4;
        std::fs::write(&path, bytes).unwrap();
    }
    let view = open(&client().await, "/f", Policy::SEQ_2).await;
    assert_eq!(cost(&view, &data).await, (servers, servers));
    let mut options = test.options();
    let (bytes, folder) = (1 << 20, folder.path().to_owned());
    options.disk_cache = Some(DiskCacheOptions { folder, bytes });
    let refused = Volume::connect(options).await.err().unwrap().to_string();
    assert!(refused.contains("at least 64 MiB"), "{refused}");
    test.stop().await;
}

/// The only sharer gets the new names: it asks for the bytes alone. Of several, each asks again.
#[tokio::test(flavor = "multi_thread")]
async fn one_sharer_is_updated_and_several_are_invalidated() {
    let test = TestVolume::start(SERVERS).await;
    let clients = join_all((0..3).map(|_| test.client())).await;
    let servers = u64::from(SERVERS);
    let views = clients.iter().map(|c| open(c, "/shared", Policy::FOR_2));
    let views = join_all(views).await;
    write(&views[0], random(1)).await;
    assert_eq!(cost(&views[1], &random(1)).await, (servers, servers));
    write(&views[0], random(2)).await;
    assert_eq!(cost(&views[1], &random(2)).await, (0, servers));
    // Chunks that a client has had before are there, whatever the file was meanwhile.
    write(&views[0], random(1)).await;
    assert_eq!(cost(&views[1], &random(1)).await, (0, 0));
    assert_eq!(cost(&views[2], &random(1)).await, (servers, servers));
    write(&views[0], random(3)).await;
    for view in &views[1..] {
        assert_eq!(cost(view, &random(3)).await, (servers, servers));
    }
    // A sharer that has closed the file is none.
    views[2].file().close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    write(&views[0], random(4)).await;
    assert_eq!(cost(&views[1], &random(4)).await, (0, servers));
    test.stop().await;
}

fn whole(byte: u8) -> Bytes {
    Bytes::from(vec![byte; LENGTH])
}

/// The byte that the whole file consists of.
async fn read_same(view: &OpenView) -> u8 {
    let bytes = read(view).await;
    let values: BTreeSet<u8> = bytes.iter().copied().collect();
    assert!(
        bytes.len() == LENGTH && values.len() == 1,
        "a mixture of {values:?}"
    );
    bytes[0]
}

/// Clients that read and write, with a pause after each write that lets readers keep names.
async fn history(test: &TestVolume, path: &str, policies: &[Policy], operations: u8) -> Vec<Event> {
    let next = Arc::new(AtomicU8::new(1));
    let mut clients = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        let view = open(&test.client().await, path, *policy).await;
        let next = next.clone();
        clients.push(tokio::spawn(async move {
            let mut rng = SmallRng::seed_from_u64(number as u64);
            let mut events = Vec::new();
            for _ in 0..operations {
                let began = Instant::now();
                let is_write = rng.random_range(0..4) == 0;
                let value = if is_write {
                    let value = next.fetch_add(1, Ordering::SeqCst);
                    write(&view, whole(value)).await;
                    value
                } else {
                    read_same(&view).await
                };
                events.push(Event {
                    value,
                    is_write,
                    began,
                    ended: Instant::now(),
                });
                if is_write {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            events
        }));
    }
    let all = join_all(clients).await;
    all.into_iter().flat_map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_in_order_are_linearizable_with_kept_names() {
    let test = TestVolume::start(SERVERS).await;
    let mixes: [&[Policy]; 2] = [
        &[Policy::SEQ_2; 4],
        &[Policy::SEQ_1, Policy::SEQ_2, Policy::POSIX, Policy::SEQ_2],
    ];
    for (number, policies) in mixes.into_iter().enumerate() {
        let path = format!("/shared{number}");
        let began = Instant::now();
        let first = open(&test.client().await, &path, Policy::SEQ_1).await;
        write(&first, whole(0)).await;
        let mut events = history(&test, &path, policies, 200).await;
        events.push(Event {
            value: 0,
            is_write: true,
            began,
            ended: began,
        });
        assert!(is_linearizable(&events), "{events:?}");
    }
    test.stop().await;
}

/// What a client wrote before another one's read began is in that read, chunk by chunk.
#[tokio::test(flavor = "multi_thread")]
async fn coherent_names_never_show_what_was_overwritten() {
    let test = TestVolume::start(SERVERS).await;
    for policy in [Policy::FOR_2, Policy::SEQ_2] {
        let path = format!("/{policy}");
        let writing = open(&test.client().await, &path, Policy::FOR_1).await;
        write(&writing, whole(0)).await;
        let acknowledged = Arc::new(AtomicU8::new(0));
        let done = Arc::new(AtomicBool::new(false));
        let mut readers = Vec::new();
        for _ in 0..3 {
            let view = open(&test.client().await, &path, policy).await;
            let (acknowledged, done) = (acknowledged.clone(), done.clone());
            readers.push(tokio::spawn(async move {
                let mut reads = 0;
                while !done.load(Ordering::SeqCst) {
                    let least = acknowledged.load(Ordering::SeqCst);
                    let bytes = read(&view).await;
                    let found = *bytes.iter().min().unwrap();
                    assert!(found >= least, "{found} after {least} was acknowledged");
                    reads += 1;
                    // Other tests run on the same cores.
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
                reads
            }));
        }
        for byte in 1..=150 {
            write(&writing, whole(byte)).await;
            acknowledged.store(byte, Ordering::SeqCst);
            if byte % 3 == 0 {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
        done.store(true, Ordering::SeqCst);
        for reader in readers {
            assert!(reader.await.unwrap() > 10);
        }
    }
    test.stop().await;
}

/// Everything that changes a file's bytes ends what others keep of it.
#[tokio::test(flavor = "multi_thread")]
async fn every_change_ends_kept_names() {
    let test = TestVolume::start(SERVERS).await;
    let (volume, other) = (test.client().await, test.client().await);
    let reader = open(&other, "/file", Policy::SEQ_2).await;
    let writer = open(&volume, "/file", Policy::FOR_1).await;
    let source = open(&volume, "/source", Policy::FOR_1).await;
    let (one, two) = (random(1), random(2));
    write(&source, two.clone()).await;
    let file = writer.file();
    let zeros = vec![0; LENGTH];
    for change in 0..8 {
        write(&writer, one.clone()).await;
        volume.make_checkpoint("/file", "kept").await.unwrap();
        assert!(read(&reader).await == one);
        let expected = match change {
            0 => {
                writer.clear(ViewOffset(0), LENGTH as u64).await.unwrap();
                zeros.clone()
            }
            1 => {
                file.truncate(CHUNK).await.unwrap();
                one[..CHUNK as usize].to_vec()
            }
            2 => {
                file.truncate(0).await.unwrap();
                Vec::new()
            }
            3 => {
                let to = FileOffset(0);
                let copied = file.copy_range(source.file(), to, to, LENGTH as u64);
                copied.await.unwrap();
                two.to_vec()
            }
            4 => {
                write(&writer, two.clone()).await;
                assert!(read(&reader).await == two);
                volume.roll_back("/file", "kept").await.unwrap();
                one.to_vec()
            }
            5 => {
                // By names alone: the servers have the chunks.
                write(&writer, two.clone()).await;
                two.to_vec()
            }
            6 => {
                let cautious = open(&volume, "/file", Policy::POSIX).await;
                write(&cautious, two.clone()).await;
                two.to_vec()
            }
            _ => {
                let strided = file.view(View::Partition(weft_layout::Partition {
                    offset: 0,
                    group: 10,
                    stride: 20,
                }));
                let half = vec![9; LENGTH / 20 * 10];
                strided
                    .unwrap()
                    .write_at(ViewOffset(0), half.into())
                    .await
                    .unwrap();
                let mut expected = one.to_vec();
                for (at, byte) in expected[..LENGTH / 20 * 20].iter_mut().enumerate() {
                    if at % 20 < 10 {
                        *byte = 9;
                    }
                }
                expected
            }
        };
        assert!(read(&reader).await == expected, "change {change}");
        volume.remove_checkpoint("/file", "kept").await.unwrap();
    }
    test.stop().await;
}

/// A client that is stopped is waited for, not for ever; afterwards it believes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_sharer_delays_a_change_for_a_few_seconds_and_believes_nothing_afterwards() {
    let test = TestVolume::start(SERVERS).await;
    let writer = open(&test.client().await, "/shared", Policy::SEQ_1).await;
    write(&writer, whole(1)).await;
    let (volume, stop) = test.stopping_client().await;
    let stopped = open(&volume, "/shared", Policy::SEQ_2).await;
    assert_eq!(read_same(&stopped).await, 1);
    stop.reads.stop();
    stop.writes.stop();
    let began = Instant::now();
    write(&writer, whole(2)).await;
    let took = began.elapsed();
    // Its last read may still have its claims, too: 15 seconds, and what a busy machine adds.
    assert!(
        took > Duration::from_secs(2) && took < Duration::from_secs(30),
        "{took:?}"
    );
    let mut bytes = vec![0; LENGTH];
    let reading = stopped.read_at(ViewOffset(0), &mut bytes);
    let read = tokio::time::timeout(Duration::from_millis(500), reading).await;
    assert!(read.is_err(), "it read without its servers: {read:?}");
    // Nobody waits for it any more.
    let began = Instant::now();
    write(&writer, whole(3)).await;
    assert!(began.elapsed() < Duration::from_secs(2));
    test.stop().await;
}

/// Servers that restart have no sharers, and their clients notice.
#[tokio::test(flavor = "multi_thread")]
async fn kept_names_end_with_their_server() {
    let mut test = TestVolume::start(SERVERS).await;
    let (volume, other) = (test.client().await, test.client().await);
    let writer = open(&volume, "/shared", Policy::SEQ_1).await;
    let reader = open(&other, "/shared", Policy::SEQ_2).await;
    for byte in 1..4 {
        write(&writer, whole(byte)).await;
        assert_eq!(read_same(&reader).await, byte);
        let server = usize::from(byte) % SERVERS as usize;
        test.stop_server(server).await;
        test.start_server(server).await;
        write(&writer, whole(100 + byte)).await;
        assert_eq!(read_same(&reader).await, 100 + byte);
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_not_coherent_end_as_their_policy_says() {
    let test = TestVolume::start(SERVERS).await;
    let (volume, other) = (test.client().await, test.client().await);
    let writer = open(&volume, "/file", Policy::FOR_1).await;
    write(&writer, whole(1)).await;
    let attach = |policy| open(&other, "/file", policy);
    let (relaxed, session) = (attach(Policy::REL_1).await, attach(Policy::SESSION).await);
    let nfs = attach(Policy::NFS).await;
    let began = Instant::now();
    for view in [&relaxed, &session, &nfs] {
        assert_eq!(read_same(view).await, 1);
    }
    write(&writer, whole(2)).await;
    if began.elapsed() < Duration::from_secs(2) {
        for view in [&relaxed, &session, &nfs] {
            assert_eq!(read_same(view).await, 1, "{:?}", view.file().policy());
        }
    }
    // Their own writes are seen, whatever the policy.
    for (view, byte) in [(&relaxed, 3), (&session, 4), (&nfs, 5)] {
        write(view, whole(byte)).await;
        assert_eq!(read_same(view).await, byte);
    }
    tokio::time::sleep(Duration::from_millis(3100)).await;
    write(&writer, whole(6)).await;
    assert_eq!(read_same(&nfs).await, 6);
    assert_eq!(
        (read_same(&relaxed).await, read_same(&session).await),
        (3, 4)
    );
    relaxed.file().sync().await.unwrap();
    session.file().sync().await.unwrap();
    assert_eq!(
        (read_same(&relaxed).await, read_same(&session).await),
        (6, 4)
    );
    // An open sees all that was written before it.
    let again = attach(Policy::SESSION).await;
    assert_eq!(read_same(&again).await, 6);
    // A policy changes while the file is open.
    session.file().set_policy(Policy::SEQ_2).unwrap();
    assert_eq!(read_same(&session).await, 6);
    write(&writer, whole(7)).await;
    assert_eq!(read_same(&session).await, 7);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_a_file_cannot_have_is_refused() {
    let test = TestVolume::start(SERVERS).await;
    let volume = test.client().await;
    let plain = NewLayout {
        storage: Some(Storage::Plain),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&plain);
    let file = volume.attach("/plain", access).await.unwrap();
    for policy in Policy::all() {
        let fits = policy.fits(Storage::Plain);
        let set = file.set_policy(policy);
        let attached = volume.attach("/plain", Access::read().policy(policy)).await;
        assert_eq!((set.is_ok(), attached.is_ok()), (fits, fits), "{policy}");
        if let Err(error) = set {
            assert_eq!(error.code(), Code::Invalid);
            let said = error.to_string();
            let says = [
                "/plain",
                policy.name(),
                "posix, session, nfs",
                "weft create --addressed",
            ];
            assert!(says.iter().all(|part| said.contains(part)), "{said}");
        }
    }
    // What was written is not written again.
    let first = open(&volume, "/once", Policy::IMMUTABLE).await;
    write(&first, whole(1)).await;
    first.file().close().await.unwrap();
    let again = Access::read_write().policy(Policy::IMMUTABLE);
    let refused = volume.attach("/once", again).await.err().unwrap();
    assert!(refused.to_string().contains("written before"), "{refused}");
    let changes = Changes {
        policy: Some(Some(Policy::IMMUTABLE)),
        ..Changes::default()
    };
    volume.set_attributes("/once", &changes).await.unwrap();
    let refused = volume.truncate("/once", 0).await.err().unwrap();
    assert!(refused.to_string().contains("written before"), "{refused}");
    let reading = volume.attach("/once", Access::read().policy(Policy::IMMUTABLE));
    let file: File = reading.await.unwrap();
    assert_eq!(read_same(&file.canonical().unwrap()).await, 1);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_comes_from_the_open_the_file_its_directory_or_the_volume() {
    let test = TestVolume::start(SERVERS).await;
    let volume = test.client().await;
    let mut options = test.options();
    options.policy = Some(Policy::REL_1);
    let relaxed = Volume::connect(options).await.unwrap();
    let set = async |path, policy| {
        let changes = Changes {
            policy: Some(policy),
            ..Changes::default()
        };
        volume.set_attributes(path, &changes).await.unwrap();
    };
    let create = async |volume: &Volume, path: &'static str, storage| {
        let layout = NewLayout {
            storage: Some(storage),
            ..NewLayout::default()
        };
        let access = Access::write().create(0o644).layout(&layout);
        let file = volume.attach(path, access).await.unwrap();
        (file.policy(), file.is_cautious())
    };
    volume.make_directory("/d", 0o755).await.unwrap();
    let of_none = create(&volume, "/none", Storage::Addressed).await;
    assert_eq!(of_none, (None, false));
    let of_volume = create(&relaxed, "/none", Storage::Addressed).await;
    assert_eq!(of_volume, (Some(Policy::REL_1), false));
    set("/d", Some(Policy::SEQ_2)).await;
    volume.make_directory("/d/e", 0o755).await.unwrap();
    let of_directory = create(&relaxed, "/d/e/f", Storage::Addressed).await;
    assert_eq!(of_directory, (Some(Policy::SEQ_2), true));
    // A plain file gets what is at least as strict, or needs nothing.
    let plain = create(&volume, "/d/e/plain", Storage::Plain).await;
    assert_eq!(plain, (Some(Policy::POSIX), true));
    set("/d/e/plain", Some(Policy::FOR_2)).await;
    let plain = create(&volume, "/d/e/plain", Storage::Plain).await;
    assert_eq!(plain, (None, false));
    set("/d/e/f", None).await;
    assert_eq!(
        create(&volume, "/d/e/f", Storage::Addressed).await,
        (None, false)
    );
    let access = Access::read().policy(Policy::NFS);
    let file = volume.attach("/d/e/f", access).await.unwrap();
    assert_eq!(file.policy(), Some(Policy::NFS));
    // Whoever takes an attachment over has its policy.
    let adopted = relaxed.adopt(&file.hand_over()).unwrap();
    assert_eq!(adopted.policy(), Some(Policy::NFS));
    test.stop().await;
}
