//! Misplaced cells, and damaged files of an engine: they are reported and repaired, and not found
//! again.

mod files_support;
mod fsck_support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use files_support::{Volume, bytes};
use fsck_support::{all, engine, faults, folders, fsck, id, repair, stopped, write};
use serde_json::Value;
use weft_meta::record::{InlineRecord, InodeRecord, LayoutRecord};
use weft_proto::prost::Message;

/// Moves a server's cells of a file to another file, as cell number `cell`.
fn give_away(folder: &Path, server: u32, from: u64, to: u64, cell: u32) {
    let indices = folders(folder, "index");
    let index = indices
        .iter()
        .find(|path| path.ends_with(format!("server-{server}/index")));
    let kv = engine(index.unwrap());
    for (key, value) in all(&kv, "forks") {
        if key[..8] == from.to_be_bytes() {
            let mut new = to.to_be_bytes().to_vec();
            new.extend(cell.to_be_bytes());
            new.extend(&key[12..]);
            write(&kv, "forks", key, None);
            write(&kv, "forks", new, Some(value));
        }
    }
}

/// Changes the inode of a file in the namespace.
fn change_inode(folder: &Path, file: u64, change: impl FnOnce(&mut InodeRecord)) {
    let kv = engine(&folders(folder, "namespace")[0]);
    let key = file.to_be_bytes().to_vec();
    let mut inodes = all(&kv, "inodes").into_iter();
    let (_, value) = inodes.find(|(found, _)| *found == key).unwrap();
    let mut inode = InodeRecord::decode(&*value).unwrap();
    change(&mut inode);
    write(&kv, "inodes", key, Some(inode.encode_to_vec()));
}

#[test]
fn a_cell_outside_its_files_layout_goes_to_lost_and_found() {
    let volume = Volume::up();
    let content = bytes(5, 3 << 20);
    volume.feed("put /file", &content);
    for (name, content) in [("/donor", bytes(6, 300_000)), ("/other", bytes(7, 5000))] {
        volume.text(&format!("create --cells 1 --servers 1 {name}"));
        volume.feed(&format!("put --offset 0 {name}"), &content);
    }
    volume.text("create /small");
    let [file, donor, other, small] =
        ["/file", "/donor", "/other", "/small"].map(|path| id(&volume, path));
    stopped(&volume, |folder| {
        give_away(folder, 1, donor, file, 70);
        give_away(folder, 1, other, small, 0);
        let data = b"with its metadata".to_vec();
        change_inode(folder, small, |inode| {
            inode.inline = true;
            inode.size = data.len() as u64;
        });
        let record = InlineRecord {
            data,
            ..InlineRecord::default()
        };
        let kv = engine(&folders(folder, "namespace")[0]);
        write(
            &kv,
            "inline",
            small.to_be_bytes().to_vec(),
            Some(record.encode_to_vec()),
        );
    });
    let (report, code) = fsck(&volume, &[]);
    let mut found = faults(&report);
    found.sort_unstable();
    let wrong = [
        "bytes lost",
        "bytes lost",
        "cells beside inline bytes",
        "misplaced cell",
        "wrong usage",
        "wrong usage",
    ];
    assert_eq!((&found[..], code), (&wrong[..], 4), "{report}");
    repair(&volume, &[]);
    let lost = format!("/lost+found/file-{file}.cell-70.server-1");
    assert_eq!(volume.run(["cat", &lost]), bytes(6, 300_000));
    let lost = format!("/lost+found/file-{small}.cell-0.server-1");
    assert_eq!(volume.run(["cat", &lost]), bytes(7, 5000));
    // Data of other files was not touched.
    assert_eq!(volume.run(["cat", "/file"]), content);
    assert_eq!(volume.run(["cat", "/small"]), b"with its metadata");
    assert_eq!(volume.run(["cat", "/donor"]).len(), 0);
    assert_eq!(fsck(&volume, &["--data"]).1, 0);
}

