//! `weft fsck` on real volumes: damage in the real formats is found, named and repaired; a second
//! run finds nothing; a volume in use causes no false alarm.

mod ends_support;
mod files_support;
mod fsck_support;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ends_support::Ends;
use files_support::{Volume, bytes};
use fsck_support::{all, engine, faults, folders, fsck, id, repair, stopped, write};
use weft_kv::{OrderedKv, Space};
use weft_meta::record::InodeRecord;
use weft_proto::prost::Message;

/// Removes the inode and the name of a file from the namespace.
fn forget(folder: &Path, file: u64, name: &str) {
    let kv = engine(&folders(folder, "namespace")[0]);
    write(&kv, "inodes", file.to_be_bytes().to_vec(), None);
    let entry = all(&kv, "entries")
        .into_iter()
        .find(|(key, _)| &key[8..] == name.as_bytes());
    write(&kv, "entries", entry.unwrap().0, None);
}

#[test]
fn a_sound_volume_has_no_findings_and_misuse_is_reported() {
    let volume = Volume::up();
    volume.text("mkdir /d");
    volume.feed("put /d/file", &bytes(1, 3 << 20));
    volume.text("checkpoint create /d/file first");
    let (report, code) = fsck(&volume, &["--data"]);
    assert_eq!((faults(&report), code), (Vec::<&str>::new(), 0), "{report}");
    assert!(report["chunks"].as_u64().unwrap() >= 12, "{report}");
    assert!(report["files"].as_u64() == Some(1), "{report}");
    volume.fails("fsck --nonsense", 16);
    volume.fails("mkdir fsck --nonsense", 2);
    let dir = volume.path("volume");
    let dir = dir.to_str().unwrap();
    let error = volume.fails(&format!("fsck --offline {dir}"), 8);
    assert!(error.contains("already running"), "{error}");
    volume.run(["down", dir]);
    let (report, code) = fsck(&volume, &["--offline", dir]);
    assert_eq!((faults(&report), code), (Vec::<&str>::new(), 0), "{report}");
    // The servers have their configured addresses again.
    volume.run(["up", dir]);
    assert_eq!(volume.run(["cat", "/d/file"]), bytes(1, 3 << 20));
}

#[test]
fn cells_without_a_name_are_recovered_completely() {
    let volume = Volume::up();
    let content = bytes(2, 5_000_000);
    volume.feed("put /file", &content);
    volume.feed("put /other", &bytes(3, 1 << 20));
    let file = id(&volume, "/file");
    stopped(&volume, |folder| forget(folder, file, "file"));
    let (report, code) = fsck(&volume, &[]);
    assert_eq!(code, 4, "{report}");
    let findings = report["findings"].as_array().unwrap();
    let lost = findings
        .iter()
        .find(|f| f["fault"] == "lost cells")
        .unwrap();
    assert_eq!(lost["file"], file);
    let words = lost["what"].as_str().unwrap();
    for part in [
        "cell 0",
        "cell 1",
        "cell 2",
        "on server",
        "bytes, chunk",
        "modified",
    ] {
        assert!(words.contains(part), "{words} lacks {part}");
    }
    let report = repair(&volume, &[]);
    let place = format!("/lost+found/file-{file}");
    let paths = &report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["file"] == file)
        .unwrap()["paths"];
    assert_eq!(paths[0], place.as_str(), "{report}");
    assert_eq!(volume.run(["cat", &place]), content);
    assert_eq!(volume.run(["cat", "/other"]), bytes(3, 1 << 20));
}

#[test]
fn cells_lost_by_a_server_are_reported_and_the_file_stays_readable() {
    let volume = Volume::up();
    volume.feed("put /file", &bytes(4, 3 << 20));
    let file = id(&volume, "/file");
    stopped(&volume, |folder| {
        for index in folders(folder, "index") {
            let kv = engine(&index);
            for (key, _) in all(&kv, "forks") {
                if key[..8] == file.to_be_bytes() && key[8..12] == 2_u32.to_be_bytes() {
                    write(&kv, "forks", key, None);
                }
            }
        }
    });
    let (report, code) = fsck(&volume, &[]);
    assert_eq!((faults(&report), code), (vec!["bytes lost"], 4), "{report}");
    let finding = &report["findings"][0];
    assert_eq!(finding["paths"][0], "/file", "{report}");
    assert!(
        finding["server"].is_number() && finding["cell"].is_number(),
        "{report}"
    );
    repair(&volume, &[]);
    let left = volume.run(["cat", "/file"]);
    assert_eq!(left[..256 << 10], bytes(4, 3 << 20)[..256 << 10]);
}

