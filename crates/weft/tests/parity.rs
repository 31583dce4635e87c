//! Files with parity: what they cost when they are coded, and what lost servers cost them.

mod replicas_support;

use std::time::{Duration, Instant};

use replicas_support::{Replicated, Which, content, expect, text, weft, write};
use rustix::process::Signal;
use weft_client::{Access, Changes, File, NewLayout, Volume};
use weft_layout::{CellIndex, FileId, FileOffset, View, ViewOffset};

const LENGTH: usize = 7_654_321;

/// A volume of three servers with two replicas each, where files are coded after a second.
fn up() -> Replicated {
    up_with(3, 2)
}

fn up_with(servers: u32, replicas: u32) -> Replicated {
    let up = Replicated::of(servers, replicas);
    let out = weft(&["down", up.path()]);
    assert!(out.status.success(), "{}", text(&out));
    let config = up.folder().join("weft.toml");
    let written = std::fs::read_to_string(&config).unwrap();
    let section = "[volume]\n";
    assert!(written.contains(section), "{written}");
    let with = format!("{section}code_after = \"1s\"\n");
    std::fs::write(&config, written.replacen(section, &with, 1)).unwrap();
    up.start();
    up
}

async fn create(volume: &Volume, path: &str) -> File {
    create_with(volume, path, "2+1").await
}

