//! Images of whole stores as earlier versions left them: every later version opens them and finds
//! every byte.
//!
//! `golden/NAME.store` is a packed folder (`golden/packed.rs`). Below `store`, `index` and `disk`
//! are the files of a store. Below `holds` are the required contents: `forks` in words, and
//! the bytes of each fork and checkpoint under its name. An image is never changed.
//! `docs/format.md` says when one is added.
#![allow(missing_docs)]

use crate::common;
#[path = "golden/packed.rs"]
mod packed;
#[path = "golden/story.rs"]
mod story;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use common::{CHECK_DATA, now, pattern, read, write};
use packed::{Tree, gather, pack, scatter, unpack};
use story::{Story, fork, name_of};
use weft_kv::{Batch, FjallKv, FjallOptions, KvError, OnLoss, OrderedKv, Reader, Transaction};
use weft_layout::{CellOffset, FileId};
use weft_store::{
    DiskConfig, FolderStorage, INDEX_SPACES, RepairMode, Store, StoreConfig, StoreError,
    item_kinds, repair_closed,
};

/// The files of an image have numbers below this.
const FILES: u64 = 64;
const BOOT: &str = "the boot of the image";

fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The images by name.
fn all() -> Vec<(String, Tree)> {
    let mut found: Vec<(String, Tree)> = fs::read_dir(images())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "store"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, unpack(&fs::read(path).unwrap()))
        })
        .collect();
    found.sort();
    found
}

/// An index that can stop: from then on it writes nothing.
struct Index {
    engine: FjallKv,
    /// The number of syncs before it stops.
    left: AtomicI64,
}

impl Index {
    fn open(folder: &Path) -> Arc<Self> {
        // A small memtable, so that there are tables.
        let options = FjallOptions {
            cache: 1 << 20,
            memtable: 2 << 10,
            reserve: 0,
            loss: OnLoss::Refuse,
        };
        let engine = FjallKv::open(folder.join("index"), options).unwrap();
        let left = AtomicI64::new(i64::MAX);
        Arc::new(Self { engine, left })
    }
}

impl OrderedKv for Index {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        self.engine.snapshot()
    }
    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        self.engine.transact(work)
    }
    fn write(&self, batch: Batch) -> Result<(), KvError> {
        if self.left.load(Ordering::Relaxed) <= 0 {
            return Err(KvError::Aborted);
        }
        self.engine.write(batch)
    }
    fn committed(&self) -> u64 {
        self.engine.committed()
    }
    fn sync(&self) -> Result<(), KvError> {
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.engine.sync()
    }
}

async fn config(folder: &Path, index: Arc<Index>, boot: &str, new: bool) -> StoreConfig {
    let storage = unlocked(&folder.join("store")).await;
    let disk = unlocked(&folder.join("disk")).await;
    let mut config = StoreConfig::new(Arc::new(storage), index, boot.to_owned());
    config.owner = "server-1 of an image".into();
    config.disks = vec![DiskConfig {
        path: "the second disk".into(),
        storage: Ok(Arc::new(disk)),
        new,
        capacity: 1 << 20,
        reserve: 0,
    }];
    config.capacity = 2 << 20;
    config.cache_bytes = 4 << 20;
    config.dirty_bytes = 1 << 20;
    config.log_bytes = 2 << 20;
    config.segment_bytes = 128 << 10;
    config.growth_bytes = 256 << 10;
    config.reserve_bytes = 0;
    config.truncate_chunks = 2;
    config
}

/// Opens a folder once the background task of the last store has released it.
async fn unlocked(path: &Path) -> FolderStorage {
    for _ in 0..500 {
        match FolderStorage::open(path) {
            Err(StoreError::Locked { .. }) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => return other.unwrap(),
        }
    }
    panic!("{} stays locked", path.display());
}