#[test]
fn data_of_a_reformatted_server_never_reads_as_zeros() {
    let volume = Volume::up();
    let content = bytes(9, 5 << 19);
    volume.feed("put /file", &content);
    volume.feed("put --cells 1 /one-cell", &content);
    volume.run(["create", "/empty"]);
    volume.feed("put /small", b"small");
    volume.run(["checkpoint", "create", "/file", "before"]);
    let folder = volume.path("volume");
    let dir = folder.to_str().unwrap();
    volume.run(["down", dir]);
    let config = folder.join("weft.toml");
    let node = folder.join("server-1");
    std::fs::remove_dir_all(&node).unwrap();
    volume.run([
        "format",
        "--config",
        config.to_str().unwrap(),
        "--node",
        "server-1",
    ]);
    volume.run(["up", dir]);

    let refused = |line: &str| {
        let output = volume.start(line, b"patch").wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{line}");
        assert!(
            error.contains("formatted after the file was made"),
            "{line}: {error}"
        );
    };
    refused("cat /file");
    refused("checkpoint read /file before");
    // A write does not turn lost bytes around it into a hole.
    refused("write --subfile 1,1,1,3,1 /file 0+5");
    refused("cat /file");
    // Neither does a truncation.
    let cut = volume.start("truncate -s 2000001 /file", b"");
    drop(cut.wait_with_output().unwrap());
    refused("cat /file");
    // Bytes stored with the metadata are intact.
    assert_eq!(volume.run(["cat", "/small"]), b"small");
    // New files, and files that were never on the server, are not affected.
    volume.feed("put /new", &content);
    assert_eq!(volume.run(["cat", "/new"]), content);

    let (report, code) = fsck(&volume, &[]);
    assert_eq!(code, 4, "{report}");
    let findings = report["findings"].as_array().unwrap();
    let lost = findings
        .iter()
        .find(|f| f["paths"][0] == "/file" && f["fault"] == "cells lost")
        .unwrap();
    assert_eq!(
        (&lost["fault"], &lost["server"]),
        (&"cells lost".into(), &1.into())
    );
    assert!(
        lost["what"]
            .as_str()
            .unwrap()
            .contains("bytes by the file's size"),
        "{lost}"
    );
    let (report, code) = fsck(&volume, &["--repair"]);
    assert_eq!(code, 4, "a repair accepts no loss: {report}");
    refused("cat /file");
    refused("checkpoint read /file before");
    let (report, _) = fsck(&volume, &["--accept-server", "1"]);
    assert!(faults(&report).contains(&"cells lost"), "{report}");
    assert!(faults(&report).contains(&"checkpoint missing"), "{report}");
    let (again, code) = fsck(&volume, &[]);
    assert_eq!((faults(&again), code), (vec![], 0), "{again}");
    // The loss in the checkpoint is accepted, too.
    let kept = volume.run(["checkpoint", "read", "/file", "before"]);
    assert!(kept.iter().zip(&content).filter(|(a, b)| a == b).count() > 1 << 20);
    // The loss is accepted: the file can be used, and written.
    let left = volume.run(["cat", "/file"]);
    assert!(left.iter().zip(&content).filter(|(a, b)| a == b).count() > 1 << 20);
    volume.feed("put /file", &content);
    assert_eq!(volume.run(["cat", "/file"]), content);
    volume.feed("write /small 1000000 --offset 100", &content[..1_000_000]);
    assert_eq!(volume.run(["cat", "/small"])[100..], content[..1_000_000]);
    volume.feed("put /empty", &content);
    assert_eq!(volume.run(["cat", "/empty"]), content);
    // Later starts keep this state.
    volume.run(["down", dir]);
    volume.run(["up", dir]);
    assert_eq!(volume.run(["cat", "/file"]), content);
}

