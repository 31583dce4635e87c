//! The cases that time single calls, `small` and `files`: on paths, on a volume, and beside the
//! local disk.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::apps_common::{TestVolume, random, text};
use crate::{assert_empty, find, folder, rows, smallest, weft};

/// Arguments of a case on paths, at a small scale, with a folder for the local disk.
fn on<'a>(case: &'a str, paths: &[&'a Path], local: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["bench", case, "--json", "--scale", "0.01", "--runs", "1"];
    for path in paths {
        args.extend(["--path", path.to_str().unwrap()]);
    }
    args.extend(["--folder", local.to_str().unwrap()]);
    args.extend(more);
    args
}

fn ops_of(row: &Value) -> u64 {
    row["ops"].as_u64().unwrap()
}

#[test]
fn small_records_are_measured_on_a_path_and_beside_it_on_the_local_disk() {
    let (path, local) = (folder(), folder());
    let rows = rows(&on("small", &[path.path()], local.path(), &[]));
    for pattern in ["interleaved", "sequential", "random", "random-synced"] {
        for op in ["write", "read"] {
            let there = find(&rows, &[("pattern", pattern), ("op", op)]);
            let beside = format!("local-{pattern}");
            let beside = find(&rows, &[("pattern", &beside), ("op", op)]);
            for field in ["interface", "record", "clients", "bytes", "ops", "servers"] {
                assert_eq!(there[field], beside[field], "{there} {beside}");
            }
            assert_eq!(there["interface"], "posix");
            let bytes = ops_of(there) * there["record"].as_u64().unwrap();
            assert_eq!(there["bytes"], bytes, "{there}");
        }
    }
    let interleaved = rows.iter().filter(|r| r["pattern"] == "interleaved");
    let records: Vec<u64> = interleaved
        .filter(|r| r["op"] == "read" && r["clients"] == 4)
        .map(|r| r["record"].as_u64().unwrap())
        .collect();
    assert_eq!(records, [64, 1024, 4096, 65_536]);
    let mut cold = rows.iter().filter(|r| r["pattern"] == "random-cold");
    assert!(cold.next().is_some_and(|r| r["op"] == "read") && cold.next().is_none());
    assert_empty(path.path());
    assert_empty(local.path());
}

#[test]
fn files_are_created_looked_at_read_and_removed_on_a_path() {
    let (path, local) = (folder(), folder());
    let args = on("files", &[path.path()], local.path(), &["--clients", "1,2"]);
    let all = rows(&args);
    for pattern in ["closed", "synced", "local-closed", "local-synced"] {
        for clients in [1, 2] {
            let of_both = all.iter().filter(|r| r["pattern"] == pattern);
            let life: Vec<&Value> = of_both.filter(|r| r["clients"] == clients).collect();
            let steps: Vec<&str> = life.iter().map(|r| r["op"].as_str().unwrap()).collect();
            assert_eq!(steps, ["create", "stat", "read", "remove"], "{pattern}");
            assert!(life.iter().all(|r| ops_of(r) == 10 * clients));
            assert_eq!(life[0]["bytes"], 10 * clients * 4096);
        }
    }
    let more = ["--op", "stat", "--pattern", "closed", "--record", "100"];
    let only = rows(&on("files", &[path.path()], local.path(), &more));
    assert!(only.iter().all(|r| r["op"] == "stat" && r["record"] == 100));
    assert_eq!(only.len(), 2);
    assert_empty(path.path());
    assert_empty(local.path());
}

#[test]
fn a_volume_gets_one_message_for_a_small_record_and_the_life_of_files() {
    let small = smallest("small", &["--pattern", "sequential,random-cold"]);
    assert_eq!(small.len(), 3);
    for row in &small {
        assert_eq!(row["messages"], row["ops"], "{row}");
        assert_eq!((&row["servers"], &row["clients"]), (&1.into(), &1.into()));
    }
    let files = smallest("files", &["--servers", "2", "--clients", "2"]);
    let stat = find(&files, &[("pattern", "closed"), ("op", "stat")]);
    assert_eq!(stat["messages"], stat["ops"]);
    assert_eq!((&stat["servers"], ops_of(stat)), (&2.into(), 8));
    let beside = find(&files, &[("pattern", "local-synced"), ("op", "create")]);
    assert_eq!(
        (&beside["servers"], &beside["messages"]),
        (&0.into(), &Value::Null)
    );
}

