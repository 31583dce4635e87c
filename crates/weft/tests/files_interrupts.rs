//! Ctrl-C and `kill`: the reports and leftovers of long commands, and how they continue.

mod files_support;

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use files_support::{Volume, bytes};
use rustix::process::{Pid, Signal, kill_process};

fn start(volume: &Volume, line: &str) -> Child {
    let mut command = volume.command(line.split_whitespace());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits for the end of a command with this exit code. Returns its messages.
fn ended(child: Child, code: i32) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_mins(1), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process listens for a signal.
fn listens(child: &Child, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal.as_raw() - 1) != 0)
}

/// Processes of a volume that are stopped until drop.
struct Frozen(Vec<Pid>);

impl Frozen {
    /// The metadata service, or all servers.
    fn pids(volume: &Volume, meta: bool) -> Vec<Pid> {
        let status = volume.json("status --json");
        let pid = |node: &serde_json::Value| {
            let pid = node["pid"].as_i64().unwrap();
            Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
        };
        if meta {
            return vec![pid(&status["meta"])];
        }
        status["servers"]
            .as_array()
            .unwrap()
            .iter()
            .map(pid)
            .collect()
    }

    fn new(pids: Vec<Pid>) -> Frozen {
        for pid in &pids {
            kill_process(*pid, Signal::STOP).unwrap();
        }
        Frozen(pids)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            kill_process(*pid, Signal::CONT).unwrap();
        }
    }
}

/// All names in a folder, including those that begin with a dot.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    entries.map(name).collect()
}

#[test]
fn an_interrupted_transfer_keeps_its_progress_and_explains_how_to_continue() {
    let volume = Volume::up();
    let (source, copy) = (volume.path("source"), volume.path("copy"));
    let data = bytes(1, 24 << 20);
    fs::write(&source, &data).unwrap();
    let (from, to) = (source.display(), copy.display());
    // Progress is rarely recorded during the transfer: the kept progress was recorded at its end.
    let slowly = "--limit 8M --streams 2";
    for (line, signal, code, word) in [
        (
            format!("import {from} /big"),
            Signal::INT,
            130,
            "interrupted",
        ),
        (format!("export /big {to}"), Signal::TERM, 143, "terminated"),
    ] {
        let child = start(&volume, &format!("{line} {slowly}"));
        wait_until("the command listens", || listens(&child, signal));
        std::thread::sleep(Duration::from_millis(1200));
        send(&child, signal);
        let said = ended(child, code);
        for words in [
            word,
            "of 24.0 MiB of",
            "are kept in",
            "--resume continues from there",
        ] {
            assert!(said.contains(words), "{line}: {said}");
        }
        let summary = volume.json(&format!("{line} --resume --json"));
        let resumed = summary["resumed_at"].as_u64().unwrap();
        assert!(resumed >= 4 << 20, "{summary}");
    }
    assert!(volume.run(["cat", "/big"]) == data);
    assert!(fs::read(&copy).unwrap() == data);
}

