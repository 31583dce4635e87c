//! Starting and stopping a volume: repeatedly, concurrently, with another configuration, and with
//! an unreadable one.

mod files_support;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use files_support::{Volume, weft};
use rustix::fs::{FlockOperation, flock};

fn up(folder: &Path) -> Output {
    weft().arg("up").arg(folder).output().unwrap()
}

fn down(folder: &Path) -> Output {
    weft().arg("down").arg(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(error)
    )
}

fn succeeded(output: &Output) -> String {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    said
}

fn refused(output: &Output) -> String {
    let said = said(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

fn configuration(volume: &Volume) -> PathBuf {
    volume.path("volume/weft.toml")
}

/// Changes the configuration. Returns the old one.
fn edit(volume: &Volume, change: impl FnOnce(&str) -> String) -> String {
    let path = configuration(volume);
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, change(&before)).unwrap();
    before
}

/// The section of a server.
fn section(config: &str, id: u32) -> String {
    let mut sections = config.split("[[server]]").skip(1);
    let of = |s: &&str| s.contains(&format!("\nid = {id}\n"));
    format!("[[server]]{}", sections.find(of).unwrap())
}

/// Adds a fourth server, with which the volume was not formatted.
fn with_a_fourth(config: &str) -> String {
    let fourth = section(config, 0).replace("id = 0", "id = 3");
    let fourth = fourth.replace("server-0", "server-3");
    let lines = fourth.lines().map(|line| {
        let port = line.starts_with("address") || line.starts_with("metrics");
        let line = line.to_owned();
        if port {
            // The address is unused: the server must not be started.
            line.replace("127.0.0.1", "127.0.0.9")
        } else {
            line
        }
    });
    format!("{config}\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

/// Processes that serve this volume.
fn serving(volume: &Volume) -> usize {
    let config = volume.path("volume/weft.toml");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let serves = processes.filter(|process| {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains("serve\0") && words.contains(config.to_str().unwrap())
    });
    serves.count()
}

#[test]
fn two_concurrent_starts_of_a_stopped_volume_both_succeed() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    for round in 0..4 {
        succeeded(&down(&folder));
        assert_eq!(serving(&volume), 0);
        for command in ["ls /", "fsck", "scrub", "quota"] {
            let output = volume.command(command.split(' ')).output().unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(told.contains("is not running: start it with"), "{told}");
        }
        let start = || -> Child {
            let mut command = weft();
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.arg("up").arg(&folder).spawn().unwrap()
        };
        let both = [start(), start(), start()];
        let both = both.map(|child| succeeded(&child.wait_with_output().unwrap()));
        let started = both.iter().filter(|s| s.contains(" is up: ")).count();
        assert_eq!(started, 1, "round {round}: {both:?}");
        let found = both.iter().filter(|s| s.contains("is already running: "));
        assert_eq!(found.count(), 2, "round {round}: {both:?}");
        assert_eq!(serving(&volume), 4);
        volume.text("ls /");
    }
}

#[test]
fn two_concurrent_creations_of_a_volume_make_one() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("new");
    let start = || -> Child {
        let mut command = weft();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(["up", "--servers", "2"]).arg(&folder);
        command.spawn().unwrap()
    };
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    let stopped = down(&folder);
    for output in &both {
        succeeded(output);
    }
    succeeded(&stopped);
}

#[test]
fn a_failed_creation_of_a_volume_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("new");
    let output = weft()
        .args([
            "up",
            "--servers",
            "2",
            "--disks",
            "/nonexistent/a,/nonexistent/b",
        ])
        .arg(&folder)
        .output();
    refused(&output.unwrap());
    assert!(!folder.exists());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("mine"), b"x").unwrap();
    let said = refused(&up(&folder));
    assert!(said.contains("is not empty"), "{said}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn a_changed_configuration_of_a_running_volume_is_reported_and_refused() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    let before = edit(&volume, |config| {
        let changed = section(config, 1).replace("threads = ", "threads = 1");
        config.replace(&section(config, 1), &changed)
    });
    let told = refused(&up(&folder));
    for words in ["server-1: threads is 1", "it runs with", "`weft down"] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!told.contains("server-0:"), "{told}");
    // With the old configuration restored there is nothing to report.
    let changed = edit(&volume, |_| before.clone());
    let told = succeeded(&up(&folder));
    assert!(told.contains("is already running: 3 servers"), "{told}");
    edit(&volume, |_| changed);
    succeeded(&down(&folder));
    succeeded(&up(&folder));
    succeeded(&up(&folder));
}

