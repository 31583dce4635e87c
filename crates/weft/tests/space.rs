//! The disk space that a real volume takes.

mod files_support;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use files_support::{Volume, bytes};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const FILES: u64 = 6;
const LENGTH: u64 = 64 * MIB;
/// Servers and the metadata service.
const NODES: u64 = 4;

/// Bytes on disk of a folder.
fn held(folder: &Path) -> u64 {
    held_by(folder, |_| true)
}

/// Bytes on disk of its files with these names.
fn held_by(folder: &Path, named: fn(&str) -> bool) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        sum += match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => held_by(&path, named),
            Ok(_) if !path.file_name().unwrap().to_str().is_some_and(named) => 0,
            Ok(found) => found.blocks() * 512,
            // Segments of the log come and go.
            Err(_) => 0,
        };
    }
    sum
}

fn stored(volume: &Volume) -> u64 {
    let status: Value = serde_json::from_slice(&volume.run(["status", "--json"])).unwrap();
    let servers = status["servers"].as_array().unwrap();
    servers.iter().map(|s| s["used"].as_u64().unwrap()).sum()
}

fn bound(stored: u64) -> u64 {
    stored + stored / 20 + NODES * 256 * MIB
}

fn trim(volume: &Volume) -> Value {
    serde_json::from_slice(&volume.run(["trim", "--json"])).unwrap()
}

/// Servers report their usage to the service once a second.
fn wait_for(volume: &Volume, wanted: u64) {
    let begun = Instant::now();
    while stored(volume) != wanted {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{}",
            stored(volume)
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_volume_takes_little_more_space_than_it_stores() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    for n in 0..FILES {
        volume.feed(&format!("put /f{n}"), &bytes(n, LENGTH as usize));
    }
    assert!(
        held(&folder) > bound(FILES * LENGTH),
        "the disk grows in large steps"
    );
    let report = trim(&volume);
    assert!(
        report["given_back"].as_u64().unwrap() > 1024 * MIB,
        "{report}"
    );
    let servers = report["servers"].as_array().unwrap();
    let used: u64 = servers.iter().map(|s| s["used"].as_u64().unwrap()).sum();
    assert_eq!(used, FILES * LENGTH);
    assert!(held(&folder) <= bound(used), "{} MiB", held(&folder) / MIB);
    for n in 0..FILES {
        assert!(volume.run(["cat", &format!("/f{n}")]) == bytes(n, LENGTH as usize));
    }

    for n in 1..FILES {
        volume.run(["rm", &format!("/f{n}")]);
    }
    let removed = Instant::now();
    wait_for(&volume, LENGTH);
    let blocks = || held_by(&folder, |name| name == "data");
    while held(&folder) > bound(LENGTH) || blocks() > LENGTH + LENGTH / 20 + 3 * 33 * MIB {
        assert!(
            removed.elapsed() < Duration::from_mins(1),
            "{} MiB",
            blocks() / MIB
        );
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(volume.run(["cat", "/f0"]) == bytes(0, LENGTH as usize));
    // It is as small after a restart, and returned space can be written again.
    volume.run(["down", &folder.display().to_string()]);
    volume.run(["up", &folder.display().to_string()]);
    volume.feed("put /again", &bytes(77, LENGTH as usize));
    assert!(volume.run(["cat", "/again"]) == bytes(77, LENGTH as usize));
    trim(&volume);
    assert!(
        held(&folder) <= bound(2 * LENGTH),
        "{} MiB",
        held(&folder) / MIB
    );
}