/// The contents of a store: bytes by name, and in `holds/forks` all else about files and forks.
async fn observe(store: &Store) -> Tree {
    let (mut holds, mut words) = (Tree::new(), String::new());
    for file in 0..FILES {
        let forks = match store.forks(FileId(file)).await {
            Ok(forks) => forks,
            Err(StoreError::Stale { .. }) => {
                writeln!(words, "file {file}: deleted").unwrap();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        for (key, status) in forks {
            let (chunk, time) = (status.chunk, status.modified.0);
            writeln!(words, "{key}: chunk {chunk}, modified {time}").unwrap();
            let bytes = read(store, &key, 0, 1 << 22).await.unwrap();
            assert_eq!(bytes.len() as u64, status.length, "{key}");
            holds.insert(name_of(&key, None), bytes);
        }
        for (number, made) in store.checkpoints(FileId(file)).unwrap() {
            writeln!(words, "file {file}: checkpoint {number}, made {}", made.0).unwrap();
            for (key, status) in store.checkpoint_forks(FileId(file), number).unwrap() {
                let slices = store.read_checkpoint(&key, number, CellOffset(0), 1 << 22);
                let bytes = slices.await.unwrap().concat();
                assert_eq!(bytes.len() as u64, status.length, "{key} at {number}");
                holds.insert(name_of(&key, Some(number)), bytes);
            }
        }
    }
    let note = store.note("scrub").unwrap().unwrap_or_default();
    writeln!(words, "note: {note:02x?}").unwrap();
    holds.insert("holds/forks".into(), words.into_bytes());
    holds
}

fn assert_holds(found: &Tree, wanted: &Tree, what: &str) {
    let words = |tree: &Tree| String::from_utf8(tree["holds/forks"].clone()).unwrap();
    assert_eq!(words(found), words(wanted), "{what}");
    let names = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(wanted), "{what}");
    for (name, bytes) in wanted {
        let at = found[name].iter().zip(bytes).position(|(a, b)| a != b);
        assert!(found[name] == *bytes, "{what}: {name} differs at {at:?}");
    }
}

/// Asserts that a check with data finds nothing.
async fn assert_sound(store: &Store, what: &str) {
    let mut pass = store.check_begin().await.unwrap();
    let mut chunks = 0;
    loop {
        let step = store.check(&mut pass, CHECK_DATA).await.unwrap();
        assert_eq!(step.findings, [], "{what}");
        chunks += step.chunks;
        if step.done {
            break;
        }
    }
    assert!(chunks > 10, "{what}: {chunks} chunks were checked");
}

#[tokio::test]
async fn every_image_opens_with_every_byte() {
    let images = all();
    assert!(images.len() >= 4, "images are missing");
    for (name, image) in images {
        let mut wanted = image.clone();
        wanted.retain(|name, _| name.starts_with("holds/"));
        assert!(wanted.len() > 10, "{name}: the image is almost empty");
        // Open as after a kill, and as after a power loss that lost no bytes.
        for boot in [BOOT, "another boot"] {
            let what = format!("{name}, {boot}");
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            for folder_name in ["store/", "index/", "disk/"] {
                scatter(&image, folder_name, folder.path());
            }
            let index = Index::open(folder.path());
            let store = Store::open(config(folder.path(), index, boot, false).await).await;
            let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(store.disks().len(), 2, "{what}");
            assert_holds(&observe(&store).await, &wanted, &what);
            assert_sound(&store, &what).await;
            store.drop_cache();
            assert_holds(&observe(&store).await, &wanted, &what);
            // It can be written to.
            let key = fork(FILES - 1, 0, "data");
            let new = vec![write(&key, 4096, 0, pattern(1, 60_000))];
            store.write(new, now()).await.unwrap();
            store.remove_fork(&key).await.unwrap();
            store.close().await.unwrap();
            drop(store);
            let index = Index::open(folder.path());
            let store = Store::open(config(folder.path(), index, boot, false).await).await;
            let store = store.unwrap();
            assert_holds(&observe(&store).await, &wanted, &what);
            assert_sound(&store, &what).await;
        }
    }
}

/// The kinds of items that `docs/format.md` lists.
fn documented() -> BTreeSet<u8> {
    let format = include_str!("../../../docs/format.md");
    let (_, items) = format.split_once("## Items").unwrap();
    let rows = items.lines().filter_map(|line| line.strip_prefix("| "));
    let kinds = rows.filter_map(|row| row.split(' ').next()?.parse().ok());
    kinds.collect()
}

#[test]
fn every_kind_of_record_is_in_an_image() {
    let (mut kinds, mut spaces) = (BTreeSet::new(), BTreeSet::new());
    let (mut files, mut tables) = (BTreeSet::new(), 0);
    for (_, image) in all() {
        let segments = image.iter().filter(|(n, _)| n.starts_with("store/log."));
        kinds.extend(segments.flat_map(|(_, bytes)| item_kinds(bytes)));
        files.extend(
            image
                .keys()
                .map(|n| n.split("log.").next().unwrap().to_owned()),
        );
        tables += image.keys().filter(|n| n.contains("/tables/")).count();
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        scatter(&image, "index/", folder.path());
        let index = Index::open(folder.path());
        let reader = index.snapshot().unwrap();
        for space in INDEX_SPACES {
            let (all, seen) = ((Bound::Unbounded, Bound::Unbounded), &mut spaces);
            let visit = &mut |key: &[u8], _: &[u8]| {
                seen.insert((space.0, key.len()));
                ControlFlow::Continue(())
            };
            reader.scan(space, all.0, all.1, visit).unwrap();
        }
    }
    assert_eq!(kinds, documented(), "kinds of items in the images' logs");
    for name in [
        "store/data",
        "store/running",
        "store/reached",
        "store/",
        "disk/label",
    ] {
        assert!(files.contains(name), "{name}: {files:?}");
    }
    assert!(tables > 0, "no index has a table");
    // A file and its checkpoint; chunks; the store, a disk, a note.
    for (space, length) in [
        ("files", 8),
        ("files", 16),
        ("chunks", 24),
        ("store", 5),
        ("store", 6),
        ("store", 10),
    ] {
        assert!(spaces.contains(&(space, length)), "{space}, {length}");
    }
}

/// How the store of an image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Much of it is in the log, some of that not synced.
    Killed,
    /// While a dropped checkpoint's space was freed: a chunk moved from fork to fork.
    Merging,
    /// The same, after a fork without chunks was merged.
    Merged,
    Closed,
}