#[test]
fn options_that_disagree_with_an_existing_volume_are_reported() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    let with = |options: &[&str]| {
        let output = weft().arg("up").arg(&folder).args(options).output();
        output.unwrap()
    };
    succeeded(&with(&["--servers", "3"]));
    for (options, words) in [
        (["--servers", "5"], "--servers 5, and it has 3 servers"),
        (["--cache", "77M"], "--cache '77 MiB', and server-0 has"),
        (["--capacity", "1G"], "--capacity '1 GiB', and server-0 has"),
        (["--disks", "/tmp"], "--disks /tmp"),
    ] {
        let told = refused(&with(&options));
        assert!(told.contains(words), "{told}");
        assert!(told.contains("for a new volume"), "{told}");
    }
    assert_eq!(serving(&volume), 4);
}

#[test]
fn an_unknown_server_is_refused_before_any_node_starts() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    let before = edit(&volume, with_a_fourth);
    for running in [true, false] {
        if !running {
            succeeded(&down(&folder));
        }
        let format = weft()
            .args(["format", "--node", "server-3", "--config"])
            .arg(&folder)
            .output();
        for output in [format.unwrap(), up(&folder)] {
            let told = refused(&output);
            assert!(told.contains("names server-3"), "{told}");
            assert!(told.contains("server-0, server-1, server-2"), "{told}");
        }
        assert!(!folder.join("server-3").exists());
        assert_eq!(serving(&volume), if running { 4 } else { 0 });
    }
    // A server that is missing in the configuration is refused, too.
    edit(&volume, |_| before.replace(&section(&before, 2), ""));
    let told = refused(&up(&folder));
    assert!(told.contains("does not name server-2"), "{told}");
    edit(&volume, |_| before);
    succeeded(&up(&folder));
}

#[test]
fn a_volume_of_an_earlier_version_learns_its_servers_when_it_is_served() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    succeeded(&down(&folder));
    let marker = folder.join("meta/weft-node.toml");
    let text = fs::read_to_string(&marker).unwrap();
    let old: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("servers"))
        .collect();
    assert_ne!(old.len(), text.lines().count());
    fs::write(&marker, old.join("\n")).unwrap();
    // The servers are not known yet, so the service is asked.
    let before = edit(&volume, |config| {
        config
            .replace(&section(config, 2), "")
            .replace("\n\n\n", "\n")
    });
    let told = refused(&up(&folder));
    assert!(told.contains("does not name server-2"), "{told}");
    assert_eq!(serving(&volume), 0);
    edit(&volume, |_| before);
    succeeded(&up(&folder));
    assert_eq!(fs::read_to_string(&marker).unwrap(), text);
}

#[test]
fn down_stops_running_nodes_despite_a_wrong_configuration() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    for broken in ["this is [not legal", "", "[volume]\nname = \"x\"\n"] {
        let before = edit(&volume, |_| broken.to_owned());
        let told = succeeded(&down(&folder));
        assert!(told.contains("is not legal"), "{told}");
        assert!(told.contains("is down"), "{told}");
        assert_eq!(serving(&volume), 0);
        edit(&volume, |_| before);
        succeeded(&up(&folder));
    }
    // The configuration is gone.
    let before = fs::read(configuration(&volume)).unwrap();
    fs::remove_file(configuration(&volume)).unwrap();
    succeeded(&down(&folder));
    assert_eq!(serving(&volume), 0);
    fs::write(configuration(&volume), before).unwrap();
    succeeded(&up(&folder));
    // A server is no longer named, and its folder was moved.
    let before = edit(&volume, |config| config.replace(&section(config, 1), ""));
    succeeded(&down(&folder));
    assert_eq!(serving(&volume), 0);
    edit(&volume, |_| before);
}