#[test]
fn a_store_that_does_not_open_is_repaired_and_never_returns_wrong_bytes() {
    let volume = Volume::up();
    volume.feed("put /file", &bytes(5, 3 << 20));
    let folder = volume.path("volume");
    let dir = folder.to_str().unwrap();
    volume.run(["down", dir]);
    {
        let kv = engine(&folders(&folder, "index")[1]);
        let (key, mut value) = all(&kv, "chunks").remove(0);
        let at = value.len() / 2;
        value[at] ^= 4;
        write(&kv, "chunks", key, Some(value));
    }
    let error = volume.fails(&format!("fsck --offline {dir}"), 8);
    assert!(
        error.contains("corrupt") && error.contains("--repair"),
        "{error}"
    );
    let (report, code) = fsck(&volume, &["--repair", "--offline", dir]);
    let found = faults(&report);
    assert_eq!(
        (found, code),
        (vec!["lost"], 4),
        "the loss is reported once: {report}"
    );
    let finding = &report["findings"][0];
    for field in ["file", "cell", "server"] {
        assert!(finding[field].is_number(), "{field}: {report}");
    }
    let what = finding["what"].as_str().unwrap();
    assert!(what.contains("a chunk's record is corrupt"), "{report}");
    // Every check names the loss, until the bytes are written again.
    let (again, code) = fsck(&volume, &["--offline", dir]);
    assert_eq!((faults(&again), code), (vec!["lost"], 4), "{again}");
    volume.run(["up", dir]);
    let error = volume.fails("cat /file", 1);
    assert!(error.contains("are lost"), "{error}");
    // After a new write, the file is good.
    volume.feed("put /file", &bytes(6, 3 << 20));
    assert_eq!(volume.run(["cat", "/file"]), bytes(6, 3 << 20));
    assert_eq!(fsck(&volume, &["--data"]).1, 0);
}

#[test]
fn an_unreadable_journal_is_kept_until_a_repair_drops_it() {
    let volume = Volume::up();
    volume.feed("put /file", &bytes(5, 3 << 20));
    let folder = volume.path("volume");
    let dir = folder.to_str().unwrap();
    // Moves the log into the index.
    volume.run(["fsck"]);
    let pid = volume.json("status --json")["servers"][1]["pid"].to_string();
    let killed = Command::new("kill").args(["-KILL", &pid]).status();
    assert!(killed.unwrap().success());
    volume.command(["down", dir]).output().unwrap();
    let journal = folders(&folder, "index")[1].join("0.jnl");
    let mut content = std::fs::read(&journal).unwrap();
    content[0] = 9;
    std::fs::write(&journal, &content).unwrap();
    let error = volume.fails(&format!("fsck --offline {dir}"), 8);
    assert!(
        error.contains("damaged at byte 0") && error.contains("--repair"),
        "{error}"
    );
    let up = volume.command(["up", dir]).output().unwrap();
    assert!(
        !up.status.success(),
        "the server started with an empty index"
    );
    // Some or none of its nodes may have started.
    volume.command(["down", dir]).output().unwrap();
    assert!(
        std::fs::read(&journal).unwrap() == content,
        "the journal was changed"
    );
    let (report, code) = fsck(&volume, &["--repair", "--offline", dir]);
    assert_eq!(code, 1, "{report}");
    assert_eq!(faults(&report), ["damaged index"], "{report}");
    assert!(journal.with_extension("damaged").exists());
    volume.run(["up", dir]);
    assert_eq!(volume.run(["cat", "/file"]), bytes(5, 3 << 20));
}

#[test]
fn unlisted_checkpoints_are_listed_again() {
    let volume = Volume::up();
    volume.feed("put /file", &bytes(7, 1 << 20));
    volume.text("checkpoint create /file first");
    volume.feed("put /file", &bytes(8, 1 << 20));
    stopped(&volume, |folder| {
        let kv = engine(&folders(folder, "namespace")[0]);
        for (key, _) in all(&kv, "checkpoints") {
            write(&kv, "checkpoints", key, None);
        }
    });
    let report = repair(&volume, &[]);
    assert_eq!(faults(&report), ["checkpoint unknown"]);
    let list = volume.text("checkpoint list /file");
    assert!(list.contains("lost-"), "{list}");
}

