//! Only the owner can access a volume's files on a machine: other users cannot read file data in
//! its folder, and a key that others can read is not used.

mod files_support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use files_support::{Volume, weft};
use tempfile::TempDir;

/// The content of every file written here.
const SECRET: &str = "a-secret-that-is-nowhere-else";
/// A user without files.
const NOBODY: u32 = 65_534;

/// Files and folders that other users can access.
fn open_to_others(path: &Path, found: &mut Vec<String>) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.mode() & 0o7777;
    let right = if metadata.is_dir() { 0o700 } else { 0o600 };
    if mode != right {
        found.push(format!("{} {mode:o}", path.display()));
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open_to_others(&entry.unwrap().path(), found);
        }
    }
}

fn found_open(volume: &Path) -> Vec<String> {
    let mut found = Vec::new();
    open_to_others(volume, &mut found);
    found
}

/// Whether another user finds the secret in a folder.
fn another_user_finds_it(volume: &Path) -> bool {
    let mut grep = Command::new("grep");
    grep.args(["-r", "-a", "-q", SECRET]).arg(volume);
    grep.uid(NOBODY).gid(NOBODY).stderr(Stdio::null());
    grep.status().unwrap().code() == Some(0)
}

/// Starts a volume from a shell with this umask.
fn up(volume: &Path, umask: &str) {
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_weft"), "up"]);
    let up = shell.arg(volume).args(["--servers", "2"]).output().unwrap();
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    assert!(up.status.success(), "{said}");
}

fn weft_on(volume: &Path, args: &[&str]) -> std::process::Output {
    let mut command = weft();
    command.arg("--volume").arg(volume).args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

struct Stopped<'a>(&'a Path);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let _ = weft().arg("down").arg(self.0).output();
    }
}

fn open_everything(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        for entry in fs::read_dir(path).unwrap() {
            open_everything(&entry.unwrap().path());
        }
    } else if !path.ends_with("volume.key") {
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn other_users_cannot_read_a_volumes_folder_with_any_umask() {
    if !rustix::process::geteuid().is_root() {
        // Only root can act as another user.
        return;
    }
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let volume = folder.path().join("volume");
    let _stopped = Stopped(&volume);
    up(&volume, "000");
    for (name, length) in [("/small", 100), ("/middle", 100_000), ("/large", 9_000_000)] {
        let text = format!("{SECRET} ").repeat(length / SECRET.len());
        let mut put = weft();
        put.arg("--volume").arg(&volume).args(["put", name]);
        let mut put = put.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut put.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(put.wait().unwrap().success());
    }
    assert_eq!(found_open(&volume), [""; 0]);
    assert!(!another_user_finds_it(&volume));
    assert!(weft().arg("down").arg(&volume).status().unwrap().success());
    assert_eq!(found_open(&volume), [""; 0]);
    let mut grep = Command::new("grep");
    grep.args(["-r", "-a", "-q", SECRET]).arg(&volume);
    assert!(grep.status().unwrap().success(), "root finds the secret");

    // As left by an earlier version.
    open_everything(&volume);
    assert!(another_user_finds_it(&volume));
    up(&volume, "022");
    assert!(!another_user_finds_it(&volume));
    assert_eq!(found_open(&volume), [""; 0]);
    let log = fs::read_to_string(volume.join("log/server-1.log")).unwrap();
    let lines = log
        .lines()
        .filter(|line| line.contains("other users could read files of the volume"));
    assert_eq!(lines.count(), 1, "{log}");
    assert!(weft_on(&volume, &["cat", "/small"]).status.success());
}

#[test]
fn a_folder_that_holds_more_than_a_volume_keeps_its_mode() {
    let folder = TempDir::new().unwrap();
    let volume = folder.path().join("shared");
    let _stopped = Stopped(&volume);
    up(&volume, "022");
    assert!(weft().arg("down").arg(&volume).status().unwrap().success());
    fs::set_permissions(&volume, Permissions::from_mode(0o755)).unwrap();
    fs::write(volume.join("somebody-elses"), b"").unwrap();
    up(&volume, "022");
    let mode = |name: &str| fs::metadata(volume.join(name)).unwrap().mode() & 0o777;
    assert_eq!(mode(""), 0o755);
    assert_eq!(mode("meta"), 0o700);
    assert_eq!(mode("log"), 0o700);
}

#[test]
fn a_key_that_others_can_read_is_refused_with_advice() {
    let volume = Volume::up();
    let key = volume.path("volume/volume.key");
    for mode in [0o644, 0o640, 0o660, 0o606] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let refused = volume.fails("ls /", 1);
        assert!(
            refused.contains(&format!("mode {mode:04o}")) && refused.contains("chmod 600"),
            "{refused}"
        );
    }
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    volume.text("ls /");
}

/// Regression: a FIFO in place of the key made `weft up` wait forever, and left processes that
/// `weft down` did not find.
#[test]
fn a_key_or_configuration_that_is_not_a_file_is_refused_at_once() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    let folder_name = folder.to_str().unwrap();
    for name in ["volume.key", "weft.toml"] {
        assert!(
            weft()
                .args(["down", folder_name])
                .status()
                .unwrap()
                .success()
        );
        let (file, aside) = (folder.join(name), volume.path("aside"));
        fs::rename(&file, &aside).unwrap();
        let mut make = Command::new("mkfifo");
        assert!(
            make.args(["-m", "600"])
                .arg(&file)
                .status()
                .unwrap()
                .success()
        );
        let begun = Instant::now();
        for line in ["up", "ls /", "status"] {
            let mut command = weft();
            command.env("WEFT_VOLUME", &folder);
            command.args(line.split(' '));
            if line == "up" {
                command.arg(&folder);
            }
            let output = command.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // A client needs no configuration, and none of the nodes runs.
            assert!(!output.status.success(), "{line} {said}");
            if line == "up" {
                assert!(said.contains("FIFO"), "{line}: {said}");
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        let serving = Command::new("pgrep")
            .args(["-f", folder_name])
            .output()
            .unwrap();
        assert!(serving.stdout.is_empty(), "{serving:?}");
        fs::remove_file(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        assert!(weft().args(["up", folder_name]).status().unwrap().success());
    }
}