/// Writes an image of the current format; refuses to replace one.
async fn write_image(name: &str, end: End) {
    let path = images().join(format!("{name}.store"));
    assert!(!path.exists(), "an image is never replaced");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let index = Index::open(folder.path());
    let config = config(folder.path(), Arc::clone(&index), BOOT, true).await;
    let store = Store::open(config).await.unwrap();
    let mut history = Story::new(&store);
    history.run(1).await;
    let (dropped, _) = history.with_two_checkpoints(20).await;
    // Between these two nothing was written.
    history.checkpoint(20).await;
    let empty = history.checkpoint(20).await;
    store.set_note("scrub", &[3, 1, 2]).unwrap();
    store.apply().await.unwrap();
    match end {
        End::Killed => {
            history.drop_checkpoint(20, dropped).await;
            store.reclaim().await.unwrap();
            history.run(30).await;
            store.sync().await.unwrap();
            history.run(40).await;
            // A fork that others derive from stays, and belongs to no checkpoint. The background
            // task, which would merge it, cannot apply anything.
            index.left.store(0, Ordering::Relaxed);
            let shared = history.first_of(46);
            history.drop_checkpoint(46, shared).await;
        }
        End::Merging | End::Merged => {
            let number = if end == End::Merging { dropped } else { empty };
            // The next application is the last one: the change that caused it stays in the log.
            index.left.store(1, Ordering::Relaxed);
            history.drop_checkpoint(20, number).await;
            store.reclaim().await.unwrap_err();
        }
        End::Closed => store.close().await.unwrap(),
    }
    let mut holds = history.holds();
    let found = observe(&store).await;
    holds.insert("holds/forks".into(), found["holds/forks"].clone());
    assert_holds(&found, &holds, name);
    save(&path, folder.path(), holds).await;
}

