//! The scrub of a real volume finds exactly the bytes that were changed on disk.

mod files_support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use files_support::{Volume, bytes};
use serde_json::Value;

/// The findings of a scrub, and its exit code.
fn scrub(volume: &Volume) -> (Value, i32) {
    let output = volume.command(["scrub", "--json"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    (report.expect(&error), output.status.code().unwrap())
}

/// The files of this name in the volume's folder, wherever they lie.
fn files(volume: &Volume, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![volume.path("volume")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap() == name {
                found.push(path);
            }
        }
    }
    found
}

/// Flips a bit of every block of every server's disk that holds a mark; returns the disk's blocks.
fn flip(volume: &Volume, mark: &[u8]) -> Vec<u64> {
    let disks = files(volume, "data");
    disks
        .iter()
        .flat_map(|disk| flip_disk(disk, mark))
        .collect()
}

fn flip_disk(disk: &Path, mark: &[u8]) -> Vec<u64> {
    let file = File::options().read(true).write(true).open(disk).unwrap();
    let (mut block, mut flipped) = ([0; 4096], Vec::new());
    // The disk is allocated in steps far larger than the data of the test.
    for n in 0..4096 {
        if file.read_exact_at(&mut block, n * 4096).is_err() {
            break;
        }
        if let Some(at) = block.windows(mark.len()).position(|w| w == mark) {
            file.write_all_at(&[block[at] ^ 1], n * 4096 + at as u64)
                .unwrap();
            flipped.push(n);
        }
    }
    flipped
}

/// A volume of two files with a damaged block in the second; returns that block of the disk, too.
fn damaged() -> (Volume, u64) {
    let volume = Volume::up();
    volume.text("mkdir /d");
    let marks: Vec<Vec<u8>> = (0..2).map(|i| bytes(100 + i, 32)).collect();
    for (i, mark) in marks.iter().enumerate() {
        let mut content = bytes(i as u64, 3 << 20);
        content[1_500_000..1_500_032].copy_from_slice(mark);
        volume.feed(&format!("put /d/file{i}"), &content);
    }
    let (report, code) = scrub(&volume);
    assert_eq!((code, &report["bad_blocks"]), (0, &0.into()), "{report}");
    assert!(report["bytes"].as_u64().unwrap() >= 6 << 20, "{report}");

    let dir = volume.path("volume");
    let dir = dir.to_str().unwrap();
    volume.run(["down", dir]);
    let damaged = flip(&volume, &marks[1]);
    let [block] = damaged[..] else {
        panic!("the mark lies in blocks {damaged:?}")
    };
    volume.run(["up", dir]);
    (volume, block)
}

#[test]
fn a_scrub_finds_exactly_the_damaged_blocks_and_names_the_file() {
    let (volume, block) = damaged();
    for _ in 0..2 {
        let (report, code) = scrub(&volume);
        assert_eq!((code, &report["bad_blocks"]), (1, &1.into()), "{report}");
        let findings = report["findings"].as_array().unwrap();
        let [finding] = &findings[..] else {
            panic!("{report}")
        };
        assert_eq!(
            finding["paths"],
            serde_json::json!(["/d/file1"]),
            "{report}"
        );
        assert_eq!(finding["fault"], "wrong checksum");
        assert_eq!(
            (&finding["blocks"], &finding["disk"]),
            (&1.into(), &0.into())
        );
        assert_eq!(finding["disk_block"], block);
        // Reads report the same.
        let error = volume.fails("cat /d/file1", 1);
        for field in ["file", "cell", "chunk"] {
            let words = format!("{field} {}", finding[field]);
            assert!(error.contains(&words), "{error} lacks {words}");
        }
        let words = format!(
            "block {} of the chunk, block {block} of disk 0",
            finding["first_block"]
        );
        assert!(error.contains(&words), "{error} lacks {words}");
    }
    assert_eq!(volume.run(["cat", "/d/file0"]).len(), 3 << 20);
    // Only the named server is scrubbed; after a new write the file is good.
    volume.feed("put /d/file1", &bytes(7, 3 << 20));
    assert_eq!(scrub(&volume).1, 0);
    assert!(volume.fails("scrub --server 9", 1).contains("no server 9"));
}

#[test]
fn blocks_dropped_by_a_repair_are_reported_as_lost_until_they_are_accepted() {
    let (volume, _) = damaged();
    let dir = volume.path("volume");
    let dir = dir.to_str().unwrap();
    // A repair drops the block: reads, checks, scrubs and the status report that until it is
    // accepted.
    let fsck = |code| {
        let output = volume
            .command(["fsck", "--data", "--repair"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    };
    let text = fsck(4);
    assert!(
        text.contains("/d/file1") && text.contains("marked as lost"),
        "{text}"
    );
    let name = text
        .split_whitespace()
        .find(|word| word.starts_with("damaged."));
    let kept = files(&volume, name.unwrap());
    assert_eq!(std::fs::read(&kept[0]).unwrap().len(), 4096);
    let (report, code) = scrub(&volume);
    assert_eq!(
        (code, &report["findings"][0]["fault"]),
        (1, &"lost".into()),
        "{report}"
    );
    let error = volume.fails("cat /d/file1", 1);
    assert!(
        error.contains("/d/file1") && error.contains("lost"),
        "{error}"
    );
    assert!(!error.contains("65535"), "{error}");
    let text = fsck(4);
    let range = error
        .split("bytes ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(
        text.contains("/d/file1") && text.contains(range),
        "{text} of {error}"
    );
    let status = volume.command(["status"]).output().unwrap();
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.code(), Some(1), "{text}");
    assert!(text.contains("4.0 KiB of 1 file are lost"), "{text}");
    // A restart does not change that.
    volume.run(["down", dir]);
    volume.run(["up", dir]);
    fsck(4);
    assert!(volume.fails("cat /d/file1", 1).contains("lost"));
    // Once accepted, it reads as zeros, and nothing is reported.
    let whole = volume
        .command(["fsck", "--accept", "/d/file1", "--json"])
        .output();
    let whole = whole.unwrap();
    let report: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(
        (whole.status.code(), &report["left"]),
        (Some(1), &0.into()),
        "{report}"
    );
    fsck(0);
    assert_eq!(scrub(&volume).1, 0);
    volume.run(["status"]);
    let found = volume.run(["cat", "/d/file1"]);
    let right = bytes(1, 3 << 20);
    let differ: Vec<usize> = (0..found.len() / 4096)
        .filter(|n| {
            let there = n * 4096..(n + 1) * 4096;
            !there.contains(&1_500_000) && found[there.clone()] != right[there]
        })
        .collect();
    let at = 1_500_000 / 4096 * 4096;
    assert!(
        differ.is_empty() && found[at..at + 4096] == [0; 4096],
        "{differ:?}"
    );
    let again = volume
        .command(["fsck", "--accept", "/d/file1"])
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&again.stderr).contains("no bytes of it are known to be lost"));
}

#[test]
fn an_interrupted_scrub_continues_where_it_stopped() {
    let volume = Volume::up();
    volume.feed("put /file", &bytes(1, 24 << 20));
    let mut child = volume
        .command(["scrub", "--rate", "1M"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let sent = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let (report, code) = scrub(&volume);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["bytes"].as_u64().unwrap(), 24 << 20, "{report}");
}