async fn create_with(volume: &Volume, path: &str, shape: &str) -> File {
    let layout = NewLayout {
        bsu: Some(100_000),
        parity: Some(Some(shape.parse().unwrap())),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

/// The number of the checkpoint that a file is coded as, once it is and has not been changed since.
async fn coded(volume: &Volume, path: &str) -> u64 {
    let id = FileId(volume.stat(path).await.unwrap().id);
    let began = Instant::now();
    loop {
        let state = volume.parity_of(id).await.unwrap().unwrap();
        let map = volume.server_map().await.unwrap();
        let primary_of = |id: &u32| {
            let server = map.servers.iter().find(|server| server.id == *id).unwrap();
            server.replicas.iter().find(|r| r.primary).unwrap().number
        };
        let primaries: Vec<u32> = state.layout.servers.iter().map(primary_of).collect();
        if let Some(coded) = &state.coded
            && state.same
            && coded.primaries == primaries
        {
            return coded.checkpoint;
        }
        let waited = began.elapsed();
        assert!(waited < Duration::from_mins(1), "not coded: {state:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What the nodes have warned of.
fn warnings(up: &Replicated) -> String {
    let logs = std::fs::read_dir(up.folder().join("log")).unwrap();
    let logs = logs.map(|log| std::fs::read_to_string(log.unwrap().path()).unwrap());
    let lines: Vec<String> = logs
        .flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let told = lines
        .iter()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"));
    told.cloned().collect::<Vec<_>>().join("\n")
}

/// Bytes in use on all replicas of all servers.
fn used(up: &Replicated) -> u64 {
    let status = up.status();
    let servers = status["servers"].as_array().unwrap();
    let replicas = servers
        .iter()
        .flat_map(|s| s["replicas"].as_array().unwrap());
    replicas.map(|r| r["used"].as_u64().unwrap()).sum()
}

/// Waits until so many bytes are in use at most.
async fn uses_at_most(up: &Replicated, most: usize) {
    let began = Instant::now();
    while used(up) > most as u64 {
        let waited = began.elapsed();
        assert!(
            waited < Duration::from_mins(1),
            "{} of {most} bytes",
            used(up)
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_file_is_kept_once_with_parity_and_survives_each_server() {
    let up = up();
    up.in_sync().await;
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    file.close().await.unwrap();
    coded(&volume, "/f").await;
    // Bytes, parity of 2+1, and blocks that are not full.
    uses_at_most(&up, LENGTH * 3 / 2 + LENGTH / 4).await;
    for server in 0..3 {
        let file = volume.attach("/f", Access::read()).await.unwrap();
        up.signal(server, Which::Primary, Signal::KILL);
        // What is not a hole is data, wherever it is.
        let (mut ranges, mut data) = (file.data_ranges(FileOffset(0), 1), 0);
        while let Some(range) = ranges.next().await.unwrap() {
            data += range.end - range.start;
        }
        assert_eq!(data, LENGTH as u64);
        expect(&file, 1, 0, LENGTH).await;
        drop(file);
        up.start();
        up.in_sync().await;
        // What the new primary had only in rows is there again, and coded anew.
        coded(&volume, "/f").await;
        uses_at_most(&up, LENGTH * 3 / 2 + LENGTH / 4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_over_coded_bytes_survives_too() {
    let up = up();
    up.in_sync().await;
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    file.close().await.unwrap();
    let first = coded(&volume, "/f").await;
    uses_at_most(&up, LENGTH * 3 / 2 + LENGTH / 4).await;

    // Parts of blocks, large pieces, holes, and another end: all of them on backups without bytes.
    let file = volume.attach("/f", Access::read_write()).await.unwrap();
    write(&file, 2, 1001, 77).await;
    write(&file, 3, 2_000_003, 1_500_001).await;
    let view = file.canonical().unwrap();
    view.clear(ViewOffset(5_000_001), 300_001).await.unwrap();
    file.truncate(LENGTH as u64 - 12_345).await.unwrap();
    write(&file, 4, LENGTH as u64, 999).await;
    up.in_sync().await;
    up.signal(1, Which::Primary, Signal::KILL);
    let check = async |file: &File| {
        expect(file, 1, 0, 1001).await;
        expect(file, 2, 1001, 77).await;
        let mut all = vec![0; LENGTH + 999];
        let view = file.canonical().unwrap();
        let count = view.read_at(ViewOffset(0), &mut all).await.unwrap();
        assert_eq!(count, all.len() as u64);
        let mut expected = content(1, 0, LENGTH).to_vec();
        expected[1001..1078].copy_from_slice(&content(2, 1001, 77));
        expected[2_000_003..3_500_004].copy_from_slice(&content(3, 2_000_003, 1_500_001));
        expected[5_000_001..5_300_002].fill(0);
        expected[LENGTH - 12_345..].fill(0);
        expected.extend_from_slice(&content(4, LENGTH as u64, 999));
        let wrong = all.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "the first wrong byte");
    };
    check(&file).await;
    file.close().await.unwrap();
    up.start();
    up.in_sync().await;
    assert_ne!(coded(&volume, "/f").await, first, "it is coded anew");
    uses_at_most(&up, LENGTH * 3 / 2 + LENGTH / 2).await;
    up.signal(2, Which::Primary, Signal::KILL);
    let file = volume.attach("/f", Access::read()).await.unwrap();
    check(&file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_rollbacks_scrubs_and_removal_work_on_coded_files() {
    let up = up();
    up.in_sync().await;
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    volume.make_checkpoint("/f", "before").await.unwrap();
    write(&file, 2, 0, 3_000_000).await;
    for cell in 0..3 {
        let fork = CellIndex(cell);
        file.create_fork(fork, "notes").await.unwrap();
        let view = file.view_of_fork(View::Cell(fork), "notes").unwrap();
        let notes = content(9, cell.into(), 5000);
        view.write_at(ViewOffset(77), notes).await.unwrap();
    }
    file.close().await.unwrap();
    let first = coded(&volume, "/f").await;
    uses_at_most(&up, LENGTH * 2 + LENGTH * 3).await;
    let names = |list: Vec<weft_client::CheckpointInfo>| -> Vec<String> {
        list.into_iter().map(|checkpoint| checkpoint.name).collect()
    };
    let listed = volume.checkpoints("/f").await.unwrap();
    assert_eq!(
        names(listed),
        ["before"],
        "that of the coding is not listed"
    );

    // One that shares what is coded: it pins that.
    volume.make_checkpoint("/f", "after").await.unwrap();
    let file = volume.attach("/f", Access::read_write()).await.unwrap();
    write(&file, 3, 1_000_000, 2_000_000).await;
    file.close().await.unwrap();
    let fsck = weft(&["fsck", up.path(), "--data"]);
    assert!(fsck.status.success(), "{}", text(&fsck));
    let scrub = weft(&["scrub", up.path()]);
    let (said, warned) = (text(&scrub), warnings(&up));
    assert!(scrub.status.success(), "{said}{warned}");
    assert!(!said.contains("mended"), "{said}{warned}");

    up.signal(0, Which::Primary, Signal::KILL);
    let file = volume.attach("/f", Access::read_write()).await.unwrap();
    expect(&file, 3, 1_000_000, 2_000_000).await;
    expect(&file, 2, 0, 1_000_000).await;
    file.close().await.unwrap();
    let read = weft(&["checkpoint", "read", "--volume", up.path(), "/f", "after"]);
    let mut kept = content(1, 0, LENGTH).to_vec();
    kept[..3_000_000].copy_from_slice(&content(2, 0, 3_000_000));
    assert!(
        read.stdout == kept,
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    volume.roll_back("/f", "after").await.unwrap();
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 2, 0, 3_000_000).await;
    for cell in 0..3 {
        let view = file
            .view_of_fork(View::Cell(CellIndex(cell)), "notes")
            .unwrap();
        let mut notes = vec![0; 5000];
        view.read_at(ViewOffset(77), &mut notes).await.unwrap();
        assert!(notes == content(9, cell.into(), 5000), "cell {cell}");
    }
    file.close().await.unwrap();
    volume.roll_back("/f", "before").await.unwrap();
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    file.close().await.unwrap();
    up.start();
    up.in_sync().await;
    let state = volume.parity_of(FileId(volume.stat("/f").await.unwrap().id));
    let state = state.await.unwrap().unwrap();
    assert!(state.pinned && state.coded.unwrap().checkpoint == first);
    volume.remove_checkpoint("/f", "after").await.unwrap();
    let again = coded(&volume, "/f").await;
    assert_ne!(again, first);

    // A tree that is rolled back keeps the parity of its files.
    let tree = |what: &str| {
        let out = weft(&["checkpoint", what, "--volume", up.path(), "/", "tree"]);
        assert!(out.status.success(), "{}", text(&out));
    };
    tree("create");
    let file = volume.attach("/f", Access::read_write()).await.unwrap();
    write(&file, 5, 10, 1000).await;
    file.close().await.unwrap();
    tree("rollback");
    let state = volume.parity_of(FileId(volume.stat("/f").await.unwrap().id));
    assert_eq!(
        state.await.unwrap().unwrap().coded.unwrap().checkpoint,
        again
    );
    up.signal(1, Which::Primary, Signal::KILL);
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    file.close().await.unwrap();
    tree("delete");
    up.start();
    up.in_sync().await;

    volume.unlink("/f").await.unwrap();
    uses_at_most(&up, 0).await;
    let fsck = weft(&["fsck", up.path(), "--data"]);
    assert!(fsck.status.success(), "{}", text(&fsck));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_four_servers_may_be_lost_with_two_pieces_of_parity() {
    let up = up_with(4, 3);
    up.in_sync().await;
    let volume = up.client().await;
    let file = create_with(&volume, "/f", "2+2").await;
    write(&file, 1, 0, LENGTH).await;
    file.close().await.unwrap();
    coded(&volume, "/f").await;
    uses_at_most(&up, LENGTH * 2 + LENGTH / 2).await;
    let file = volume.attach("/f", Access::read_write()).await.unwrap();
    for server in [1, 2] {
        up.signal(server, Which::Primary, Signal::KILL);
    }
    expect(&file, 1, 0, LENGTH).await;
    write(&file, 2, 3_000_001, 10_001).await;
    expect(&file, 2, 3_000_001, 10_001).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parity_is_refused_where_servers_are_few_and_given_to_files_that_exist() {
    let up = up();
    up.in_sync().await;
    let volume = up.client().await;
    let refused = |shape: &str| {
        let out = weft(&["create", "--volume", up.path(), "--parity", shape, "/g"]);
        assert!(!out.status.success(), "{shape}");
        text(&out)
    };
    assert!(refused("3+1").contains("k + m servers"));
    assert!(refused("1+2").contains("replicas"));
    assert!(refused("0+1").contains("K is 1 to 64"));
    assert!(refused("4-1").contains("K+M"));

    let layout = NewLayout {
        cells: Some(3),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach("/g", access).await.unwrap();
    write(&file, 1, 0, LENGTH).await;
    file.close().await.unwrap();
    let changes = Changes {
        layout: Some(NewLayout {
            parity: Some(Some("2+1".parse().unwrap())),
            ..NewLayout::default()
        }),
        ..Changes::default()
    };
    volume.set_attributes("/g", &changes).await.unwrap();
    coded(&volume, "/g").await;
    uses_at_most(&up, LENGTH * 3 / 2 + LENGTH / 4).await;
    let stat = weft(&["stat", "--volume", up.path(), "/g"]);
    assert!(text(&stat).contains("parity 2+1"), "{}", text(&stat));
    assert!(
        text(&stat).contains("parity; what was written"),
        "{}",
        text(&stat)
    );
    up.signal(0, Which::Primary, Signal::KILL);
    let file = volume.attach("/g", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_of_a_coded_file_is_computed_and_mended() {
    let up = up();
    up.in_sync().await;
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    file.close().await.unwrap();
    coded(&volume, "/f").await;
    uses_at_most(&up, LENGTH * 3 / 2 + LENGTH / 4).await;
    let file = volume.attach("/f", Access::read()).await.unwrap();
    let servers: Vec<u32> = file.layout().servers().iter().map(|s| s.0).collect();
    drop((file, volume));
    let (primary, _) = up.replica(servers[0] as usize, Which::Primary);
    // What is in memory would not be read from the disk.
    let out = weft(&["down", up.path()]);
    assert!(out.status.success(), "{}", text(&out));
    up.damage(&primary, &content(1, 0, 64));
    up.start();
    up.in_sync().await;
    let volume = up.client().await;
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    let log = up.log(&primary);
    assert!(log.contains("damaged data was mended"), "{log}");
}

#[test]
fn a_new_volume_gives_its_files_parity() {
    let folder = tempfile::Builder::new()
        .prefix("weft-parity-")
        .tempdir()
        .unwrap();
    let dir = folder.path().join("volume");
    let dir = dir.to_str().unwrap();
    for more in [["--servers", "2"], ["--replicas", "1"]] {
        let out = weft(&[&["up", dir, "--parity", "2+1"], &more[..]].concat());
        assert!(
            text(&out).contains("needs 3 servers with 2 replicas"),
            "{}",
            text(&out)
        );
    }
    let out = weft(&["up", dir, "--parity", "2+1", "--servers", "3"]);
    assert!(out.status.success(), "{}", text(&out));
    let out = weft(&["create", "--volume", dir, "/f"]);
    assert!(out.status.success(), "{}", text(&out));
    let stat = text(&weft(&["stat", "--volume", dir, "/f"]));
    let again = text(&weft(&["up", dir, "--parity", "2+1"]));
    let down = weft(&["down", dir]);
    assert!(down.status.success(), "{}", text(&down));
    assert!(stat.contains("parity 2+1"), "{stat}");
    assert!(again.contains("each directory"), "{again}");
}