/// Writes an image of a store whose log was damaged, repaired and accepted.
async fn write_repaired_image(name: &str) {
    let path = images().join(format!("{name}.store"));
    assert!(!path.exists(), "an image is never replaced");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let index = Index::open(folder.path());
    let of = async |new| config(folder.path(), Arc::clone(&index), BOOT, new).await;
    let store = Store::open(of(true).await).await.unwrap();
    let mut history = Story::new(&store);
    history.run(1).await;
    history.with_two_checkpoints(20).await;
    store.apply().await.unwrap();
    history.run(30).await;
    store.sync().await.unwrap();
    history.run(40).await;
    drop(history);
    let last = fork(FILES - 2, 0, "data");
    for at in 0..5 {
        let new = vec![write(&last, 4096, at * 1000, pattern(at, 500))];
        store.write(new, now()).await.unwrap();
    }
    drop(store);
    damage_last_frames(&folder.path().join("store"));
    let obstacles = repair_closed(&of(false).await, RepairMode::Repair)
        .await
        .unwrap();
    let named = obstacles.iter().any(|o| o.finding.is_some());
    assert!(named, "{obstacles:?}");
    let store = Store::open(of(false).await).await.unwrap();
    // Nothing is applied any more: everything stays in the log.
    index.left.store(0, Ordering::Relaxed);
    store.accept_unproven().await.unwrap();
    let holds = observe(&store).await;
    save(&path, folder.path(), holds).await;
}

/// Writes an image of an older copy of a store whose unproven bytes were accepted.
async fn write_older_image(name: &str) {
    let path = images().join(format!("{name}.store"));
    assert!(!path.exists(), "an image is never replaced");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let index = Index::open(folder.path());
    let config = config(folder.path(), Arc::clone(&index), BOOT, true).await;
    let store = Store::open(config).await.unwrap();
    let mut history = Story::new(&store);
    history.run(1).await;
    store.apply().await.unwrap();
    store.doubt_older(FileId(FILES)).await.unwrap();
    store.accept_unproven().await.unwrap();
    let holds = observe(&store).await;
    save(&path, folder.path(), holds).await;
}

/// Damages the frame before the last three of a log: it is unknown what it touched.
fn damage_last_frames(store: &Path) {
    let names = fs::read_dir(store)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let log = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("log.")
    };
    let mut frames = Vec::new();
    for path in names.filter(log).collect::<BTreeSet<_>>() {
        let (bytes, mut at) = (fs::read(&path).unwrap(), 0);
        while bytes.len() > at + 32 && bytes[at..].starts_with(b"WfL") {
            frames.push((path.clone(), at));
            let body = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
            at += 32 + (body + 1).next_multiple_of(8);
        }
    }
    let (path, at) = &frames[frames.len() - 4];
    let mut bytes = fs::read(path).unwrap();
    bytes[at + 40] ^= 1;
    fs::write(path, bytes).unwrap();
}

async fn save(path: &Path, folder: &Path, mut image: Tree) {
    // Work in flight must end.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for name in ["store", "index", "disk"] {
        gather(&folder.join(name), name, &mut image);
    }
    let packed = pack(&image);
    assert!(unpack(&packed) == image);
    println!("{}: {} bytes", path.display(), packed.len());
    fs::write(path, packed).unwrap();
}

/// For a new version of the format: change the number in the images' names first.
#[tokio::test]
#[ignore = "writes new images"]
async fn write_images_of_this_version() {
    for end in [End::Killed, End::Merging, End::Merged, End::Closed] {
        let name = format!("3-{end:?}").to_lowercase();
        write_image(&name, end).await;
    }
    write_repaired_image("3-repaired").await;
    write_older_image("3-older").await;
}
