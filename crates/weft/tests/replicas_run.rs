//! Writers and readers that check every byte, by requests and by plain calls on a mount, while
//! replicas are killed, stopped, wiped and replaced in turn.
//!
//! `WEFT_SECONDS` is how long (20 if it is not set), `WEFT_SEED` chooses other operations.

mod replicas_support;

use std::fs::File as LocalFile;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use replicas_support::{Replicated, Which, text, weft};
use rustix::process::{Signal, kill_process};
use weft_client::{Access, ConnectOptions, NewLayout, SpreadReads, Transfer, Volume};
use weft_layout::{Pattern, ViewOffset};
use weft_proto::Code;

/// Bytes of each worker's file.
const LENGTH: usize = 3 << 20;
/// No call takes longer, whatever happens to one replica.
const CALL_MAX: Duration = Duration::from_secs(30);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(length).collect()
    }

    /// A place, and how many bytes from there: mostly few, sometimes many.
    fn range(&mut self) -> (usize, usize) {
        let most = [5_000, 5_000, 300_000, 2_000_000][self.below(4)];
        let at = self.below(LENGTH);
        (at, 1 + self.below(most.min(LENGTH - at)))
    }
}

/// What the workers share.
#[derive(Default)]
struct Run {
    ended: AtomicBool,
    calls: AtomicU64,
    /// Syncs that reported a loss: see `docs/design/0046-replicas.md`, "State".
    losses: AtomicU64,
}

impl Run {
    fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    fn note(&self, what: &str, began: Instant) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let took = began.elapsed();
        assert!(took < CALL_MAX, "{what} took {took:?}");
    }
}