#[test]
fn a_layout_that_most_cells_contradict_is_replaced() {
    let volume = Volume::up();
    let content = bytes(8, 3 << 20);
    for name in ["/servers", "/chunk", "/one"] {
        volume.feed(&format!("put {name}"), &content);
    }
    let change = |path: &str, change: &dyn Fn(&mut LayoutRecord)| {
        let file = id(&volume, path);
        stopped(&volume, |folder| {
            change_inode(folder, file, |inode| change(inode.layout.as_mut().unwrap()));
        });
    };
    change("/servers", &|layout| layout.servers.rotate_left(1));
    change("/chunk", &|layout| layout.chunk *= 2);
    change("/one", &|layout| layout.cells = 1);
    let (report, code) = fsck(&volume, &[]);
    let found = faults(&report);
    assert!(
        found.contains(&"misplaced cell") && found.contains(&"wrong chunk size"),
        "{report}"
    );
    assert_eq!(code, 4, "{report}");
    repair(&volume, &[]);
    for name in ["/servers", "/chunk", "/one"] {
        assert_eq!(volume.run(["cat", name]), content, "{name}");
        volume.feed(&format!("put --offset 1000000 {name}"), b"can be written");
    }
    assert_eq!(fsck(&volume, &["--data"]).1, 0);
}

/// Waits until the copy of an engine's list of tables is up to date.
fn copied(engine: &Path) -> PathBuf {
    let copy = engine.join("weft.copies/keyspaces/1/current");
    let read = |path: &Path| std::fs::read(path).ok();
    let started = Instant::now();
    while read(&copy).is_none() || read(&copy) != read(&engine.join("keyspaces/1/current")) {
        let engine = engine.display();
        assert!(started.elapsed().as_secs() < 60, "{engine} has no copy");
        std::thread::sleep(Duration::from_millis(50));
    }
    copy
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[9] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn files_of_an_engine_are_restored_from_their_copies_and_reported() {
    let volume = Volume::up();
    let content = bytes(1, 3 << 20);
    volume.feed("put /file", &content);
    let folder = volume.path("volume");
    let namespace = &folders(&folder, "namespace")[0];
    let indices = folders(&folder, "index");
    let copies: Vec<_> = indices.iter().map(|index| copied(index)).collect();
    copied(namespace);
    // A damaged copy: the scrub finds it, and it is rebuilt automatically.
    flip(&copies[0]);
    let output = volume.command(["scrub", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert_eq!(report["bad_blocks"], 0, "{report}");
    let told = report["index"][0]["what"].as_str().unwrap();
    assert!(
        told.contains("weft.copies") && told.contains("made again"),
        "{told}"
    );
    copied(&indices[0]);
    volume.run(["scrub"]);
    // A file that an open engine needs: reported until it is written again, at the latest when the
    // engine is closed.
    for own in [namespace, &indices[0]] {
        flip(&own.join("keyspaces/1/current"));
        let (report, code) = fsck(&volume, &[]);
        assert_eq!(
            (faults(&report), code),
            (vec!["damaged index"], 4),
            "{report}"
        );
        stopped(&volume, |_| ());
        let (report, code) = fsck(&volume, &["--data"]);
        assert_eq!((faults(&report), code), (Vec::new(), 0), "{report}");
    }
    // The same while it is closed: a check of the stopped volume reports it, and repairs it as a
    // start would.
    let dir = folder.to_str().unwrap();
    volume.run(["down", dir]);
    flip(&indices[0].join("keyspaces/1/current"));
    flip(&namespace.join("keyspaces/0/current"));
    let (report, code) = fsck(&volume, &["--offline", dir]);
    assert_eq!(
        (faults(&report), code),
        (vec!["damaged index"; 2], 1),
        "{report}"
    );
    for put_back in [
        &indices[0].join("weft.damaged/keyspaces/1"),
        &namespace.join("weft.damaged/keyspaces/0"),
    ] {
        assert!(put_back.join("current").exists());
    }
    let (report, code) = fsck(&volume, &["--offline", dir]);
    assert_eq!((faults(&report), code), (Vec::new(), 0), "{report}");
    volume.run(["up", dir]);
    assert_eq!(volume.run(["cat", "/file"]), content);
}
