//! Helpers for tests of `weft fsck`.
#![allow(dead_code, missing_docs)]

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

use serde_json::Value;
use weft_kv::{Batch, FjallKv, FjallOptions, OrderedKv, Space};

use crate::files_support::Volume;

/// The report of a run and its exit code.
pub fn fsck(volume: &Volume, args: &[&str]) -> (Value, i32) {
    let output = volume
        .command(["fsck", "--json"])
        .args(args)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!error.contains("panicked"), "{error}");
    let report = serde_json::from_slice(&output.stdout);
    (
        report.unwrap_or_else(|_| panic!("{error}")),
        output.status.code().unwrap(),
    )
}

pub fn faults(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|f| f["fault"].as_str().unwrap())
        .collect()
}

/// Repairs once and checks that nothing is left.
pub fn repair(volume: &Volume, args: &[&str]) -> Value {
    let (report, code) = fsck(volume, &[&["--repair"], args].concat());
    assert_eq!(code, 1, "{report}");
    let (again, code) = fsck(volume, args);
    assert_eq!((faults(&again), code), (Vec::<&str>::new(), 0), "{again}");
    report
}

/// Folders of this name below one.
pub fn folders(below: &Path, name: &str) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![below.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().unwrap() == name {
                    found.push(path.clone());
                }
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

pub fn engine(folder: &Path) -> FjallKv {
    FjallKv::open(folder, FjallOptions::default()).unwrap()
}

pub fn all(kv: &FjallKv, space: &'static str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    let reader = kv.snapshot().unwrap();
    reader
        .scan(Space(space), Bound::Unbounded, Bound::Unbounded, &mut visit)
        .unwrap();
    found
}

pub fn write(kv: &FjallKv, space: &'static str, key: Vec<u8>, value: Option<Vec<u8>>) {
    let changes = vec![(Space(space), key, value)];
    kv.write(Batch { changes }).unwrap();
    kv.sync().unwrap();
}

/// Stops a volume, runs `work` on its namespace, and starts it again.
pub fn stopped(volume: &Volume, work: impl FnOnce(&Path)) {
    let folder = volume.path("volume");
    let dir = folder.to_str().unwrap();
    volume.run(["down", dir]);
    work(&folder);
    start(volume);
}

/// Starts a volume, and accepts nodes that are refused as older copies.
pub fn start(volume: &Volume) {
    let folder = volume.path("volume");
    let up = volume.command(["up", folder.to_str().unwrap()]).output();
    let up = up.unwrap();
    if up.status.success() {
        return;
    }
    let said = String::from_utf8(up.stderr).unwrap();
    let refused = said.lines().filter_map(|line| {
        let (_, rest) = line.split_once("weft server accept-rollback ")?;
        Some(rest[..rest.find('`')?].to_owned())
    });
    let refused: Vec<String> = refused.collect();
    assert!(!refused.is_empty(), "{said}");
    for node in &refused {
        volume.text(&format!("server accept-rollback {node}"));
    }
    // Servers come up with their next heartbeat, and record the state of the service with the one
    // after.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    // Their data is accepted as it is: these tests look for inconsistencies.
    for server in refused.iter().filter(|node| *node != "metadata") {
        let accept = ["fsck", "--accept-server", server];
        volume.command(accept).output().unwrap();
    }
}

pub fn id(volume: &Volume, path: &str) -> u64 {
    volume.json(&format!("stat --json {path}"))[0]["id"]
        .as_u64()
        .unwrap()
}