/// Works on a file by requests, some of them strided, with checkpoints.
async fn by_requests(volume: Volume, run: Arc<Run>, seed: u64) {
    let mut random = Random(seed | 1);
    let path = format!("/requests-{seed}");
    let layout = NewLayout {
        cells: Some(2),
        bsu: Some(10_000),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach(path.as_str(), access).await.unwrap();
    let view = file.canonical().unwrap();
    let mut model = vec![0; LENGTH];
    let zeros = model.clone().into();
    view.write_at(ViewOffset(0), zeros).await.unwrap();
    while run.goes_on() {
        let began = Instant::now();
        match random.below(8) {
            0..3 => {
                let (at, length) = random.range();
                let data = random.bytes(length);
                model[at..at + length].copy_from_slice(&data);
                let at = ViewOffset(at as u64);
                view.write_at(at, data.into()).await.unwrap();
                run.note("a write", began);
            }
            3 => {
                // Records of 700 bytes, 4,000 apart.
                let (at, count) = (random.below(100_000), 1 + random.below(500));
                let pattern = Pattern::bytes(700).every(4_000).times(count as u64);
                let transfer = Transfer::of(pattern).at(ViewOffset(at as u64));
                let data = random.bytes(700 * count);
                for (record, bytes) in data.chunks(700).enumerate() {
                    let at = at + record * 4_000;
                    model[at..at + 700].copy_from_slice(bytes);
                }
                view.write_with(&transfer, data.into()).await.unwrap();
                run.note("a strided write", began);
            }
            4 => {
                match file.sync().await {
                    Err(error) if error.code() == Code::Lost => {
                        run.losses.fetch_add(1, Ordering::Relaxed);
                    }
                    done => done.unwrap(),
                }
                run.note("a sync", began);
            }
            _ => {
                let (at, length) = random.range();
                let mut read = vec![1; length];
                let count = view.read_at(ViewOffset(at as u64), &mut read).await;
                assert_eq!(count.unwrap(), length as u64);
                assert!(read == model[at..at + length], "{path}: bytes at {at}");
                run.note("a read", began);
            }
        }
    }
    // One replica after the other.
    for _ in 0..4 {
        let mut read = vec![1; LENGTH];
        view.read_at(ViewOffset(0), &mut read).await.unwrap();
        assert!(read == model, "{path}: at the end");
    }
    match file.close().await {
        Err(error) if error.code() == Code::Lost => {
            run.losses.fetch_add(1, Ordering::Relaxed);
        }
        done => done.unwrap(),
    }
}

/// Works on a file by plain calls.
fn by_plain_calls(directory: &Path, run: &Run, seed: u64) {
    let mut random = Random(seed | 1);
    let path = directory.join(format!("plain-{seed}"));
    let open = || {
        let mut options = LocalFile::options();
        options.read(true).write(true).create(true).truncate(false);
        options.open(&path).unwrap()
    };
    let mut file = open();
    let mut model = vec![0; LENGTH];
    file.write_all_at(&model, 0).unwrap();
    while run.goes_on() {
        let began = Instant::now();
        match random.below(8) {
            0..3 => {
                let (at, length) = random.range();
                let data = random.bytes(length);
                model[at..at + length].copy_from_slice(&data);
                file.write_all_at(&data, at as u64).unwrap();
                run.note("a write", began);
            }
            3 => {
                if file.sync_data().is_err() {
                    run.losses.fetch_add(1, Ordering::Relaxed);
                }
                run.note("an fsync", began);
            }
            4 => {
                file = open();
                run.note("an open", began);
            }
            _ => {
                let (at, length) = random.range();
                let mut read = vec![1; length];
                file.read_exact_at(&mut read, at as u64).unwrap();
                assert!(
                    read == model[at..at + length],
                    "{}: at {at}",
                    path.display()
                );
                run.note("a read", began);
            }
        }
    }
    assert!(std::fs::read(&path).unwrap() == model, "{}", path.display());
}

/// A client whose reads go to all replicas in turn: what one has shown, the next one must show.
async fn client(up: &Replicated) -> Volume {
    let mut options = ConnectOptions::from_folder(up.folder()).unwrap();
    options.spread_reads = SpreadReads { least: 1, step: 0 };
    Volume::connect(options).await.unwrap()
}

/// Something happens to one replica; all are in sync when it returns.
async fn harm(up: &Replicated, random: &mut Random) -> String {
    let server = random.below(2);
    let which = [Which::Primary, Which::Backup][random.below(2)];
    let what = ["killed", "stopped", "wiped", "replaced"][random.below(4)];
    let (name, pid) = up.replica(server, which);
    match what {
        "stopped" => {
            kill_process(pid, Signal::STOP).unwrap();
            let time = Duration::from_millis(500 + random.next() % 7000);
            tokio::time::sleep(time).await;
            kill_process(pid, Signal::CONT).unwrap();
        }
        "replaced" => {
            let out = weft(&["--volume", up.path(), "server", "replace", &name]);
            assert!(out.status.success(), "{}", text(&out));
        }
        _ => {
            kill_process(pid, Signal::KILL).unwrap();
            let at_once = random.below(2) == 0;
            if !at_once {
                up.noticed().await;
            }
            if what == "wiped" {
                std::fs::remove_dir_all(up.folder().join(&name)).unwrap();
                let out = weft(&["format", "--config", up.path(), "--node", &name]);
                assert!(out.status.success(), "{}", text(&out));
            }
            up.start();
            if at_once {
                // Until its new process was noticed: what is killed next must not be the last one
                // that has everything.
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        }
    }
    up.in_sync().await;
    format!("{name} ({which:?}) {what}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_is_right_while_replicas_are_killed_stopped_wiped_and_replaced() {
    let seconds = number("WEFT_SECONDS").unwrap_or(20);
    let seed = number("WEFT_SEED").unwrap_or_else(|| std::process::id().into());
    println!("WEFT_SEED={seed}");
    let up = Replicated::up();
    let run = Arc::new(Run::default());
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..2 {
        workers.spawn(by_requests(client(&up).await, run.clone(), seed + worker));
    }
    let mount = up.folder().with_file_name("mnt");
    std::fs::create_dir(&mount).unwrap();
    let can_mount = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if can_mount {
        let out = weft(&["--volume", up.path(), "mount", mount.to_str().unwrap()]);
        assert!(out.status.success(), "{}", text(&out));
        for worker in 2..4 {
            let (mount, run) = (mount.clone(), run.clone());
            workers.spawn_blocking(move || by_plain_calls(&mount, &run, seed + worker));
        }
    } else {
        println!("SKIPPED: the plain calls, since this machine cannot mount");
    }
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (began, mut harmed) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        let what = harm(&up, &mut random).await;
        let calls = run.calls.load(Ordering::Relaxed);
        println!("{:4} s: {what}; {calls} calls", began.elapsed().as_secs());
        harmed += 1;
        // A worker that has failed ends the run at once.
        while let Some(ended) = workers.try_join_next() {
            ended.unwrap();
        }
    }
    run.ended.store(true, Ordering::Relaxed);
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    println!(
        "{harmed} replicas harmed, {} calls, {} syncs that reported a loss",
        run.calls.load(Ordering::Relaxed),
        run.losses.load(Ordering::Relaxed)
    );
    assert!(run.calls.load(Ordering::Relaxed) > 100);
    if can_mount {
        let out = weft(&["unmount", mount.to_str().unwrap()]);
        assert!(out.status.success(), "{}", text(&out));
    }
    let out = weft(&["scrub", up.path()]);
    assert!(out.status.success(), "{}", text(&out));
    let out = weft(&["fsck", up.path()]);
    assert!(out.status.success(), "{}", text(&out));
}