#[test]
fn an_existing_volume_is_as_before_when_its_files_were_measured() {
    let volume = TestVolume::start(1);
    volume.put("/mine", &[], &random(1, 5000));
    let before = volume.names("/");
    let local = folder();
    let args = on("files", &[], local.path(), &["--clients", "2"]);
    let rows = volume.json(&args);
    let rows = rows.as_array().unwrap();
    let (beside, there): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|r| r["interface"] == "posix");
    assert_eq!((beside.len(), there.len()), (8, 8));
    assert_eq!(volume.names("/"), before);
    assert_empty(local.path());
}

#[test]
fn what_is_written_through_one_mount_is_read_through_the_next() {
    let (path, local) = (folder(), folder());
    // Another name of the same directory is to the benchmark another mount of it.
    let names = folder();
    let other = names.path().join("other");
    symlink(path.path(), &other).unwrap();
    for (case, pattern) in [("small", "interleaved"), ("files", "closed")] {
        let paths = [path.path(), other.as_path()];
        rows(&on(case, &paths, local.path(), &["--pattern", pattern]));
        assert_empty(path.path());
    }
    let paths = [path.path(), local.path()];
    let refused = weft(&on("small", &paths, local.path(), &[]));
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(said.contains("another mount"), "{said}");
    assert_empty(path.path());
}

#[test]
fn a_command_runs_before_each_step_that_looks() {
    let (path, local) = (folder(), folder());
    let told = folder();
    let note = told.path().join("note");
    let count = format!("echo >> {}", note.display());
    let more = ["--pattern", "closed", "--clients", "2", "--before-read"];
    let with = |command: &str| {
        let more = [&more[..], &[command]].concat();
        weft(&on("files", &[path.path()], local.path(), &more))
    };
    assert!(with(&count).status.success());
    // Before stat and before read.
    assert_eq!(std::fs::read(&note).unwrap(), b"\n\n");
    let failed = with("echo no caches here >&2; false");
    assert!(!failed.status.success());
    let said = text(&failed.stderr);
    assert!(said.contains("no caches here"), "{said}");
    assert_empty(path.path());
}

#[test]
fn a_changed_byte_of_a_small_file_ends_the_run() {
    let (path, local) = (folder(), folder());
    let change = format!(
        "for f in {}/*/1/0/7; do printf X | dd of=$f bs=1 seek=99 conv=notrunc; done",
        path.path().display()
    );
    let more = ["--pattern", "closed", "--before-read", &change];
    let out = weft(&on("files", &[path.path()], local.path(), &more));
    assert!(!out.status.success());
    let said = text(&out.stderr);
    assert!(said.contains("WRONG DATA: byte 99 of file 7"), "{said}");
    assert_empty(path.path());
}

#[test]
fn an_interrupted_benchmark_removes_its_small_files() {
    let (path, local) = (folder(), folder());
    let long = ["--runs", "1000", "--scale", "1", "--pattern", "closed"];
    let bench = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["bench", "files", "--path", path.path().to_str().unwrap()])
        .args(["--folder", local.path().to_str().unwrap()])
        .args(long)
        .env_remove("WEFT_VOLUME")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let files = || {
        let own = std::fs::read_dir(path.path()).ok()?.next()?.ok()?;
        let client = own.path().join("1/0");
        std::fs::read_dir(client).ok()?.next()
    };
    let began = Instant::now();
    while files().is_none() {
        assert!(
            began.elapsed().as_secs() < 60,
            "the benchmark does not start"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    let out = bench.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
    assert_empty(path.path());
    assert_empty(local.path());
}

#[test]
fn rates_become_plots_of_operations() {
    let (path, local) = (folder(), folder());
    let out = weft(&on("files", &[path.path()], local.path(), &[]));
    let place = |name: &str| local.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(place("rows.json"), &out.stdout).unwrap();
    let plotted = weft(&[
        "bench",
        "plot",
        &place("rows.json"),
        "-o",
        &place("all.svg"),
    ]);
    assert!(plotted.status.success(), "{}", text(&plotted.stderr));
    let svg = std::fs::read_to_string(place("all.svg")).unwrap();
    for words in [
        "operations/s",
        "files: create",
        "files: stat",
        "local-closed",
    ] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
}
