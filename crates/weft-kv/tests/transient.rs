//! Transient failures: while the system lacks descriptors or disk space, the engine refuses
//! changes; then it recovers by itself with all acknowledged commits and no others.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weft_kv::{Batch, FjallKv, FjallOptions, KvError, OrderedKv, Space};

const FOLDER: &str = "WEFT_KV_PASSING_FOLDER";
const KEYS: Space = Space("keys");
/// Much more than the engine holds in memory.
const COMMITS: u64 = 4000;

fn options() -> FjallOptions {
    FjallOptions {
        memtable: 4 << 20,
        ..FjallOptions::default()
    }
}

fn value(number: u64) -> Vec<u8> {
    let bytes = (0..16_384_u64).map(|at| (number.wrapping_mul(0x9e37_79b9) >> (at % 24)) as u8);
    bytes.collect()
}

fn commit(kv: &FjallKv, number: u64) -> Result<(), KvError> {
    let changes = vec![(KEYS, number.to_be_bytes().to_vec(), Some(value(number)))];
    kv.write(Batch { changes })
}

/// Asserts that the engine has the acknowledged commits and no refused ones.
fn check(kv: &FjallKv, acknowledged: &[u64]) {
    let snapshot = kv.snapshot().unwrap();
    for number in 0..COMMITS + 1000 {
        let found = snapshot.get(KEYS, &number.to_be_bytes()).unwrap();
        let expected = acknowledged.contains(&number).then(|| value(number));
        assert!(found == expected, "{number}");
    }
    assert_eq!(kv.committed(), acknowledged.len() as u64);
}

/// Commits until a commit is refused; then `relieve` removes the cause and the engine recovers.
/// With `lasting` it cannot recover before that, for example by freeing space.
fn survives(kv: &FjallKv, lasting: bool, relieve: impl FnOnce()) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    let mut refused = None;
    for number in 0..COMMITS {
        match commit(kv, number) {
            Ok(()) => acknowledged.push(number),
            Err(error) => {
                assert!(matches!(error, KvError::Suspended { .. }), "{error}");
                refused = Some(number);
                break;
            }
        }
    }
    let refused = refused.expect("the system refused nothing");
    let last = *acknowledged.last().unwrap();
    for number in refused + 1..refused + 20 {
        match commit(kv, number) {
            Err(error) => assert!(matches!(error, KvError::Suspended { .. }), "{error}"),
            Ok(()) if lasting => {
                panic!("the engine accepted a commit before the cause was removed")
            }
            Ok(()) => acknowledged.push(number),
        }
        // Reads continue, unless an attempt to reopen the engine failed after closing it.
        match kv.snapshot() {
            Ok(snapshot) => {
                let found = snapshot.get(KEYS, &last.to_be_bytes()).unwrap();
                assert!(found == Some(value(last)));
            }
            Err(error) => {
                assert!(!lasting, "{error}");
                assert!(matches!(error, KvError::Suspended { .. }), "{error}");
            }
        }
    }
    if let Err(error) = kv.sync() {
        assert!(!matches!(error, KvError::Poisoned { .. }), "{error}");
    }
    relieve();
    let begun = Instant::now();
    let mut number = COMMITS;
    while commit(kv, number).is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the engine does not recover"
        );
        std::thread::sleep(Duration::from_millis(20));
        number += 1;
    }
    acknowledged.push(number);
    check(kv, &acknowledged);
    kv.sync().unwrap();
    kv.flush().unwrap();
    acknowledged
}

/// The child process, with its own limit of descriptors. As an ordinary test it does nothing.
#[test]
fn child_that_runs_out_of_descriptors() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let kv = FjallKv::open(&folder, options()).unwrap();
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(256),
        maximum,
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let held: Vec<File> = (0..)
        .map_while(|_: u32| File::open("/dev/null").ok())
        .collect();
    assert!(!held.is_empty());
    let acknowledged = survives(&kv, true, || drop(held));
    let words: Vec<String> = acknowledged.iter().map(u64::to_string).collect();
    std::fs::write(folder.with_extension("told"), words.join(" ")).unwrap();
    // An abort leaves the engine as kill −9 does.
    std::process::abort();
}

#[test]
fn an_engine_recovers_from_a_lack_of_descriptors_with_all_acknowledged_commits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("kv");
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child_that_runs_out_of_descriptors",
            "--nocapture",
        ])
        .env(FOLDER, &folder)
        .output()
        .unwrap();
    let told = std::fs::read_to_string(folder.with_extension("told"));
    let told = told.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&child.stderr)));
    let acknowledged: Vec<u64> = told.split(' ').map(|word| word.parse().unwrap()).collect();
    check(&FjallKv::open(&folder, options()).unwrap(), &acknowledged);
}

struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn an_engine_recovers_from_a_full_disk_with_all_acknowledged_commits() {
    if !rustix::process::geteuid().is_root() {
        // Only root can mount the small disk of this test.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=160m", "weft-test"]);
    if !mount.arg(disk).status().unwrap().success() {
        return;
    }
    let _mounted = Mounted(disk);
    let others = disk.join("others");
    std::fs::write(&others, vec![1; 110 << 20]).unwrap();
    let kv = FjallKv::open(disk.join("kv"), options()).unwrap();
    let acknowledged = survives(&kv, false, || std::fs::remove_file(&others).unwrap());
    drop(kv);
    check(
        &FjallKv::open(disk.join("kv"), options()).unwrap(),
        &acknowledged,
    );
}
