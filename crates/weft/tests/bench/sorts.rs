//! The case `sort` on a path: the same sort with POSIX calls, checked, with nothing left behind.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::apps_common::{random, text};
use crate::{assert_empty, folder, rows, weft};

#[test]
fn a_path_is_sorted_by_posix_calls() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let rows = rows(&[
        "bench",
        "sort",
        "--path",
        path,
        "--scale",
        "0.01",
        "--runs",
        "2",
        "--json",
        "--clients",
        "3",
        "--record",
        "100",
    ]);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(
        (&row["interface"], &row["messages"], &row["servers"]),
        (&"posix".into(), &Value::Null, &0.into())
    );
    assert_eq!((&row["clients"], &row["op"]), (&3.into(), &"write".into()));
    assert_empty(folder.path());
}

/// Names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn files_of_a_path_are_sorted_as_one_process_would() {
    let folder = folder();
    let path = folder.path().join("records");
    for (records, record, procs) in [(1, 7, 3), (10_007, 13, 5), (4_099, 100, 2), (999, 16, 1)] {
        let data = random(records as u64, records * record);
        std::fs::write(&path, &data).unwrap();
        let (record_text, procs) = (record.to_string(), procs.to_string());
        let sort = ["sort-path", path.to_str().unwrap(), "--json"];
        let out = weft(&[&sort[..], &["--record", &record_text, "--procs", &procs]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let summary: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(summary["records"], records);
        let mut expected: Vec<&[u8]> = data.chunks(record).collect();
        expected.sort_unstable();
        assert!(
            std::fs::read(&path).unwrap() == expected.concat(),
            "{records} x {record}"
        );
        assert_eq!(names(folder.path()), ["records"]);
    }
}

/// The children of a process, once there are `number` of them.
fn children(of: &Child, number: usize) -> Vec<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", of.id());
    let deadline = Instant::now() + Duration::from_mins(1);
    while Instant::now() < deadline {
        let children = std::fs::read_to_string(&path).unwrap_or_default();
        let pids = children.split_whitespace();
        let pids: Vec<Pid> = pids
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect();
        if pids.len() == number {
            return pids;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("no {number} children");
}

fn start(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(args)
        .env_remove("WEFT_VOLUME")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_worker_leaves_the_file_on_a_path_unchanged() {
    let folder = folder();
    let path = folder.path().join("records");
    let data = random(8, 48 << 20);
    std::fs::write(&path, &data).unwrap();
    let sort = ["sort-path", path.to_str().unwrap(), "--record", "16"];
    let leader = start(&[&sort[..], &["--procs", "2"]].concat());
    let workers = children(&leader, 2);
    kill_process(workers[1], Signal::KILL).unwrap();
    let out = leader.wait_with_output().unwrap();
    assert!(!out.status.success());
    assert!(text(&out.stderr).contains("died"), "{}", text(&out.stderr));
    assert!(std::fs::read(&path).unwrap() == data);
    assert_eq!(names(folder.path()), ["records"]);
}

#[test]
fn an_interrupted_benchmark_stops_its_sort() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let bench = start(&["bench", "sort", "--path", path, "--runs", "1000"]);
    // The directory of the benchmark, with files of a running sort.
    let scratch = || {
        let own = names(folder.path()).pop()?;
        let files = std::fs::read_dir(folder.path().join(own)).ok()?;
        let mut names = files.filter_map(|f| f.ok()?.file_name().into_string().ok());
        names.find(|name| name.contains(".sort-"))
    };
    let began = Instant::now();
    while scratch().is_none() {
        assert!(
            began.elapsed().as_secs() < 60,
            "the benchmark does not start"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let sort = children(&bench, 1);
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    let out = bench.wait_with_output().unwrap();
    assert!(!out.status.success());
    assert!(
        text(&out.stderr).contains("interrupted"),
        "{}",
        text(&out.stderr)
    );
    assert_empty(folder.path());
    let gone = !Path::new(&format!("/proc/{}", sort[0].as_raw_nonzero())).exists();
    assert!(gone, "the sort is still running");
}
