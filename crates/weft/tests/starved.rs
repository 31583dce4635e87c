//! Processes without free descriptors or threads. Each round leaves one more than the last, so
//! every place that needs one is refused once. Requests meanwhile succeed or fail with a reason;
//! afterwards everything works as before, in the same processes, and acknowledged data exists.

mod cgroup_support;
mod files_support;
mod one_server;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cgroup_support::Group;
use files_support::{bytes, weft};
use one_server::OneServer;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// The rounds: round N leaves a process N more descriptors or threads.
const ROUNDS: u64 = 10;
/// A command must end within this time, also if it fails.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);
/// The volume must work again within this time after the limit is lifted.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Length of a file that has cells.
const LENGTH: usize = 300_000;

/// A volume of one server, and a mount of it.
struct Volume(OneServer);

impl Deref for Volume {
    type Target = OneServer;

    fn deref(&self) -> &OneServer {
        &self.0
    }
}

impl Volume {
    fn up() -> Volume {
        Volume(OneServer::up(""))
    }

    /// Mounts it. Returns the path and the process of the mount.
    fn mount(&self) -> (PathBuf, i32) {
        let at = self.folder().join("mnt");
        fs::create_dir(&at).unwrap();
        let mounted = self.ask(&["mount", at.to_str().unwrap()], b"");
        assert!(mounted.status.success(), "{mounted:?}");
        let clients = self.ask(&["status", "--json"], b"");
        let status: serde_json::Value = serde_json::from_slice(&clients.stdout).unwrap();
        let clients = status["clients"].as_array().unwrap();
        // `process 17 here`.
        let words = clients
            .iter()
            .filter_map(|client| client["address"].as_str());
        let pid = words
            .flat_map(str::split_whitespace)
            .find_map(|word| word.parse().ok());
        (at, pid.unwrap())
    }

    /// Runs a command, which must end in time.
    fn ask(&self, words: &[&str], input: &[u8]) -> Output {
        let mut command = weft();
        command.env("WEFT_VOLUME", self.path()).args(words);
        ended(command, words, input)
    }

    /// Does all kinds of work. Adds the acknowledged data to `kept`.
    fn work(&self, round: &str, kept: &mut BTreeMap<String, Vec<u8>>) {
        for (name, length) in [("large", LENGTH), ("small", 100)] {
            let path = format!("/{name}-{round}");
            let content = bytes(round.len() as u64 + length as u64, length);
            if self.ask(&["put", &path], &content).status.success() {
                kept.insert(path, content);
            }
        }
        for path in kept.keys() {
            let read = self.ask(&["cat", path], b"");
            if read.status.success() {
                assert!(read.stdout == kept[path], "{path}");
            }
        }
        let moved = (format!("/small-{round}"), format!("/moved-{round}"));
        if self.ask(&["mv", &moved.0, &moved.1], b"").status.success()
            && let Some(content) = kept.remove(&moved.0)
        {
            kept.insert(moved.1, content);
        }
        for words in [
            vec!["mkdir", &format!("/directory-{round}")],
            vec!["checkpoint", "create", &format!("/large-{round}"), "one"],
            vec!["ls", "/"],
            vec!["status"],
            vec!["fsck"],
            vec!["trim"],
        ] {
            let done = self.ask(&words, b"");
            println!(
                "{round} {words:?} {}: {}",
                done.status,
                String::from_utf8_lossy(&done.stderr)
            );
        }
    }

