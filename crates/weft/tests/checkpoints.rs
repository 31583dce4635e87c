//! Checkpoints of files in a real volume: named states that survive writes and killed processes.

mod ends_support;
mod files_support;

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ends_support::Ends;
use files_support::{Volume, bytes};

#[test]
fn checkpoints_can_be_created_listed_read_rolled_back_to_and_deleted() {
    let volume = Volume::up();
    let states: Vec<Vec<u8>> = (0..3_u64)
        .map(|i| bytes(i, 3_000_000 + 500_000 * i as usize))
        .collect();
    for (i, state) in states.iter().enumerate() {
        volume.feed("put /file", state);
        volume.text(&format!("checkpoint create /file state{i}"));
    }
    volume.feed("put /file --offset 1M", b"patched");
    for (i, state) in states.iter().enumerate() {
        let read = volume.run(["checkpoint", "read", "/file", &format!("state{i}")]);
        assert!(read == *state, "state {i}");
    }
    let list = volume.json("checkpoint list /file --json");
    let sizes: Vec<u64> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [3_000_000, 3_500_000, 4_000_000]);
    assert!(volume.text("checkpoint list /file").contains("state1"));

    volume.text("checkpoint rollback /file state0");
    assert!(volume.run(["cat", "/file"]) == states[0]);
    volume.text("checkpoint delete /file state0");
    assert!(volume.run(["cat", "/file"]) == states[0]);
    assert!(volume.run(["checkpoint", "read", "/file", "state2"]) == states[2]);
    // In the other direction; writes after a rollback do not change checkpoints.
    volume.feed("put /file --offset 10", b"again");
    volume.text("checkpoint rollback /file state2");
    assert!(volume.run(["cat", "/file"]) == states[2]);
    volume.text("checkpoint delete /file state1");
    volume.text("checkpoint delete /file state2");
    assert_eq!(volume.text("checkpoint list /file --json").trim(), "[]");
    assert!(volume.run(["cat", "/file"]) == states[2]);
}

#[test]
fn impossible_checkpoint_requests_fail_and_change_nothing() {
    let volume = Volume::up();
    volume.feed("put /file", b"content");
    volume.text("checkpoint create /file c");
    assert!(
        volume
            .fails("checkpoint create /file c", 1)
            .contains("exists")
    );
    assert!(
        volume
            .fails("checkpoint create /file a/b", 1)
            .contains("name")
    );
    for action in ["rollback", "delete", "read"] {
        let said = volume.fails(&format!("checkpoint {action} /file other"), 1);
        assert!(said.contains("there is no checkpoint other"), "{said}");
    }
    assert_eq!(volume.text("cat /file"), "content");
    // A small file is stored with its metadata until it gets a checkpoint; an empty one has no data
    // at all.
    assert_eq!(volume.text("checkpoint read /file c"), "content");
    volume.feed("put /empty", b"");
    volume.text("checkpoint create /empty c");
    volume.feed("put /empty", b"more");
    assert_eq!(volume.text("checkpoint read /empty c"), "");
    volume.text("checkpoint rollback /empty c");
    assert_eq!(volume.text("cat /empty"), "");
    // Removing a file removes its checkpoints.
    volume.text("rm /file");
    volume.feed("put /file", b"another");
    assert_eq!(volume.text("checkpoint list /file --json").trim(), "[]");
}

#[test]
fn a_checkpoint_of_a_tree_can_be_read_rolled_back_to_and_deleted() {
    let volume = Volume::up();
    let (big, small) = (bytes(1, 3_000_000), bytes(2, 100));
    volume.text("mkdir -p /t/d/e");
    volume.feed("put /t/d/big", &big);
    volume.feed("put /t/small", &small);
    volume.text("ln -s d/big /t/link");
    volume.text("chmod 640 /t/small");
    volume.text("checkpoint create /t monday");
    // Overwrite, delete, rewrite, rename and create files.
    volume.feed("put /t/d/big --offset 1M", b"patched");
    volume.text("rm /t/d/big");
    volume.feed("put /t/small", &bytes(3, 50_000));
    volume.text("mv /t/small /moved");
    volume.feed("put /t/new", b"new");
    let kept = "/t/.weft/checkpoints/monday";
    assert!(volume.run(["cat", &format!("{kept}/d/big")]) == big);
    assert!(volume.run(["cat", &format!("{kept}/link")]) == big);
    assert!(volume.run(["cat", &format!("{kept}/small")]) == small);
    let listed = volume.text(&format!("ls {kept}"));
    assert_eq!(
        listed.split_whitespace().collect::<Vec<_>>(),
        ["d", "link", "small"]
    );
    // Copied on the volume, by the servers.
    volume.text(&format!("cp weft:{kept}/d/big weft:/copy"));
    assert!(volume.run(["cat", "/copy"]) == big);
    let said = volume.fails(&format!("rm {kept}/small"), 1);
    assert!(said.contains("checkpoint"), "{said}");
    let list = volume.json("checkpoint list /t --json");
    assert_eq!(list[0]["names"], 5);
    assert_eq!(list[0]["size"], 3_000_100);
    assert!(
        volume
            .fails("checkpoint read /t monday", 1)
            .contains("directory")
    );

    volume.text("checkpoint rollback /t monday");
    assert!(volume.run(["cat", "/t/d/big"]) == big);
    assert!(volume.run(["cat", "/t/small"]) == small);
    volume.fails("cat /t/new", 1);
    assert!(volume.fails("rm -r /t", 1).contains("checkpoint"));
    // The content is removed, and the rollback restores it.
    volume.text("checkpoint rollback /t monday");
    volume.text("checkpoint delete /t monday");
    assert!(volume.run(["cat", "/t/d/big"]) == big);
    volume.text("rm -r /t");
    volume.fails(&format!("ls {kept}"), 1);
}