#[test]
fn a_killed_repair_can_be_continued() {
    let volume = Volume::up();
    let contents: Vec<Vec<u8>> = (0..24).map(|i| bytes(100 + i, 300_000)).collect();
    for (i, content) in contents.iter().enumerate() {
        volume.feed(&format!("put /file{i}"), content);
    }
    let ids: Vec<u64> = (0..contents.len())
        .map(|i| id(&volume, &format!("/file{i}")))
        .collect();
    stopped(&volume, |folder| {
        for (i, id) in ids.iter().enumerate() {
            forget(folder, *id, &format!("file{i}"));
        }
    });
    let mut killed = 0;
    for wait in [60, 90, 120, 150, 200] {
        let mut child = volume
            .command(["fsck", "--repair"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        killed += u32::from(child.try_wait().unwrap().is_none());
        let _ = child.kill();
        child.wait().unwrap();
    }
    assert!(killed > 0, "no run lasted long enough to be killed");
    let (report, code) = fsck(&volume, &["--repair"]);
    assert!(code == 0 || code == 1, "{report}");
    assert_eq!(fsck(&volume, &[]).1, 0);
    for (id, content) in ids.iter().zip(&contents) {
        assert_eq!(
            &volume.run(["cat", &format!("/lost+found/file-{id}")]),
            content
        );
    }
}

#[test]
fn a_volume_in_use_gives_no_false_alarm() {
    let volume = Volume::up();
    volume.text("mkdir /d");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&stop);
        for worker in 0..3_u64 {
            let (volume, stop) = (&volume, &stop);
            scope.spawn(move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    let name = format!("/d/w{worker}-{}", round % 3);
                    volume.feed(
                        &format!("put {name}"),
                        &bytes(worker * 1000 + round, 400_000),
                    );
                    match round % 4 {
                        0 => drop(volume.text(&format!("truncate {name} --size 100000"))),
                        1 => drop(volume.text(&format!("mv {name} /d/moved{worker}"))),
                        2 => drop(volume.text(&format!("rm {name}"))),
                        _ => drop(volume.text(&format!("checkpoint create {name} c{round}"))),
                    }
                    round += 1;
                }
            });
        }
        let mut reports = Vec::new();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(300));
            reports.push(fsck(&volume, &[]));
        }
        drop(ends);
        for (report, code) in reports {
            assert_eq!((faults(&report), code), (Vec::<&str>::new(), 0), "{report}");
        }
    });
    assert_eq!(fsck(&volume, &["--data"]).1, 0);
}

#[test]
fn wrong_counts_in_the_namespace_are_corrected_while_the_volume_runs() {
    let volume = Volume::up();
    volume.feed("put /file", &bytes(9, 1 << 20));
    let file = id(&volume, "/file");
    stopped(&volume, |folder| {
        let kv = engine(&folders(folder, "namespace")[0]);
        let key = file.to_be_bytes().to_vec();
        let bytes = kv
            .snapshot()
            .unwrap()
            .get(Space("inodes"), &key)
            .unwrap()
            .unwrap();
        let mut inode = InodeRecord::decode(&*bytes).unwrap();
        inode.links = 3;
        inode.size += 10;
        write(&kv, "inodes", key, Some(inode.encode_to_vec()));
    });
    let report = repair(&volume, &[]);
    let mut found = faults(&report);
    found.sort_unstable();
    assert_eq!(
        found,
        ["bytes lost", "wrong links", "wrong usage"],
        "{report}"
    );
    assert_eq!(fsck(&volume, &[]).1, 0);
    assert_eq!(volume.run(["cat", "/file"]), bytes(9, 1 << 20));
    let stat = &volume.json("stat --json /file")[0];
    assert_eq!(
        (&stat["links"], &stat["size"]),
        (&1.into(), &(1 << 20).into())
    );
}
