//! Pending operations that servers refuse permanently, and files that checkpoints of trees hold:
//! `weft fsck` reports both, and neither prevents using or removing a file.

mod files_support;

use std::path::Path;
use std::time::Duration;

use files_support::{Volume, bytes};
use serde_json::Value;

fn fsck(volume: &Volume, args: &[&str]) -> (Value, i32) {
    let output = volume.command(["fsck", "--json"]).args(args).output();
    let output = output.unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    (
        report.unwrap_or_else(|_| panic!("{error}")),
        output.status.code().unwrap(),
    )
}

fn faults(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|f| f["fault"].as_str().unwrap()).collect()
}

/// Runs a command line that fails. Returns its error message.
fn refused(volume: &Volume, line: &str) -> String {
    let output = volume.start(line, b"").wait_with_output().unwrap();
    assert!(!output.status.success(), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

/// Makes server 1 lose its data.
fn format_anew(volume: &Volume) {
    let folder = volume.path("volume");
    let (dir, config) = (folder.to_str().unwrap(), folder.join("weft.toml"));
    volume.run(["down", dir]);
    std::fs::remove_dir_all(folder.join("server-1")).unwrap();
    let config = config.to_str().unwrap();
    volume.run(["format", "--config", config, "--node", "server-1"]);
    volume.run(["up", dir]);
}

/// Waits until no operation is pending.
fn nothing_is_owed(volume: &Volume) {
    for _ in 0..100 {
        let output = volume.command(["status", "--json"]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        if status["pending"] == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("an operation is still pending");
}

#[test]
fn a_rollback_to_lost_data_is_refused_and_leaves_nothing_pending() {
    let volume = Volume::up();
    let content = bytes(1, 3 << 20);
    for name in ["/file", "/other"] {
        volume.feed(&format!("put {name}"), &content);
        volume.text(&format!("checkpoint create {name} c"));
    }
    format_anew(&volume);
    for _ in 0..2 {
        let error = refused(&volume, "checkpoint rollback /file c");
        assert!(error.contains("nothing is rolled back"), "{error}");
        assert!(error.contains("fsck"), "{error}");
    }
    nothing_is_owed(&volume);
    // The servers that still have their share were not rolled back, and the file can be truncated
    // and removed.
    volume.text("truncate --size 1000000 /file");
    volume.text("rm /file");
    nothing_is_owed(&volume);
    let (report, code) = fsck(&volume, &["--repair"]);
    assert_eq!(code, 4, "a repair accepts no loss: {report}");
    let (report, code) = fsck(&volume, &["--accept", "/other"]);
    assert_eq!(code, 1, "{report}");
    assert!(faults(&report).contains(&"checkpoint missing"), "{report}");
    // Losses that were accepted do not prevent anything.
    volume.text("checkpoint rollback /other c");
    let (report, code) = fsck(&volume, &["--accept-server", "1"]);
    assert!(code <= 1, "{report}");
    assert_eq!(fsck(&volume, &[]).1, 0);
}

#[test]
fn a_tree_is_rolled_back_as_a_whole_or_not_at_all() {
    let volume = Volume::up();
    volume.text("mkdir /d");
    volume.feed("put /d/file", &bytes(1, 3 << 20));
    volume.text("checkpoint create /d c");
    volume.feed("put /d/later", b"later");
    format_anew(&volume);
    let error = refused(&volume, "checkpoint rollback /d c");
    assert!(error.contains("nothing is rolled back"), "{error}");
    assert_eq!(volume.text("cat /d/later"), "later");
    nothing_is_owed(&volume);
    assert_eq!(fsck(&volume, &["--accept-server", "1"]).1, 1);
    volume.text("checkpoint rollback /d c");
    volume.fails("cat /d/later", 1);
}

#[test]
fn lost_data_of_a_trees_checkpoint_is_found_and_the_rest_stays_usable() {
    let volume = Volume::up();
    let content = bytes(2, 3 << 20);
    volume.text("mkdir /d");
    for name in ["/d/file", "/d/gone"] {
        volume.feed(&format!("put {name}"), &content);
    }
    volume.text("checkpoint create /d c");
    assert_eq!(fsck(&volume, &[]).1, 0);
    volume.text("rm /d/gone");
    nothing_is_owed(&volume);
    assert_eq!(fsck(&volume, &[]).1, 0);
    format_anew(&volume);
    for path in [
        "/d/file",
        "/d/.weft/checkpoints/c/file",
        "/d/.weft/checkpoints/c/gone",
    ] {
        let error = refused(&volume, &format!("cat {path}"));
        assert!(error.contains("fsck --accept FILE"), "{error}");
    }
    let (report, code) = fsck(&volume, &[]);
    assert_eq!(code, 4, "{report}");
    for fault in ["cells lost", "checkpoint missing"] {
        assert_eq!(
            faults(&report).iter().filter(|f| **f == fault).count(),
            2,
            "{report}"
        );
    }
    assert_eq!(fsck(&volume, &["--repair"]).1, 4);
    assert_eq!(fsck(&volume, &["--accept-server", "1"]).1, 1);
    let (report, code) = fsck(&volume, &[]);
    assert_eq!((faults(&report), code), (vec![], 0), "{report}");
    for path in [
        "/d/file",
        "/d/.weft/checkpoints/c/file",
        "/d/.weft/checkpoints/c/gone",
    ] {
        let left = volume.run(["cat", path]);
        assert!(left.iter().zip(&content).filter(|(a, b)| a == b).count() > 1 << 20);
    }
    volume.text("checkpoint delete /d c");
    nothing_is_owed(&volume);
    assert_eq!(fsck(&volume, &[]).1, 0);
}

/// A volume of one server with its data on one disk, which is then removed; files `/f0` … of an odd
/// length.
fn without_its_disk(volume: &Volume, files: usize) {
    let folder = volume.path("disks");
    let (dir, disk) = (folder.to_str().unwrap().to_owned(), volume.path("disk"));
    let lost = |volume: &Volume, line: &[&str]| {
        let output = volume.command(line).env("WEFT_VOLUME", &folder).output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    std::fs::create_dir(&disk).unwrap();
    lost(
        volume,
        &[
            "up",
            &dir,
            "--servers",
            "1",
            "--disks",
            disk.to_str().unwrap(),
        ],
    );
    let local = volume.path("local");
    std::fs::write(&local, bytes(3, 3 << 20)).unwrap();
    for n in 0..files {
        lost(
            volume,
            &["import", local.to_str().unwrap(), &format!("/f{n}")],
        );
    }
    lost(volume, &["down", &dir]);
    std::fs::rename(&disk, Path::new(&dir).join("away")).unwrap();
    std::fs::create_dir(&disk).unwrap();
    lost(volume, &["up", &dir]);
}

#[test]
fn a_truncation_on_a_lost_disk_is_reported_for_its_file_and_undone_by_a_repair() {
    let mut volume = Volume::up();
    without_its_disk(&volume, 3);
    volume = volume.at("disks");
    for n in [1, 0, 2] {
        let error = refused(&volume, &format!("truncate --size 1000001 /f{n}"));
        let file = volume.json(&format!("stat --json /f{n}"))[0]["id"]
            .as_u64()
            .unwrap();
        assert!(
            error.contains(&format!("file {file}")),
            "/f{n}, file {file}: {error}"
        );
    }
    // Removing a file does not need the disk.
    volume.text("rm /f1");
    let (report, code) = fsck(&volume, &[]);
    assert_eq!(
        (faults(&report), code),
        (vec!["refused", "refused", "missing disk"], 4),
        "{report}"
    );
    let paths: Vec<&Value> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .take(2)
        .map(|f| &f["paths"][0])
        .collect();
    assert_eq!(paths, ["/f0", "/f2"], "{report}");
    let (report, code) = fsck(&volume, &["--repair"]);
    assert_eq!(
        (report["repaired"].as_u64(), code),
        (Some(2), 4),
        "{report}"
    );
    nothing_is_owed(&volume);
    // The disk is still missing.
    let (report, code) = fsck(&volume, &[]);
    assert_eq!((faults(&report), code), (vec!["missing disk"], 4));
    volume.text("rm /f0 /f2");
    nothing_is_owed(&volume);
}