/// Four writers overwrite their quarters of a file with one value after another, one request at a
/// time. Each request is within one cell of one server.
#[test]
fn each_write_to_one_server_is_wholly_before_or_after_a_checkpoint() {
    const CELL: usize = 1 << 20;
    let volume = Volume::up();
    volume.text("create /file --cells 3 --bsu 1M");
    volume.feed("put /file", &vec![0; 3 * CELL]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        for cell in 0..3 {
            let (volume, stop) = (&volume, &stop);
            scope.spawn(move || {
                for value in 1_u8.. {
                    if stop.load(Ordering::Relaxed) || value == u8::MAX {
                        return;
                    }
                    volume.feed(&format!("put /file --cell {cell}"), &vec![value; CELL]);
                }
            });
        }
        for n in 0..8 {
            std::thread::sleep(Duration::from_millis(50));
            volume.text(&format!("checkpoint create /file c{n}"));
        }
    });
    let mut seen = BTreeSet::new();
    for n in 0..8 {
        let read = volume.run(["checkpoint", "read", "/file", &format!("c{n}")]);
        assert_eq!(read.len(), 3 * CELL);
        for cell in read.chunks(CELL) {
            assert!(
                cell.iter().all(|b| *b == cell[0]),
                "checkpoint {n} holds a part of a write"
            );
        }
        seen.insert(read[0]);
    }
    assert!(
        seen.len() > 1,
        "nothing was written between the checkpoints"
    );
}

#[test]
fn checkpoints_survive_kills_of_servers_and_of_the_service() {
    survive("/file", "/file", |name| {
        ["checkpoint", "read", "/file", name]
            .map(str::to_owned)
            .to_vec()
    });
}

#[test]
fn checkpoints_of_trees_survive_kills_of_servers_and_of_the_service() {
    survive("/t/d/file", "/t", |name| {
        vec![
            "cat".to_owned(),
            format!("/t/.weft/checkpoints/{name}/d/file"),
        ]
    });
}

/// Makes checkpoints of `of`, which is or contains `path`, while processes are killed. `read` reads
/// `path` from a checkpoint.
fn survive(path: &str, of: &str, read: impl Fn(&str) -> Vec<String>) {
    let volume = Volume::up();
    let dir = volume.path("volume");
    let dir = dir.to_str().unwrap();
    volume.text("mkdir -p /t/d");
    let mut kept: Vec<(String, Vec<u8>)> = Vec::new();
    for round in 0..6_u64 {
        let state = bytes(round, 2_000_000);
        volume.feed(&format!("put {path}"), &state);
        let mut child = volume
            .command(["checkpoint", "create", of, &format!("c{round}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(3 * round));
        kill(&volume, round as usize);
        let done = child.wait().unwrap().success();
        volume.run(["up", dir]);
        // Acknowledged checkpoints exist. Others are completed when all servers are back, or were
        // never begun.
        let name = format!("c{round}");
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut there = names(&volume, of).contains(&name);
        while done && !there && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            there = names(&volume, of).contains(&name);
        }
        assert!(there || !done, "{name} was acknowledged and is missing");
        std::thread::sleep(Duration::from_millis(300));
        if names(&volume, of).contains(&name) {
            kept.push((name, state));
        }
        for (name, state) in &kept {
            let found = volume.run(read(name));
            assert!(found == *state, "round {round}: {name} has other contents");
        }
    }
    assert!(!kept.is_empty(), "no checkpoint was made");
    let (name, state) = &kept[0];
    volume.text(&format!("checkpoint rollback {of} {name}"));
    assert!(volume.run(["cat", path]) == *state);
}

fn names(volume: &Volume, of: &str) -> Vec<String> {
    let list = volume.json(&format!("checkpoint list {of} --json"));
    let names = list.as_array().unwrap().iter();
    names
        .map(|c| c["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Kills one process of the volume with SIGKILL: a server, or the service.
fn kill(volume: &Volume, which: usize) {
    let status = volume.json("status --json");
    let servers = status["servers"].as_array().unwrap();
    let node = match which % 4 {
        3 => &status["meta"],
        n => &servers[n],
    };
    let pid = node["pid"].as_i64().unwrap().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-KILL", &pid])
        .status();
    assert!(killed.unwrap().success());
    // Its lock is free once the kernel has removed the process.
    std::thread::sleep(Duration::from_millis(100));
}
