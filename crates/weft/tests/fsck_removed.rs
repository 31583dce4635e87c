//! Names of removed files that are back because the namespace is older than the removal: `weft
//! fsck` reports and removes them, but never files that can still be read.

mod files_support;
mod fsck_support;

use std::path::Path;
use std::time::Duration;

use files_support::{Volume, bytes};
use fsck_support::{all, engine, faults, folders, fsck, id, repair, start, stopped, write};
use serde_json::Value;
use weft_meta::record::{InlineRecord, InodeRecord};
use weft_proto::prost::Message;

/// Copies a folder with its contents.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = {
            let entry = entry.unwrap();
            (entry.path(), entry.file_name())
        };
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Runs `work` on a volume, then restores its earlier namespace.
fn undone(volume: &Volume, work: impl FnOnce()) {
    let kept = volume.path("kept");
    stopped(volume, |folder| copy(&folder.join("meta"), &kept));
    work();
    nothing_is_owed(volume);
    stopped(volume, |folder| {
        std::fs::remove_dir_all(folder.join("meta")).unwrap();
        std::fs::rename(&kept, folder.join("meta")).unwrap();
    });
}

fn nothing_is_owed(volume: &Volume) {
    for _ in 0..100 {
        let status: Value = volume.json("status --json");
        if status["pending"] == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("an operation is still pending");
}

fn stale(volume: &Volume, line: &str) {
    let error = volume.fails(line, 1);
    assert!(error.contains("deleted"), "{line}: {error}");
}

/// The paths of findings.
fn paths(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    let paths = findings.flat_map(|finding| finding["paths"].as_array().unwrap());
    paths.map(|path| path.as_str().unwrap()).collect()
}

#[test]
fn names_of_files_deleted_on_their_servers_are_reported_and_removed() {
    let volume = Volume::up();
    let content = bytes(1, 3 << 20);
    volume.text("mkdir /d");
    for name in ["/d/gone", "/gone-and-linked", "/stays", "/checkpointed"] {
        volume.feed(&format!("put {name}"), &content);
    }
    volume.text("ln /gone-and-linked /d/link");
    volume.text("checkpoint create /checkpointed c");
    undone(&volume, || {
        volume.text("rm /d/gone /gone-and-linked /d/link /checkpointed");
    });
    stale(&volume, "cat /d/gone");
    let (report, code) = fsck(&volume, &[]);
    assert_eq!((faults(&report), code), (vec!["removed"; 3], 4), "{report}");
    let mut told = paths(&report);
    told.sort_unstable();
    let names = ["/checkpointed", "/d/gone", "/d/link", "/gone-and-linked"];
    assert_eq!(told, names, "{report}");
    let words = report["findings"][0]["what"].as_str().unwrap();
    assert!(words.contains("its servers have deleted it"), "{words}");
    // Nothing was changed so far.
    stale(&volume, "cat /d/gone");

    let report = repair(&volume, &[]);
    let done = report["findings"].to_string();
    for name in names {
        assert!(done.contains(name), "{name}: {done}");
        volume.fails(&format!("stat {name}"), 1);
    }
    assert_eq!(volume.text("ls /d"), "");
    nothing_is_owed(&volume);
    assert_eq!(volume.run(["cat", "/stays"]), content);
    assert_eq!(fsck(&volume, &["--data"]).1, 0);
}

#[test]
fn an_uncleanly_stopped_volume_loses_names_of_deleted_files_too() {
    let volume = Volume::up();
    volume.feed("put /gone", &bytes(1, 3 << 20));
    undone(&volume, || drop(volume.text("rm /gone")));
    let folder = volume.path("volume");
    let dir = folder.to_str().unwrap();
    volume.run(["down", dir]);
    let namespace = folders(&folder, "namespace").remove(0);
    write(&engine(&namespace), "volume", b"clean".to_vec(), None);
    // There is no clean shutdown while a size is still requested, such as that of the missing file.
    let _ = std::fs::remove_file(namespace.with_extension("closed"));
    let report = repair(&volume, &["--offline", dir]);
    assert_eq!(faults(&report), ["removed"], "{report}");
    volume.run(["up", dir]);
    volume.fails("stat /gone", 1);
    assert_eq!(fsck(&volume, &[]).1, 0);
}

#[test]
fn remains_of_a_removed_file_stay_until_the_user_removes_them() {
    let volume = Volume::up();
    let content = bytes(2, 3 << 20);
    volume.feed("put --cells 3 /file", &content);
    let file = id(&volume, "/file");
    let layout = volume.json("stat --json /file");
    let servers = layout[0]["layout"]["servers"].as_array().unwrap();
    let cell = servers.iter().position(|server| *server == 1).unwrap();
    // Servers 0 and 2 got the delete, server 1 did not.
    stopped(&volume, |folder| {
        let away = folder.join("server-1");
        let kept = volume.path("away");
        copy(&away, &kept);
    });
    undone(&volume, || drop(volume.text("rm /file")));
    stopped(&volume, |folder| {
        std::fs::remove_dir_all(folder.join("server-1")).unwrap();
        std::fs::rename(volume.path("away"), folder.join("server-1")).unwrap();
    });
    for args in [&[][..], &["--repair"], &[]] {
        let (report, code) = fsck(&volume, args);
        assert_eq!((faults(&report), code), (vec!["removed in part"], 4));
        let finding = &report["findings"][0];
        assert_eq!(
            (&finding["file"], &finding["paths"][0]),
            (&file.into(), &"/file".into())
        );
        let words = finding["what"].as_str().unwrap();
        assert!(words.contains("server 1 holds 1048576 bytes"), "{words}");
    }
    stale(&volume, "cat /file");
    let units = content.chunks(256 << 10).skip(cell).step_by(3);
    let cell = cell.to_string();
    let left = volume.run(["read", "--cell", &cell, "/file", "1048576"]);
    assert!(left == units.flatten().copied().collect::<Vec<u8>>());
    volume.text("rm /file");
    nothing_is_owed(&volume);
    let (report, code) = fsck(&volume, &[]);
    assert_eq!((faults(&report), code), (vec![], 0), "{report}");
}

#[test]
fn inline_files_get_a_new_id_under_which_they_can_grow() {
    let volume = Volume::up();
    let content = bytes(3, 3 << 20);
    for name in ["/small", "/empty"] {
        volume.run(["create", name]);
    }
    let file = id(&volume, "/small");
    // As a mount leaves them.
    stopped(&volume, |folder| {
        let kv = engine(&folders(folder, "namespace")[0]);
        for (key, value) in all(&kv, "inodes") {
            let mut inode = InodeRecord::decode(&*value).unwrap();
            if inode.layout.is_none() || key == 1_u64.to_be_bytes() {
                continue;
            }
            (inode.inline, inode.size_exact) = (true, true);
            if key == file.to_be_bytes() {
                inode.size = 5;
                let record = InlineRecord {
                    data: b"small".to_vec(),
                    spilling: false,
                };
                write(&kv, "inline", key.clone(), Some(record.encode_to_vec()));
            }
            write(&kv, "inodes", key, Some(inode.encode_to_vec()));
        }
    });
    assert_eq!(faults(&repair(&volume, &[])), ["wrong usage"]);
    undone(&volume, || {
        for name in ["/small", "/empty"] {
            volume.feed(&format!("put {name}"), &content);
            volume.text(&format!("rm {name}"));
        }
    });
    // A request that needs them in cells fails, now and later.
    let error = volume.fails("cat /small", 1);
    assert!(error.contains("nothing of it is lost"), "{error}");
    let (report, code) = fsck(&volume, &[]);
    assert_eq!(
        (faults(&report), code),
        (vec!["removed id"; 2], 4),
        "{report}"
    );
    repair(&volume, &[]);
    assert_ne!(id(&volume, "/small"), file);
    assert_eq!(volume.text("cat /small"), "small");
    assert_eq!(volume.text("cat /empty"), "");
    volume.feed("write /small 3145728", &content);
    assert_eq!(volume.run(["cat", "/small"]), content);
    nothing_is_owed(&volume);
    assert_eq!(fsck(&volume, &["--data"]).1, 0);
}

#[test]
fn a_missing_file_of_a_trees_checkpoint_does_not_stop_a_repair() {
    let volume = Volume::up();
    volume.text("mkdir /d");
    volume.feed("put /d/file", &bytes(4, 3 << 20));
    volume.text("checkpoint create /d c");
    volume.text("rm /d/file");
    nothing_is_owed(&volume);
    undone(&volume, || drop(volume.text("checkpoint delete /d c")));
    let (report, code) = fsck(&volume, &["--repair"]);
    assert_eq!(code, 4, "{report}");
    assert!(faults(&report).contains(&"checkpoint missing"), "{report}");
    volume.text("checkpoint delete /d c");
    nothing_is_owed(&volume);
    assert_eq!(fsck(&volume, &[]).1, 0);
}

#[test]
fn a_check_after_a_service_crash_has_the_same_findings() {
    let volume = Volume::up();
    stopped(&volume, |folder| {
        copy(&folder.join("server-1"), &volume.path("away"));
    });
    // Some of them on server 1.
    for n in 0..24 {
        volume.feed(&format!("put --cells 1 /file-{n}"), &bytes(n, 100_000));
    }
    stopped(&volume, |folder| {
        std::fs::remove_dir_all(folder.join("server-1")).unwrap();
        std::fs::rename(volume.path("away"), folder.join("server-1")).unwrap();
    });
    let (before, code) = fsck(&volume, &[]);
    assert_eq!(code, 4, "{before}");
    let folder = volume.path("volume");
    let lock = std::fs::read_to_string(folder.join("meta/weft-node.lock")).unwrap();
    let pid = lock.lines().next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    start(&volume);
    let (after, code) = fsck(&volume, &[]);
    assert_eq!((faults(&after), code), (faults(&before), 4));
}