#[test]
fn down_reports_an_unusable_key() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    let (key, kept) = (folder.join("volume.key"), volume.path("kept.key"));
    fs::rename(&key, &kept).unwrap();
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &key, kind, 0o600.into(), 0).unwrap();
    let told = succeeded(&down(&folder));
    assert_eq!(serving(&volume), 0);
    assert!(told.contains("it is a FIFO"), "{told}");
    assert!(told.contains("before `weft up"), "{told}");
    assert!(!told.contains("starts it again"), "{told}");
    fs::rename(&kept, &key).unwrap();
    succeeded(&up(&folder));
    let told = succeeded(&down(&folder));
    assert!(told.contains("starts it again"), "{told}");
}

#[test]
fn down_finds_a_node_whose_folder_is_elsewhere() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    succeeded(&down(&folder));
    let elsewhere = volume.path("elsewhere");
    fs::rename(folder.join("server-1"), &elsewhere).unwrap();
    let text = elsewhere.to_str().unwrap();
    edit(&volume, |config| {
        config.replace("folder = \"server-1\"", &format!("folder = \"{text}\""))
    });
    succeeded(&up(&folder));
    assert_eq!(serving(&volume), 4);
    let before = edit(&volume, |_| "broken".to_owned());
    succeeded(&down(&folder));
    assert_eq!(serving(&volume), 0);
    edit(&volume, |_| before);
}

#[test]
fn down_of_a_copy_leaves_the_original_alone() {
    let volume = Volume::up();
    let copy = volume.path("copy");
    let copied = Command::new("cp")
        .arg("-a")
        .arg(volume.path("volume"))
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    let told = succeeded(&down(&copy));
    assert!(told.contains("was not running"), "{told}");
    fs::write(copy.join("weft.toml"), "broken").unwrap();
    let told = succeeded(&down(&copy));
    assert!(told.contains("was not running"), "{told}");
    assert_eq!(serving(&volume), 4);
    volume.text("ls /");
}

#[test]
fn down_signals_only_processes_that_hold_the_lock() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    succeeded(&down(&folder));
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let path = folder.join("server-1/weft-node.lock");
    let mut lock = File::options().write(true).truncate(true).open(path);
    let lock = lock.as_mut().unwrap();
    flock(&*lock, FlockOperation::LockExclusive).unwrap();
    write!(lock, "{}\nready\n", other.id()).unwrap();
    let told = refused(&down(&folder));
    assert!(told.contains("cannot stop server-1"), "{told}");
    assert!(
        other.try_wait().unwrap().is_none(),
        "the other process was killed"
    );
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn down_stops_a_server_whose_folder_was_replaced() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    volume.feed("put /f", b"bytes");
    let (server, copy) = (folder.join("server-1"), folder.join("copy"));
    let copied = Command::new("cp").arg("-a").args([&server, &copy]).status();
    assert!(copied.unwrap().success());
    fs::remove_dir_all(&server).unwrap();
    fs::rename(&copy, &server).unwrap();
    let told = succeeded(&down(&folder));
    assert!(
        told.contains("server-1 (process ") && told.contains("its folder was removed or replaced"),
        "{told}"
    );
    // Its process and port are gone, and the copy is examined.
    let told = said(&up(&folder));
    assert!(!told.contains("ddress"), "{told}");
    assert!(!said(&down(&folder)).contains("its folder was removed"));
}
