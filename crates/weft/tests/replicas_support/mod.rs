//! A volume whose servers may have replicas, as processes.
#![allow(dead_code)] // Each test program uses its own part.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use weft_client::{ConnectOptions, File, Volume};
use weft_layout::ViewOffset;

/// How long a call may take while a replica takes the place of a lost one.
pub const DETECTION: Duration = Duration::from_secs(10);

pub fn weft(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(args).output().unwrap()
}

pub fn text(out: &Output) -> String {
    let (stdout, stderr) = (&out.stdout, &out.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(stdout),
        String::from_utf8_lossy(stderr)
    )
}

/// Bytes that no other offset or version has.
pub fn content(version: u64, offset: u64, length: usize) -> Bytes {
    let mut out = Vec::with_capacity(length + 8);
    let mut state = (version << 40 ^ offset).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out.into()
}

pub async fn write(file: &File, version: u64, offset: u64, length: usize) {
    let view = file.canonical().unwrap();
    let data = content(version, offset, length);
    let began = Instant::now();
    view.write_at(ViewOffset(offset), data).await.unwrap();
    assert!(
        began.elapsed() < DETECTION,
        "a write took {:?}",
        began.elapsed()
    );
}

pub async fn expect(file: &File, version: u64, offset: u64, length: usize) {
    let mut read = vec![0; length];
    let began = Instant::now();
    let view = file.canonical().unwrap();
    let count = view.read_at(ViewOffset(offset), &mut read).await.unwrap();
    assert!(
        began.elapsed() < DETECTION,
        "a read took {:?}",
        began.elapsed()
    );
    assert_eq!(count, length as u64, "at {offset}");
    assert!(
        read == content(version, offset, length),
        "wrong bytes at {offset}"
    );
}

/// Which replica of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Primary,
    Backup,
}

pub struct Replicated {
    _folder: TempDir,
    dir: PathBuf,
}

impl Replicated {
    /// A running volume of two servers with two replicas each.
    pub fn up() -> Replicated {
        Replicated::of(2, 2)
    }

    /// A running volume of so many servers, with so many replicas each.
    pub fn of(servers: u32, replicas: u32) -> Replicated {
        Replicated::with(servers, replicas, &[])
    }

    /// The same, with further options of `weft up`.
    pub fn with(servers: u32, replicas: u32, more: &[&str]) -> Replicated {
        let folder = tempfile::Builder::new()
            .prefix("weft-replicas-")
            .tempdir()
            .unwrap();
        let dir = folder.path().join("volume");
        let volume = Replicated {
            _folder: folder,
            dir,
        };
        let (servers, replicas) = (servers.to_string(), replicas.to_string());
        let options = ["--servers", &servers, "--replicas", &replicas];
        let out = weft(&[&["up", volume.path()], &options[..], more].concat());
        assert!(out.status.success(), "{}", text(&out));
        volume
    }

    pub fn path(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    pub fn folder(&self) -> &Path {
        &self.dir
    }

    /// Starts what does not run.
    pub fn start(&self) {
        let out = weft(&["up", self.path()]);
        assert!(out.status.success(), "{}", text(&out));
    }

    pub async fn client(&self) -> Volume {
        let options = ConnectOptions::from_folder(&self.dir).unwrap();
        Volume::connect(options).await.unwrap()
    }

    pub fn status(&self) -> Value {
        let out = weft(&["status", self.path(), "--json"]);
        serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out)))
    }

    /// The name and the process of a replica.
    pub fn replica(&self, server: usize, which: Which) -> (String, Pid) {
        let status = self.status();
        let role = match which {
            Which::Primary => "primary",
            Which::Backup => "backup",
        };
        let replicas = status["servers"][server]["replicas"].as_array().unwrap();
        let found = replicas.iter().find(|r| r["role"] == role).unwrap();
        let pid = i32::try_from(found["pid"].as_i64().unwrap()).unwrap();
        let name = found["node"].as_str().unwrap().to_owned();
        (name, Pid::from_raw(pid).unwrap())
    }

    pub fn signal(&self, server: usize, which: Which, signal: Signal) -> (String, Pid) {
        let (name, pid) = self.replica(server, which);
        kill_process(pid, signal).unwrap();
        (name, pid)
    }

    /// What the node of this name has logged.
    pub fn log(&self, node: &str) -> String {
        let log = self.folder().join("log").join(format!("{node}.log"));
        std::fs::read_to_string(log).unwrap_or_default()
    }

    /// Changes a bit of the stored block of a node that begins with these bytes. What its process
    /// has in its cache stays as it is.
    pub fn damage(&self, node: &str, begins: &[u8]) {
        use std::os::unix::fs::FileExt;
        let path = self.folder().join(node).join("store/data");
        let stored = std::fs::read(&path).unwrap();
        let mut blocks = stored.chunks(4096).enumerate();
        let found: Vec<usize> = blocks
            .by_ref()
            .filter(|(_, block)| block.starts_with(begins))
            .map(|(number, _)| number)
            .collect();
        assert_eq!(found.len(), 1, "blocks that begin so: {found:?}");
        let at = found[0] as u64 * 4096 + 100;
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[stored[at as usize] ^ 1], at).unwrap();
        file.sync_all().unwrap();
    }

    /// Waits until a replica is not in sync any more.
    pub async fn noticed(&self) {
        let began = Instant::now();
        while self.status()["redundant"] != false {
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(40), "a loss goes unnoticed");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until all replicas are in sync.
    pub async fn in_sync(&self) {
        let began = Instant::now();
        loop {
            let status = self.status();
            if status["redundant"] == true {
                return;
            }
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(90), "not in sync: {status:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Replicated {
    fn drop(&mut self) {
        weft(&["down", self.path()]);
    }
}