#[test]
fn an_interrupted_copy_leaves_only_complete_files() {
    let volume = Volume::up();
    volume.text("mkdir /tree");
    for n in 0..6 {
        volume.feed(&format!("put /tree/f{n}"), &bytes(n, 5 << 20));
    }
    let copy = volume.path("copy");
    let line = format!("cp -r weft:/tree {}", copy.display());
    let frozen = Frozen::new(Frozen::pids(&volume, false));
    let child = start(&volume, &line);
    wait_until("a file is being copied", || !names(&copy).is_empty());
    assert!(names(&copy).iter().all(|n| n.starts_with(".weft-copy-")));
    send(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    drop(frozen);
    let said = ended(child, 130);
    for words in [
        "interrupted",
        "no file partially",
        "with -n only the missing files",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(names(&copy).iter().all(|n| !n.starts_with('.')), "{said}");
    for name in names(&copy) {
        let n = name[1..].parse().unwrap();
        assert!(fs::read(copy.join(&name)).unwrap() == bytes(n, 5 << 20));
    }
    volume.text(&format!("cp -n -r weft:/tree/. {}", copy.display()));
    for n in 0..6 {
        let there = fs::read(copy.join(format!("f{n}"))).unwrap();
        assert!(there == bytes(n, 5 << 20), "{n}");
    }
}

#[test]
fn a_second_signal_ends_a_command_at_once() {
    let volume = Volume::up();
    volume.feed("put /big", &bytes(1, 16 << 20));
    let copy = volume.path("copy");
    fs::create_dir(&copy).unwrap();
    let frozen = Frozen::new(Frozen::pids(&volume, false));
    let child = start(&volume, &format!("cp weft:/big {}", copy.display()));
    wait_until("the file is being copied", || !names(&copy).is_empty());
    send(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(1300));
    let started = Instant::now();
    send(&child, Signal::TERM);
    let said = ended(child, 143);
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(said.contains("a second signal ends at once"), "{said}");
    drop(frozen);
}

#[test]
fn an_interrupted_removal_reports_how_much_was_removed() {
    let volume = Volume::up();
    let source = volume.path("source");
    fs::create_dir(&source).unwrap();
    for n in 0..1500 {
        fs::write(source.join(format!("f{n}")), b"").unwrap();
    }
    volume.text(&format!("cp -r {} weft:/t", source.display()));
    let pids = Frozen::pids(&volume, true);
    let child = start(&volume, "rm -r /t");
    wait_until("the command listens", || listens(&child, Signal::INT));
    let frozen = Frozen::new(pids);
    std::thread::sleep(Duration::from_millis(50));
    send(&child, Signal::INT);
    let said = ended(child, 130);
    assert!(said.contains("of /t") && said.contains("removed"), "{said}");
    drop(frozen);
    volume.text("rm -r /t");
    assert_eq!(volume.text("ls /"), "");
}

#[test]
fn a_command_that_waits_for_input_ends_on_a_signal() {
    let volume = Volume::up();
    volume.feed("put /file", b"what was there before");
    let mut child = start(&volume, "put /file");
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes(1, 9 << 20)).unwrap();
    wait_until("the command listens", || listens(&child, Signal::INT));
    wait_until("two requests are written", || {
        volume.json("stat --json /file")[0]["size"].as_u64() >= Some(8 << 20)
    });
    let started = Instant::now();
    send(&child, Signal::INT);
    let said = ended(child, 130);
    assert!(started.elapsed() < Duration::from_secs(5));
    for words in [
        "interrupted: /file holds the first",
        "gone",
        "put all of it again",
    ] {
        assert!(said.contains(words), "{said}");
    }
    drop(input);
}

#[test]
fn a_signal_ignored_at_the_start_stays_ignored() {
    let volume = Volume::up();
    // A shell that ignores a signal passes that on, as scripts do for background jobs.
    let put = format!("trap '' INT; exec {} put /file", env!("CARGO_BIN_EXE_weft"));
    let mut command = Command::new("sh");
    command
        .args(["-c", &put])
        .env("WEFT_VOLUME", volume.path("volume"));
    let command = command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn().unwrap();
    wait_until("the command listens", || listens(&child, Signal::TERM));
    send(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    child.stdin.take().unwrap().write_all(b"all").unwrap();
    ended(child, 0);
    assert_eq!(volume.text("cat /file"), "all");
}

#[test]
fn a_put_without_input_leaves_the_file_unchanged() {
    let volume = Volume::up();
    volume.feed("put /file", b"what was there before");
    for line in ["put /file", "put /file --cell 0 --truncate", "put /new"] {
        let mut child = start(&volume, line);
        let input = child.stdin.take();
        wait_until("the command listens", || listens(&child, Signal::INT));
        std::thread::sleep(Duration::from_millis(300));
        send(&child, Signal::INT);
        let said = ended(child, 130);
        drop(input);
        let words = "interrupted: nothing was put, and ";
        assert!(said.contains(words), "{line}: {said}");
        let mut command = volume.command(line.split(' '));
        let directory = fs::File::open(volume.path(".")).unwrap();
        let output = command.stdin(directory).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        for words in ["cannot read standard input", "nothing was put"] {
            assert!(said.contains(words), "{line}: {said}");
        }
    }
    assert_eq!(volume.text("cat /file"), "what was there before");
    volume.fails("stat /new", 1);
}

#[test]
fn an_interrupted_put_to_a_new_file_reports_no_lost_data() {
    let volume = Volume::up();
    let mut child = start(&volume, "put /new");
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes(1, 9 << 20)).unwrap();
    wait_until("the command writes the file", || {
        volume
            .command(["stat", "/new"])
            .output()
            .unwrap()
            .status
            .success()
    });
    send(&child, Signal::INT);
    let said = ended(child, 130);
    assert!(said.contains("/new holds the first"), "{said}");
    assert!(!said.contains("gone"), "{said}");
}
