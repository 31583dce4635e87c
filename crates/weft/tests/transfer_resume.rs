//! Transfers that are killed, resumed and compared.

mod files_support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use files_support::{Volume, bytes};
use weft_client::ConnectOptions;

const SIZE: usize = 40 << 20;
/// Slow enough to be killed halfway; progress is recorded after every piece.
const SLOWLY: &str = "--limit 16M --checkpoint 4M --streams 2";

fn start(volume: &Volume, line: &str) -> Child {
    let mut command = volume.command(line.split_whitespace());
    command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until progress beyond an offset is recorded. Returns the progress.
fn progress(beyond: u64, mut noted: impl FnMut() -> Option<Vec<u8>>) -> u64 {
    let started = Instant::now();
    loop {
        if let Some(record) = noted() {
            let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
            match record["done"].as_u64().unwrap() {
                done if done > beyond => return done,
                _ => {}
            }
        }
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "no progress was recorded"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The progress record of a part of an import.
fn record_of(volume: &Volume, path: &str, part: u32) -> Option<Vec<u8>> {
    let end = format!(".{part}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions::from_folder(volume.path("volume")).unwrap();
        let client = weft_client::Volume::connect(options).await.unwrap();
        let names = client.list_xattr(path).await.ok()?;
        let record =
            |n: &&bytes::Bytes| n.starts_with(b"user.weft.import.") && n.ends_with(end.as_bytes());
        let name = names.iter().find(record)?;
        Some(client.get_xattr(path, name).await.ok()?.to_vec())
    })
}

/// Starts an import and kills it with SIGKILL once it has recorded progress.
fn killed_import(volume: &Volume, from: &Path, to: &str) -> u64 {
    let mut child = start(volume, &format!("import {} {to} {SLOWLY}", from.display()));
    let done = progress(0, || record_of(volume, to, 1));
    child.kill().unwrap();
    assert!(
        !child.wait().unwrap().success(),
        "the transfer ended before the kill"
    );
    done
}

#[test]
fn a_killed_import_continues_from_its_last_sync() {
    let volume = Volume::up();
    let (source, data) = (volume.path("source"), bytes(1, SIZE));
    fs::write(&source, &data).unwrap();
    let from = source.display();
    let done = killed_import(&volume, &source, "/big");
    assert!(done >= 4 << 20 && (done as usize) < SIZE);
    let refused = volume.fails(&format!("import {from} /big"), 1);
    assert!(
        refused.contains("--resume") && refused.contains("unfinished"),
        "{refused}"
    );
    let summary = volume.json(&format!("import {from} /big --resume --json"));
    let resumed = summary["resumed_at"].as_u64().unwrap();
    assert!(resumed >= done, "{summary}");
    assert_eq!(summary["copied"].as_u64().unwrap(), SIZE as u64 - resumed);
    assert!(volume.run(["cat", "/big"]) == data);
    assert!(record_of(&volume, "/big", 1).is_none());

    // A changed source is not mixed with the copied bytes.
    killed_import(&volume, &source, "/other");
    let mut file = fs::File::options().append(true).open(&source).unwrap();
    file.write_all(b"more").unwrap();
    let refused = volume.fails(&format!("import {from} /other --resume"), 1);
    assert!(refused.contains("no longer"), "{refused}");
    volume.text(&format!("import {from} /other --force"));
    assert!(volume.run(["cat", "/other"]) == fs::read(&source).unwrap());
}

#[test]
fn a_killed_export_continues_from_its_last_sync() {
    let volume = Volume::up();
    let data = bytes(2, SIZE);
    volume.feed("put /big", &data);
    let copy = volume.path("copy");
    let (to, record) = (copy.display(), volume.path("copy.weft-export-1.1"));
    let mut child = start(&volume, &format!("export /big {to} {SLOWLY}"));
    let done = progress(0, || fs::read(&record).ok());
    child.kill().unwrap();
    assert!(
        !child.wait().unwrap().success(),
        "the transfer ended before the kill"
    );
    assert!(done < SIZE as u64);
    let refused = volume.fails(&format!("export /big {to}"), 1);
    assert!(refused.contains("--resume"), "{refused}");
    let summary = volume.json(&format!("export /big {to} --resume --verify --json"));
    assert!(summary["resumed_at"].as_u64().unwrap() >= done, "{summary}");
    assert_eq!(summary["verified"], true);
    assert!(fs::read(&copy).unwrap() == data);
    assert!(!record.exists());
}

#[test]
fn a_killed_part_continues_without_the_others() {
    let volume = Volume::up();
    let (source, data) = (volume.path("source"), bytes(5, SIZE));
    fs::write(&source, &data).unwrap();
    let (from, copy) = (source.display(), volume.path("copy"));
    let import = |part: u32| format!("import {from} /big --cells 3 --part {part}/3");
    let export = |part: u32| format!("export /big {} --part {part}/3", copy.display());
    let lines: [&dyn Fn(u32) -> String; 2] = [&import, &export];
    for line in lines {
        let slowly = line(2) + " --limit 4M --checkpoint 4M --streams 1";
        let mut children = [start(&volume, &line(1)), start(&volume, &line(3))];
        let mut slow = start(&volume, &slowly);
        // Ten pieces: the second part begins with the fourth.
        let noted = || {
            let beside = fs::read(volume.path("copy.weft-export-3.2")).ok();
            beside.or_else(|| record_of(&volume, "/big", 2))
        };
        let done = progress(12 << 20, noted);
        slow.kill().unwrap();
        assert!(
            !slow.wait().unwrap().success(),
            "the transfer ended before the kill"
        );
        for child in &mut children {
            assert!(child.wait().unwrap().success());
        }
        let summary = volume.json(&(line(2) + " --resume --verify --json"));
        assert!(summary["resumed_at"].as_u64().unwrap() >= done, "{summary}");
        assert_eq!(summary["end"], 24 << 20);
    }
    assert!(record_of(&volume, "/big", 2).is_none());
    assert!(volume.run(["cat", "/big"]) == data);
    assert!(fs::read(&copy).unwrap() == data);
    assert!(!volume.path("copy.weft-export-3.1").exists());
}

#[test]
fn verifying_finds_one_flipped_byte() {
    let volume = Volume::up();
    let (source, mut data) = (volume.path("source"), bytes(3, SIZE));
    fs::write(&source, &data).unwrap();
    let from = source.display();
    killed_import(&volume, &source, "/big");
    // Flip a byte that was copied before the kill.
    volume.feed("put /big --offset 1234567", &[!data[1_234_567]]);
    let found = volume.fails(&format!("import {from} /big --resume --verify"), 1);
    assert!(found.contains("differ at byte 1234567"), "{found}");
    // The part is copied again then.
    let summary = volume.json(&format!("import {from} /big --resume --verify --json"));
    assert_eq!(summary["copied"], SIZE);
    assert!(volume.run(["cat", "/big"]) == data);

    volume.text(&format!("import {from} /big --compare"));
    data[30_000_000] ^= 1;
    fs::write(&source, &data).unwrap();
    for line in [
        format!("import {from} /big --compare"),
        format!("export /big {from} --compare"),
    ] {
        let found = volume.fails(&line, 1);
        assert!(found.contains("differ at byte 30000000"), "{found}");
    }
}

#[test]
fn a_source_that_changes_during_a_transfer_is_a_failure() {
    let volume = Volume::up();
    let (source, data) = (volume.path("source"), bytes(4, SIZE));
    fs::write(&source, &data).unwrap();
    let mut child = start(
        &volume,
        &format!("import {} /big {SLOWLY}", source.display()),
    );
    progress(0, || record_of(&volume, "/big", 1));
    let file = fs::File::options().append(true).open(&source);
    file.unwrap().write_all(b"more").unwrap();
    let output = child.wait_with_output_of();
    assert!(output.contains("changed while it was copied"), "{output}");

    volume.text(&format!("import {} /big --force", source.display()));
    let copy = volume.path("copy");
    let mut child = start(&volume, &format!("export /big {} {SLOWLY}", copy.display()));
    progress(0, || fs::read(volume.path("copy.weft-export-1.1")).ok());
    volume.feed("put /big --offset 5", b"changed");
    let output = child.wait_with_output_of();
    assert!(output.contains("changed while it was copied"), "{output}");
}

/// Starts an export and kills it with SIGKILL once it has recorded progress.
fn killed_export(volume: &Volume, from: &str, to: &Path) {
    let record = format!("{}.weft-export-1.1", to.display());
    let mut child = start(volume, &format!("export {from} {} {SLOWLY}", to.display()));
    progress(0, || fs::read(&record).ok());
    child.kill().unwrap();
    assert!(
        !child.wait().unwrap().success(),
        "the transfer ended before the kill"
    );
}

#[test]
fn recorded_progress_does_not_hide_lost_bytes() {
    let volume = Volume::up();
    let (data, copy) = (bytes(6, SIZE), volume.path("copy"));
    volume.feed("put /big", &data);
    let resume = format!("export /big {} --resume --json", copy.display());
    let removed = || fs::remove_file(&copy).unwrap();
    let emptied = || fs::write(&copy, b"").unwrap();
    let lose: [&dyn Fn(); 2] = [&removed, &emptied];
    for lose in lose {
        killed_export(&volume, "/big", &copy);
        lose();
        // No bytes are left, so copying again loses nothing.
        let summary = volume.json(&resume);
        assert_eq!(summary["copied"], SIZE, "{summary}");
        assert!(fs::read(&copy).unwrap() == data);
        removed();
    }
    // Data from another program is not overwritten, whatever its length.
    killed_export(&volume, "/big", &copy);
    let other = volume.path("other");
    fs::write(&other, vec![7; SIZE]).unwrap();
    fs::rename(&other, &copy).unwrap();
    let refused = volume.fails(&resume, 1);
    assert!(
        refused.contains("another file") && refused.contains("--force"),
        "{refused}"
    );
    fs::write(&copy, b"short").unwrap();
    let refused = volume.fails(&resume, 1);
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(fs::read(&copy).unwrap(), b"short");
    volume.text(&format!("export /big {} --force", copy.display()));
    assert!(fs::read(&copy).unwrap() == data);

    // In the volume.
    let source = volume.path("source");
    fs::write(&source, &data).unwrap();
    let import = format!("import {} /in", source.display());
    killed_import(&volume, &source, "/in");
    volume.text("truncate -s 0 /in");
    let summary = volume.json(&format!("{import} --resume --json"));
    assert_eq!(summary["copied"], SIZE, "{summary}");
    assert!(volume.run(["cat", "/in"]) == data);
    volume.text("rm /in");
    killed_import(&volume, &source, "/in");
    volume.text("truncate -s 12345 /in");
    let refused = volume.fails(&format!("{import} --resume"), 1);
    assert!(
        refused.contains("to 12345 bytes") && refused.contains("--force"),
        "{refused}"
    );
}

trait Failed {
    fn wait_with_output_of(&mut self) -> String;
}

impl Failed for Child {
    /// Waits for a command that fails. Returns its error message.
    fn wait_with_output_of(&mut self) -> String {
        let mut error = String::new();
        std::io::Read::read_to_string(self.stderr.as_mut().unwrap(), &mut error).unwrap();
        assert_eq!(self.wait().unwrap().code(), Some(1), "{error}");
        error
    }
}
