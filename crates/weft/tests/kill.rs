//! kill −9 of each process of a volume in turn, then of some at random, under mixed load, against a
//! manifest of acknowledged operations; and power loss.

mod power;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_client::{Access, ConnectOptions, File, NewLayout, Volume};
use weft_layout::{CellIndex, View, ViewOffset};

const SERVERS: usize = 3;
/// The load of a round before processes are killed, at most.
const WORK: Duration = Duration::from_millis(250);
const WRITERS: u64 = 4;
const SLOTS: u64 = 400;
/// Odd, so that records straddle blocks.
const SMALL: u64 = 1_111;
/// Large enough for direct I/O.
const LARGE: u64 = 150_001;

fn weft(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(args)
        .output()
        .unwrap()
}

/// A volume in the background, stopped on drop.
struct Up<'a>(&'a Path);

impl Up<'_> {
    fn start(&self) {
        let out = weft(&[
            "up",
            self.0.to_str().unwrap(),
            "--servers",
            &SERVERS.to_string(),
        ]);
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// Kills nodes: 0 is the metadata service, then the servers.
    fn kill(&self, nodes: &[usize]) {
        let out = weft(&["status", self.0.to_str().unwrap(), "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        for node in nodes {
            let row = match node {
                0 => &status["meta"],
                server => &status["servers"][server - 1],
            };
            let pid = i32::try_from(row["pid"].as_i64().unwrap()).unwrap();
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        weft(&["down", self.0.to_str().unwrap()]);
    }
}

/// The acknowledged state, and states that the servers may hold instead.
#[derive(Default)]
struct Manifest {
    /// The version that must exist, by writer and slot.
    acknowledged: BTreeMap<(u64, u64), u64>,
    /// Versions that may exist instead, because the write was not acknowledged.
    possible: BTreeMap<(u64, u64), Vec<u64>>,
    names: Vec<String>,
    /// Names that were removed or renamed.
    gone: Vec<String>,
    /// One name of each pair exists: the rename was not acknowledged.
    either: Vec<(String, String)>,
    syncs: usize,
    checkpoints: usize,
}

/// Which processes die in a round, and after how much of the load.
fn victims(round: u64, seed: u64) -> (Vec<usize>, Duration) {
    let all = SERVERS + 1;
    if round < all as u64 {
        return (vec![round as usize], WORK);
    }
    let dice = round.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let dice = dice ^ dice >> 29;
    let set = 1 + dice % ((1 << all) - 1);
    let nodes = (0..all).filter(|n| set >> n & 1 == 1).collect();
    (nodes, WORK.mul_f64((dice >> 40 & 0xff) as f64 / 255.0))
}

fn slot_length(slot: u64) -> usize {
    if slot.is_multiple_of(40) {
        LARGE as usize
    } else {
        SMALL as usize
    }
}

fn slot_offset(slot: u64) -> ViewOffset {
    ViewOffset(slot * SMALL + slot.div_ceil(40) * (LARGE - SMALL))
}

fn content(writer: u64, slot: u64, version: u64) -> Bytes {
    let mut state = (writer << 48 ^ slot << 32 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(slot_length(slot) + 8);
    while out.len() < slot_length(slot) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(slot_length(slot));
    out.into()
}

async fn write_records(
    file: File,
    writer: u64,
    round: u64,
    manifest: Arc<Mutex<Manifest>>,
    until: Instant,
) {
    let view = file.view(View::Cell(CellIndex(writer as u32))).unwrap();
    let mut version = round << 16;
    while Instant::now() < until {
        version += 1;
        let slot = (version * 7919 + round) % SLOTS;
        let key = (writer, slot);
        manifest
            .lock()
            .unwrap()
            .possible
            .entry(key)
            .or_default()
            .push(version);
        if view
            .write_at(slot_offset(slot), content(writer, slot, version))
            .await
            .is_err()
        {
            return;
        }
        let mut manifest = manifest.lock().unwrap();
        manifest.acknowledged.insert(key, version);
        manifest.possible.remove(&key);
    }
}

/// Makes names, of which every third gets another name, and every third is removed.
async fn make_names(volume: Volume, round: u64, manifest: Arc<Mutex<Manifest>>, until: Instant) {
    let mut i = 0;
    while Instant::now() < until {
        i += 1;
        let name = format!("/names/{round}-{i}");
        let new = Access::write().create_new(0o644);
        if volume.attach(&name, new).await.is_err() {
            return;
        }
        let answered = match i % 3 {
            0 => {
                let other = format!("{name}-renamed");
                let renamed = volume.rename(&name, &other).await.is_ok();
                let mut manifest = manifest.lock().unwrap();
                if renamed {
                    manifest.names.push(other);
                    manifest.gone.push(name);
                } else {
                    manifest.either.push((name, other));
                }
                renamed
            }
            1 => {
                let removed = volume.unlink(&name).await.is_ok();
                manifest
                    .lock()
                    .unwrap()
                    .gone
                    .extend(removed.then_some(name));
                removed
            }
            _ => {
                manifest.lock().unwrap().names.push(name);
                true
            }
        };
        if !answered {
            return;
        }
    }
}

/// Makes checkpoints of the file that the others write, and removes them.
async fn keep_and_drop(volume: Volume, round: u64, manifest: Arc<Mutex<Manifest>>, until: Instant) {
    let mut i = 0;
    while Instant::now() < until {
        i += 1;
        let name = format!("{round}-{i}");
        let kept = volume.make_checkpoint("/file", &name).await;
        if kept.is_err() || volume.remove_checkpoint("/file", &name).await.is_err() {
            return;
        }
        manifest.lock().unwrap().checkpoints += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn sync_now_and_then(file: File, manifest: Arc<Mutex<Manifest>>, until: Instant) {
    while Instant::now() < until && file.sync().await.is_ok() {
        manifest.lock().unwrap().syncs += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn verify(volume: &Volume, file: &File, manifest: &Manifest, round: u64) {
    for ((writer, slot), version) in &manifest.acknowledged {
        let view = file.view(View::Cell(CellIndex(*writer as u32))).unwrap();
        let mut read = vec![0; slot_length(*slot)];
        view.read_at(slot_offset(*slot), &mut read).await.unwrap();
        if read == content(*writer, *slot, *version) {
            continue;
        }
        // A write that was not acknowledged may have happened, also partially.
        let possible = manifest
            .possible
            .get(&(*writer, *slot))
            .into_iter()
            .flatten();
        let versions: Vec<Bytes> = possible
            .chain([version])
            .map(|v| content(*writer, *slot, *v))
            .collect();
        let byte_explained = |(i, b): (usize, &u8)| versions.iter().any(|v| v[i] == *b);
        assert!(
            versions.len() > 1 && read.iter().enumerate().all(byte_explained),
            "round {round}: writer {writer} slot {slot} version {version} is lost"
        );
    }
    let listed = volume.list("/names").all().await.unwrap();
    let names: BTreeSet<String> = listed
        .iter()
        .map(|e| format!("/names/{}", String::from_utf8_lossy(&e.name)))
        .collect();
    for name in &manifest.names {
        assert!(names.contains(name), "round {round}: {name} is lost");
    }
    for name in &manifest.gone {
        assert!(!names.contains(name), "round {round}: {name} is back");
    }
    for (name, other) in &manifest.either {
        let both = [name, other].map(|name| names.contains(name));
        assert!(
            both[0] != both[1],
            "round {round}: {name} or {other}: {both:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_kill_nine_of_any_processes() {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().unwrap());
    let rounds = number("WEFT_KILL_ROUNDS").unwrap_or(20);
    let seed = number("WEFT_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("WEFT_SEED={seed}");
    let folder = tempfile::Builder::new()
        .prefix("weft-kill-")
        .tempdir()
        .unwrap();
    let dir = folder.path().join("volume");
    let up = Up(&dir);
    up.start();
    let volume = Volume::connect(ConnectOptions::from_folder(&dir).unwrap())
        .await
        .unwrap();
    volume.make_directory("/names", 0o755).await.unwrap();
    let layout = NewLayout {
        cells: Some(WRITERS as u32),
        bsu: Some(4096),
        chunk: Some(100_000),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach("/file", access).await.unwrap();
    let manifest = Arc::new(Mutex::new(Manifest::default()));
    for round in 0..rounds {
        let until = Instant::now() + 2 * WORK;
        let mut load = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            load.spawn(write_records(
                file.clone(),
                writer,
                round,
                manifest.clone(),
                until,
            ));
        }
        load.spawn(make_names(volume.clone(), round, manifest.clone(), until));
        load.spawn(sync_now_and_then(file.clone(), manifest.clone(), until));
        load.spawn(keep_and_drop(
            volume.clone(),
            round,
            manifest.clone(),
            until,
        ));
        let (nodes, after) = victims(round, seed);
        tokio::time::sleep(after).await;
        up.kill(&nodes);
        let ended = tokio::time::timeout(Duration::from_secs(20), load.join_all()).await;
        assert!(
            ended.is_ok(),
            "round {round}: a call hangs after a process was killed"
        );
        up.start();
        // The load has ended: this is the only reference to the manifest.
        let now = std::mem::take(&mut *manifest.lock().unwrap());
        verify(&volume, &file, &now, round).await;
        *manifest.lock().unwrap() = now;
    }
    let found = weft(&["fsck", dir.to_str().unwrap(), "--data"]);
    let told = String::from_utf8_lossy(&found.stdout);
    assert!(found.status.success(), "{told}");
    let manifest = manifest.lock().unwrap();
    let (records, names, gone) = (
        manifest.acknowledged.len(),
        manifest.names.len(),
        manifest.gone.len(),
    );
    let (syncs, checkpoints) = (manifest.syncs, manifest.checkpoints);
    println!(
        "{rounds} rounds: {records} records, {names} names and {gone} removed, {syncs} syncs, {checkpoints} checkpoints"
    );
    assert!(
        records > 100 && names > 20 && gone > 10 && syncs > 0 && checkpoints > 0,
        "the load was too small to prove anything"
    );
}
