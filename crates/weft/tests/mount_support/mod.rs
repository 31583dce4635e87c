//! A mounted volume in a temporary folder.

#![allow(dead_code)] // each test file uses its own part

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running volume and its mount point.
pub struct Mounted {
    /// The mount point.
    pub path: PathBuf,
    /// Its folder.
    pub volume: PathBuf,
    folder: TempDir,
}

/// Whether this machine can mount at all; prints why not.
pub fn possible() -> bool {
    if !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: there is no /dev/fuse here");
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can make the files these tests need");
        return false;
    }
    true
}

pub fn weft(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    for name in ["WEFT_VOLUME", "WEFT_ADDRESS", "WEFT_KEY_FILE"] {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

pub fn weft_ok(arguments: &[&str]) -> String {
    let output = weft(arguments);
    assert!(
        output.status.success(),
        "weft {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a shell script in a directory. Returns its output.
pub fn sh(directory: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Mounted {
    /// Starts a volume of two servers and mounts it; `None` if this machine cannot mount.
    pub fn new() -> Option<Mounted> {
        Mounted::with_options("")
    }

    pub fn with_options(options: &str) -> Option<Mounted> {
        Mounted::of_capacity("", options)
    }

    /// As [`Mounted::new`], with servers of this capacity; empty: no limit.
    pub fn of_capacity(capacity: &str, options: &str) -> Option<Mounted> {
        if !possible() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (volume, path) = (base.join("volume"), base.join("mnt"));
        std::fs::create_dir(&path).unwrap();
        let mounted = Mounted {
            path,
            volume,
            folder,
        };
        let volume = text(&mounted.volume);
        let mut words = vec!["up", volume, "--servers", "2", "--cache", "64M"];
        if !capacity.is_empty() {
            words.extend(["--capacity", capacity]);
        }
        weft_ok(&words);
        // What these tests promise holds of both kinds of files: `./check --long`.
        if std::env::var("WEFT_TEST_STORAGE").is_ok_and(|storage| storage == "addressed") {
            weft_ok(&[
                "--volume",
                volume,
                "create",
                "--directory",
                "--addressed",
                "/",
            ]);
        }
        mounted.mount(options);
        Some(mounted)
    }

    pub fn mount(&self, options: &str) {
        self.mount_on(&self.path, options);
    }

    pub fn mount_on(&self, path: &Path, options: &str) {
        // What these tests promise holds whichever way requests come: `./check --long`.
        let more = std::env::var("WEFT_TEST_MOUNT_OPTIONS").unwrap_or_default();
        weft_ok(&[
            "--volume",
            text(&self.volume),
            "mount",
            text(path),
            "-o",
            &format!("{options},{more}"),
        ]);
    }

    pub fn unmount(&self) {
        weft_ok(&["unmount", text(&self.path)]);
    }

    /// A second path with the same volume.
    pub fn further(&self, name: &str, options: &str) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(&path).unwrap();
        self.mount_on(&path, options);
        path
    }

    /// A directory beside the volume, on the local disk.
    pub fn beside(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A file of the volume's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The process behind the mount.
    pub fn process(&self) -> i32 {
        let mut value = [0; 32];
        let length = rustix::fs::getxattr(&self.path, "user.weft.process", &mut value[..]).unwrap();
        std::str::from_utf8(&value[..length])
            .unwrap()
            .parse()
            .unwrap()
    }

    /// The processes of the volume: the service, then the servers.
    pub fn nodes(&self) -> Vec<i32> {
        let needle = self.volume.join("weft.toml");
        let needle = needle.to_str().unwrap();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
        let ours = pids.filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.contains("serve") && line.contains(needle)
        });
        ours.collect()
    }
}

pub fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    // Its exit status may not have been collected yet.
    let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    wait_until("the process has ended", gone);
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let base = self.folder.path().canonicalize().unwrap();
        for mounted in weft_mount::fuse::mounted().unwrap_or_default() {
            if mounted.path.starts_with(&base) {
                let _ = weft_mount::fuse::detach(&mounted.path, true);
            }
        }
        for pid in self.nodes() {
            kill(pid);
        }
        // The mount's process names the volume's folder, too.
        wait_until_gone(&self.volume);
    }
}

fn wait_until_gone(volume: &Path) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while Instant::now() < deadline {
        let left = std::fs::read_dir("/proc").unwrap().flatten().any(|e| {
            let line = std::fs::read(e.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text(volume))
        });
        if !left {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