    /// Checks that everything works; an engine that was refused something retries within two
    /// seconds.
    fn is_well(&self, round: &str, kept: &BTreeMap<String, Vec<u8>>) {
        for (path, content) in kept {
            let read = self.ask(&["cat", path], b"");
            let same = read.stdout == *content;
            let said = String::from_utf8_lossy(&read.stderr);
            assert!(read.status.success() && same, "{round}, {path}: {said}");
        }
        let begun = Instant::now();
        for words in [["fsck"], ["status"], ["trim"]] {
            loop {
                let done = self.ask(&words, b"");
                if done.status.success() {
                    break;
                }
                assert!(
                    begun.elapsed() < RECOVERY_TIMEOUT,
                    "{round}, {words:?}: {done:?}"
                );
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A failed test has not unmounted, and a mounted volume cannot be stopped.
        let at = self.folder().join("mnt");
        if at.exists() {
            let _ = weft().arg("unmount").arg(at).output();
        }
    }
}

/// Runs a command to its end, which must come in time.
fn ended(mut command: Command, words: &[&str], input: &[u8]) -> Output {
    let begun = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let ended = output(child);
    assert!(begun.elapsed() < COMMAND_TIMEOUT, "{words:?}: {ended:?}");
    ended
}

/// The output of a child, which is killed if it takes too long.
fn output(child: Child) -> Output {
    let pid = Pid::from_child(&child);
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if ended.recv_timeout(COMMAND_TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    guard.join().unwrap();
    output
}

/// Limits a process to this many more descriptors; `None`: to its maximum.
fn descriptors(pid: i32, more: Option<u64>) {
    let process = Pid::from_raw(pid).unwrap();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open = open.map(|fd| fd.unwrap().file_name().to_str().unwrap().parse().unwrap());
    let open: BTreeSet<u64> = open.collect();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|l| l.starts_with("Max open files"));
    let hard = line.unwrap().split_whitespace().nth(4).unwrap();
    let maximum = hard.parse().unwrap();
    // The kernel assigns the lowest free number.
    let free = |more| (0..).filter(|n| !open.contains(n)).nth(more);
    let current = more.map_or(maximum, |more| free(more as usize).unwrap());
    let limit = Rlimit {
        current: Some(current),
        maximum: Some(maximum),
    };
    prlimit(Some(process), Resource::Nofile, limit).unwrap();
}

#[test]
fn nodes_without_descriptors_recover_when_descriptors_are_available() {
    let volume = Volume::up();
    let nodes = volume.nodes();
    let mut kept = BTreeMap::new();
    for more in 0..ROUNDS {
        for pid in &nodes {
            descriptors(*pid, Some(more));
        }
        volume.work(&more.to_string(), &mut kept);
        for pid in &nodes {
            descriptors(*pid, None);
        }
        volume.is_well(&format!("{more} descriptors"), &kept);
    }
    assert_eq!(volume.nodes(), nodes, "a node was restarted");
    assert!(!kept.is_empty());
}

/// The number of threads of a process.
fn threads(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.count() as u64
}

#[test]
fn nodes_and_a_mount_without_threads_recover_when_threads_are_available() {
    let Some(group) = Group::new("pids") else {
        return;
    };
    let volume = Volume::up();
    let (at, mount) = volume.mount();
    let mut all = volume.nodes();
    all.push(mount);
    for pid in &all {
        group.take(*pid);
    }
    let (mut kept, mut seen) = (BTreeMap::new(), BTreeMap::new());
    for more in 0..ROUNDS / 2 {
        let now: u64 = all.iter().map(|pid| threads(*pid)).sum();
        group.set(["pids.max", "pids.max"], &(now + more).to_string());
        volume.work(&more.to_string(), &mut kept);
        use_mount(&at, more, &mut seen);
        group.set(["pids.max", "pids.max"], "max");
        volume.is_well(&format!("{more} threads"), &kept);
        for (path, content) in &seen {
            assert!(fs::read(path).unwrap() == *content, "{}", path.display());
        }
    }
    assert_eq!(volume.nodes(), all[..2], "a node was restarted");
    assert!(!kept.is_empty() && !seen.is_empty());
    let unmounted = volume.ask(&["unmount", at.to_str().unwrap()], b"");
    assert!(unmounted.status.success(), "{unmounted:?}");
}

/// Uses a mount as programs do. Adds the synced data to `kept`.
fn use_mount(at: &Path, round: u64, kept: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for (name, length) in [("large", LENGTH), ("small", 100)] {
        let path = at.join(format!("mounted-{name}-{round}"));
        let content = bytes(round + length as u64, length);
        let written = fs::File::create(&path).and_then(|mut file| {
            file.write_all(&content)?;
            file.sync_all()
        });
        if written.is_ok() {
            kept.insert(path, content);
        }
    }
    for (path, content) in &*kept {
        if let Ok(read) = fs::read(path) {
            assert!(read == *content, "{}", path.display());
        }
    }
    let directory = at.join(format!("directory-{round}"));
    let _ = fs::create_dir(&directory);
    let _ = fs::write(directory.join("file"), b"text");
    let _ = fs::rename(directory.join("file"), directory.join("other"));
    let _ = fs::read_dir(at).map(Iterator::count);
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn a_mount_without_descriptors_recovers_when_descriptors_are_available() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let volume = Volume::up();
    let (at, pid) = volume.mount();
    let mut kept = BTreeMap::new();
    for more in 0..ROUNDS {
        descriptors(pid, Some(more));
        use_mount(&at, more, &mut kept);
        descriptors(pid, None);
        for (path, content) in &kept {
            let read = fs::read(path).unwrap();
            assert!(read == *content, "{more} descriptors: {}", path.display());
        }
        fs::write(at.join("after"), more.to_string()).unwrap();
        assert_eq!(
            fs::read_to_string(at.join("after")).unwrap(),
            more.to_string()
        );
    }
    assert!(!kept.is_empty());
    let unmounted = volume.ask(&["unmount", at.to_str().unwrap()], b"");
    assert!(unmounted.status.success(), "{unmounted:?}");
}
