//! Servers with replicas: what a lost, stopped or emptied replica costs.

mod replicas_support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use replicas_support::{DETECTION, Replicated, Which, content, expect, text, weft, write};
use rustix::process::{Signal, kill_process};
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::{CellIndex, Storage, View, ViewOffset};

/// A file of two cells, one on each server.
async fn create(volume: &Volume, path: &str) -> File {
    let layout = NewLayout {
        cells: Some(2),
        bsu: Some(10_000),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

const LENGTH: usize = 1_234_567;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_costs_nothing_and_its_replica_catches_up() {
    let up = Replicated::up();
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    up.signal(0, Which::Primary, Signal::KILL);
    // Acknowledged by a process that is gone, and not synced.
    expect(&file, 1, 0, LENGTH).await;
    write(&file, 2, 500_000, 300_000).await;
    file.sync().await.expect("nothing of it is lost");
    up.start();
    up.in_sync().await;
    // What the new replica has is what it was sent.
    write(&file, 3, 100_001, 50_000).await;
    for server in 0..2 {
        up.signal(server, Which::Primary, Signal::KILL);
    }
    expect(&file, 1, 0, 100_001).await;
    expect(&file, 3, 100_001, 50_000).await;
    expect(&file, 2, 500_000, 300_000).await;
    file.sync().await.expect("nothing of it is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_primary_is_replaced_and_shows_and_changes_nothing_later() {
    let up = Replicated::up();
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    let (name, pid) = up.signal(1, Which::Primary, Signal::STOP);
    write(&file, 2, 0, LENGTH).await;
    assert_ne!(up.replica(1, Which::Primary).0, name);
    kill_process(pid, Signal::CONT).unwrap();
    // A client whose connections still go to the old primary.
    expect(&file, 2, 0, LENGTH).await;
    write(&file, 3, 400_000, 10_000).await;
    up.in_sync().await;
    assert_eq!(up.replica(1, Which::Backup).0, name);
    up.signal(1, Which::Primary, Signal::KILL);
    expect(&file, 2, 0, 400_000).await;
    expect(&file, 3, 400_000, 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_replica_gets_everything_anew() {
    let up = Replicated::up();
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    volume.make_checkpoint("/f", "first").await.unwrap();
    write(&file, 2, 200_000, 300_000).await;
    volume.make_checkpoint("/f", "second").await.unwrap();
    write(&file, 3, 900_000, 100_000).await;
    for cell in 0..2 {
        file.create_fork(CellIndex(cell), "notes").await.unwrap();
        let view = file.view_of_fork(View::Cell(CellIndex(cell)), "notes");
        let view = view.unwrap();
        let data = content(9, cell.into(), 5000);
        view.write_at(ViewOffset(77), data).await.unwrap();
    }
    create(&volume, "/gone").await;
    write(
        &volume.attach("/gone", Access::read_write()).await.unwrap(),
        1,
        0,
        100_000,
    )
    .await;
    up.in_sync().await;
    let mut emptied = Vec::new();
    for (server, which) in [(0, Which::Backup), (1, Which::Primary)] {
        let (name, _) = up.signal(server, which, Signal::KILL);
        std::fs::remove_dir_all(up.folder().join(&name)).unwrap();
        let out = weft(&["format", "--config", up.path(), "--node", &name]);
        assert!(out.status.success(), "{}", text(&out));
        emptied.push(name);
    }
    // While it is away, and before it has caught up.
    volume.unlink("/gone").await.unwrap();
    volume.truncate("/f", LENGTH as u64 - 10_000).await.unwrap();
    up.start();
    write(&file, 4, 50_000, 10_000).await;
    up.in_sync().await;
    for server in 0..2 {
        if !emptied.contains(&up.replica(server, Which::Primary).0) {
            up.signal(server, Which::Primary, Signal::KILL);
        }
    }
    expect(&file, 1, 0, 50_000).await;
    expect(&file, 4, 50_000, 10_000).await;
    expect(&file, 2, 200_000, 300_000).await;
    expect(&file, 3, 900_000, 100_000).await;
    assert_eq!(
        volume.stat("/f").await.unwrap().size,
        LENGTH as u64 - 10_000
    );
    for cell in 0..2 {
        let view = file.view_of_fork(View::Cell(CellIndex(cell)), "notes");
        let mut read = vec![0; 5000];
        view.unwrap()
            .read_at(ViewOffset(77), &mut read)
            .await
            .unwrap();
        assert!(read == content(9, cell.into(), 5000), "fork of cell {cell}");
    }
    drop(file);
    volume.roll_back("/f", "second").await.unwrap();
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 2, 200_000, 300_000).await;
    let mut read = vec![0; 100_000];
    let view = file.canonical().unwrap();
    view.read_at(ViewOffset(900_000), &mut read).await.unwrap();
    assert!(
        read == content(1, 0, LENGTH)[900_000..1_000_000],
        "rolled back"
    );
    drop(view);
    drop(file);
    volume.roll_back("/f", "first").await.unwrap();
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    let found = weft(&["fsck", up.path(), "--data"]);
    assert!(found.status.success(), "{}", text(&found));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_folder_is_not_believed_after_all_processes_were_stopped() {
    let up = Replicated::up();
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    drop((file, volume));
    let (name, _) = up.replica(0, Which::Primary);
    let out = weft(&["down", up.path()]);
    assert!(out.status.success(), "{}", text(&out));
    std::fs::remove_dir_all(up.folder().join(&name)).unwrap();
    let out = weft(&["format", "--config", up.path(), "--node", &name]);
    assert!(out.status.success(), "{}", text(&out));
    up.start();
    let volume = up.client().await;
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    up.in_sync().await;
    assert_eq!(up.replica(0, Which::Backup).0, name);
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 1, 0, LENGTH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_what_is_not_redundant() {
    let up = Replicated::up();
    let said = text(&weft(&["status", up.path()]));
    assert!(
        said.contains("every server has all its replicas in sync"),
        "{said}"
    );
    let (name, _) = up.signal(1, Which::Backup, Signal::KILL);
    // The primary of a volume that nobody uses finds it out by itself.
    let began = Instant::now();
    let status = loop {
        let status = up.status();
        let replicas = status["servers"][1]["replicas"].as_array().unwrap();
        let lost = replicas
            .iter()
            .find(|r| r["node"] == name.as_str())
            .unwrap();
        if lost["state"] == "away" {
            break status;
        }
        assert!(began.elapsed() < DETECTION, "{status:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(
        (&status["redundant"], &status["up"]),
        (&false.into(), &false.into())
    );
    let out = weft(&["status", up.path()]);
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out);
    assert!(
        said.contains("server-1 has 1 of 2 replicas in sync"),
        "{said}"
    );
    up.start();
    up.in_sync().await;
    assert!(weft(&["status", up.path()]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_losses_than_promised_are_errors_that_end_and_spare_other_files() {
    let up = Replicated::up();
    let volume = up.client().await;
    let one_cell = |server| NewLayout {
        cells: Some(1),
        servers: vec![server],
        ..NewLayout::default()
    };
    let mut files = Vec::new();
    for server in 0..2 {
        let access = Access::read_write()
            .create_new(0o644)
            .layout(&one_cell(server));
        let file = volume.attach(&format!("/f{server}"), access).await.unwrap();
        write(&file, 1, 0, 300_000).await;
        files.push(file);
    }
    up.signal(0, Which::Primary, Signal::KILL);
    up.signal(0, Which::Backup, Signal::KILL);
    expect(&files[1], 1, 0, 300_000).await;
    let began = Instant::now();
    let view = files[0].canonical().unwrap();
    let error = view
        .read_at(ViewOffset(0), &mut [0; 100])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("server 0"), "{error}");
    assert!(began.elapsed() < 3 * DETECTION, "{:?}", began.elapsed());
    // Killed processes have lost nothing.
    up.start();
    expect(&files[0], 1, 0, 300_000).await;
    up.in_sync().await;
}

#[test]
fn files_go_to_servers_with_as_many_replicas_as_they_ask_for() {
    let up = Replicated::up();
    let create = |name: &str, options: &[&str]| {
        let args = [&["--volume", up.path(), "create", name], options].concat();
        weft(&args)
    };
    assert!(create("/two", &["--replicas", "2"]).status.success());
    let refused = create("/three", &["--replicas", "3"]);
    assert!(
        text(&refused).contains("no server has so many replicas"),
        "{}",
        text(&refused)
    );
    assert!(
        create("/addressed", &["--addressed", "--replicas", "2"])
            .status
            .success()
    );
}

/// Far more than the cache of the servers in these tests.
const LARGE: usize = 48 << 20;

async fn large(up: &Replicated) -> (Volume, File) {
    let volume = up.client().await;
    let layout = NewLayout {
        cells: Some(1),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach("/large", access).await.unwrap();
    for piece in 0..LARGE as u64 >> 20 {
        write(&file, 1, piece << 20, 1 << 20).await;
    }
    file.sync().await.unwrap();
    (volume, file)
}

async fn expect_large(file: &File) {
    for piece in 0..LARGE as u64 >> 20 {
        expect(file, 1, piece << 20, 1 << 20).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_absence_costs_what_was_written_meanwhile() {
    let up = Replicated::of(1, 2);
    let (_volume, file) = large(&up).await;
    up.in_sync().await;
    // Changes are known from a while before the absence on.
    tokio::time::sleep(Duration::from_secs(18)).await;
    let primary = up.replica(0, Which::Primary).0;
    for (absence, signal) in [Signal::KILL, Signal::STOP].into_iter().enumerate() {
        // The primary has spoken to it since it is in sync.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (_, pid) = up.signal(0, Which::Backup, signal);
        write(&file, 2, 30 << 20, 10_000).await;
        write(&file, 2, 33 << 20, 10_000).await;
        match signal {
            Signal::KILL => up.start(),
            _ => kill_process(pid, Signal::CONT).unwrap(),
        }
        up.in_sync().await;
        let log = up.log(&primary);
        let lines: Vec<&str> = log
            .lines()
            .filter(|l| l.contains("has caught up"))
            .collect();
        assert_eq!(lines.len(), absence + 1, "{log}");
        let last = lines[absence];
        assert!(last.contains("what it missed"), "{last}");
        // A stopped one may have got the changes, and have applied them when it went on.
        assert!(absence == 1 || last.contains("files=1 "), "{last}");
    }
    tokio::time::sleep(Duration::from_secs(18)).await;
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 2, 30 << 20, 10_000).await;
    expect(&file, 2, 33 << 20, 10_000).await;
    expect(&file, 1, 31 << 20, 1 << 20).await;
    // The old primary has missed what was written since, and nothing else.
    write(&file, 3, 5 << 20, 10_000).await;
    let successor = up.replica(0, Which::Primary).0;
    up.start();
    up.in_sync().await;
    let log = up.log(&successor);
    assert!(log.contains("what it missed"), "{log}");
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 3, 5 << 20, 10_000).await;
    expect(&file, 2, 33 << 20, 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_is_read_from_another_replica_and_mended() {
    let up = Replicated::with(1, 2, &["--cache", "8 MiB"]);
    let (_volume, file) = large(&up).await;
    expect_large(&file).await;
    let primary = up.replica(0, Which::Primary).0;
    up.damage(&primary, &content(1, 2 << 20, 64));
    expect(&file, 1, 2 << 20, 1 << 20).await;
    let log = up.log(&primary);
    assert!(log.contains("damaged data was mended"), "{log}");
    // A write of a part of a damaged block needs the rest of it.
    up.damage(&primary, &content(1, 3 << 20, 64));
    write(&file, 2, (3 << 20) + 1000, 100).await;
    let mut block = vec![0; 4096];
    let view = file.canonical().unwrap();
    view.read_at(ViewOffset(3 << 20), &mut block).await.unwrap();
    let old = content(1, 3 << 20, 4096);
    assert!(block[..1000] == old[..1000] && block[1100..] == old[1100..]);
    assert!(block[1000..1100] == content(2, (3 << 20) + 1000, 100));
    write(&file, 1, 3 << 20, 1 << 20).await;
    // Alone it cannot be mended. What the other one has not missed is believed when it is back.
    tokio::time::sleep(Duration::from_secs(18)).await;
    up.signal(0, Which::Backup, Signal::KILL);
    up.damage(&primary, &content(1, 4 << 20, 64));
    let view = file.canonical().unwrap();
    let error = view
        .read_at(ViewOffset(4 << 20), &mut block)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    up.start();
    up.in_sync().await;
    expect_large(&file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrub_mends_all_replicas() {
    let up = Replicated::with(1, 2, &["--cache", "8 MiB"]);
    let (_volume, file) = large(&up).await;
    let [primary, backup] = [Which::Primary, Which::Backup].map(|w| up.replica(0, w).0);
    up.damage(&primary, &content(1, 2 << 20, 64));
    up.damage(&backup, &content(1, 3 << 20, 64));
    let out = weft(&["scrub", up.path()]);
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("2 bad blocks, 2 of them mended"), "{said}");
    assert!(said.contains("on replica 1"), "{said}");
    let out = weft(&["scrub", up.path(), "--json"]);
    let again: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&again["bad_blocks"], &again["replica_bytes"]),
        (&0.into(), &0.into())
    );
    for _ in 0..2 {
        expect_large(&file).await;
        up.signal(0, Which::Primary, Signal::KILL);
        expect_large(&file).await;
        up.start();
        up.in_sync().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addressed_files_are_in_all_replicas() {
    let up = Replicated::of(1, 2);
    let volume = up.client().await;
    let addressed = |path: &'static str| {
        let layout = NewLayout {
            cells: Some(2),
            bsu: Some(10_000),
            chunk: Some(16_384),
            storage: Some(Storage::Addressed),
            ..NewLayout::default()
        };
        let access = Access::read_write().create_new(0o644).layout(&layout);
        volume.attach(path, access)
    };
    let file = addressed("/f").await.unwrap();
    write(&file, 1, 0, LENGTH).await;
    // The same bytes again, whose chunks the primary has.
    let twin = addressed("/twin").await.unwrap();
    write(&twin, 1, 0, LENGTH).await;
    volume.make_checkpoint("/f", "first").await.unwrap();
    write(&file, 2, 300_000, 200_000).await;
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 1, 0, 300_000).await;
    expect(&file, 2, 300_000, 200_000).await;
    expect(&twin, 1, 0, LENGTH).await;
    write(&twin, 3, 0, 50_000).await;
    up.start();
    up.in_sync().await;
    // An empty one gets them, too.
    let (name, _) = up.signal(0, Which::Backup, Signal::KILL);
    std::fs::remove_dir_all(up.folder().join(&name)).unwrap();
    let out = weft(&["format", "--config", up.path(), "--node", &name]);
    assert!(out.status.success(), "{}", text(&out));
    up.start();
    up.in_sync().await;
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 1, 0, 300_000).await;
    expect(&file, 2, 300_000, 200_000).await;
    expect(&twin, 3, 0, 50_000).await;
    drop((file, twin));
    volume.roll_back("/f", "first").await.unwrap();
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    let found = weft(&["fsck", up.path(), "--data"]);
    assert!(found.status.success(), "{}", text(&found));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_lost_while_all_are_stopped_is_replaced() {
    let up = Replicated::of(1, 2);
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    drop((file, volume));
    let (name, _) = up.replica(0, Which::Primary);
    assert!(weft(&["down", up.path()]).status.success());
    std::fs::remove_dir_all(up.folder().join(&name)).unwrap();
    let out = weft(&["up", up.path()]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out).contains("server replace"), "{}", text(&out));
    // The other one serves.
    let volume = up.client().await;
    let file = volume.attach("/f", Access::read_write()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    let out = weft(&["--volume", up.path(), "server", "replace", &name]);
    assert!(out.status.success(), "{}", text(&out));
    up.in_sync().await;
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 1, 0, LENGTH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_folder_in_the_place_of_the_last_good_one_is_refused() {
    let up = Replicated::of(1, 2);
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    let (backup, _) = up.signal(0, Which::Backup, Signal::KILL);
    // Acknowledged without the other one, which lacks it from now on.
    write(&file, 2, 0, 10_000).await;
    let (primary, _) = up.signal(0, Which::Primary, Signal::KILL);
    std::fs::remove_dir_all(up.folder().join(&primary)).unwrap();
    let out = weft(&["format", "--config", up.path(), "--node", &primary]);
    assert!(out.status.success(), "{}", text(&out));
    let out = weft(&["up", up.path()]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    let log = up.log("meta");
    assert!(log.contains("it was formatted anew"), "{log}");
    let view = file.canonical().unwrap();
    assert!(view.read_at(ViewOffset(0), &mut [0; 100]).await.is_err());
    // What the other one has is not made equal to nothing.
    let status = up.status();
    let replicas = status["servers"][0]["replicas"].as_array().unwrap();
    let kept = replicas
        .iter()
        .find(|r| r["node"] == backup.as_str())
        .unwrap();
    assert!(
        kept["used"].as_u64().unwrap() > LENGTH as u64 / 2,
        "{status:#}"
    );
}

/// The calls of a kind that a replica has served.
fn calls(up: &Replicated, which: Which, kind: &str) -> u64 {
    let status = up.status();
    let role = match which {
        Which::Primary => "primary",
        Which::Backup => "backup",
    };
    let replicas = status["servers"][0]["replicas"].as_array().unwrap();
    let replica = replicas.iter().find(|r| r["role"] == role).unwrap();
    let address = replica["metrics"].as_str().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let name = format!("weft_calls_total{{kind=\"{kind}\"}} ");
    let found = page.lines().find_map(|line| line.strip_prefix(&name));
    found.map_or(0, |count| count.parse().unwrap())
}

/// Bytes of the reads that are spread over replicas.
const STEP: usize = 4 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn large_reads_go_to_all_replicas_and_never_show_old_bytes() {
    let up = Replicated::of(1, 2);
    up.in_sync().await;
    let (writer, reader) = (up.client().await, up.client().await);
    let file = create(&writer, "/f").await;
    for step in 0..4 {
        write(&file, 1, step * STEP as u64, STEP).await;
    }
    let read = reader.attach("/f", Access::read()).await.unwrap();
    let reads = || [Which::Primary, Which::Backup].map(|which| calls(&up, which, "Read"));
    let began = Instant::now();
    while reads().into_iter().any(|calls| calls < 2) {
        for step in 0..4 {
            expect(&read, 1, step * STEP as u64, STEP).await;
        }
        // A backup that was slow once is left alone for some seconds.
        assert!(began.elapsed() < Duration::from_secs(40), "{:?}", reads());
    }
    // What was acknowledged is seen at once, by another client.
    for version in 2..60 {
        let step = version % 4;
        write(&file, version, step * STEP as u64, STEP).await;
        expect(&read, version, step * STEP as u64, STEP).await;
    }
    // What is seen once stays.
    let writing = async {
        for version in 100..160 {
            write(&file, version, 0, STEP).await;
        }
    };
    let looking = async {
        let view = read.canonical().unwrap();
        let ends = [0, STEP - 8192];
        let versions = 100..160;
        let marks: Vec<_> = versions
            .map(|version| (version, content(version, 0, STEP)))
            .map(|(version, data)| (version, ends.map(|at| data.slice(at..at + 8))))
            .collect();
        let mut last = [0_u64; 2];
        // These two lengths go to different replicas.
        let mut lengths = [STEP, STEP - 4096].into_iter().cycle();
        while last[0] < 159 {
            let mut bytes = vec![0; lengths.next().unwrap()];
            view.read_at(ViewOffset(0), &mut bytes).await.unwrap();
            for (end, at) in ends.into_iter().enumerate() {
                let found = marks.iter().find(|m| m.1[end] == bytes[at..at + 8]);
                let Some((version, _)) = found else { continue };
                assert!(*version >= last[end], "{version} after {}", last[end]);
                last[end] = *version;
            }
        }
    };
    tokio::join!(writing, looking);
    // One that does not answer costs no read.
    let (_, pid) = up.signal(0, Which::Backup, Signal::STOP);
    for step in 1..4 {
        let version = (2..60).rev().find(|v| v % 4 == step).unwrap();
        expect(&read, version, step * STEP as u64, STEP).await;
    }
    kill_process(pid, Signal::CONT).unwrap();
    up.in_sync().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_redundancy_of_a_file_is_shown() {
    let up = Replicated::of(1, 2);
    let volume = up.client().await;
    let file = create(&volume, "/f").await;
    write(&file, 1, 0, LENGTH).await;
    let stat = || weft(&["--volume", up.path(), "stat", "--json", "/f"]);
    let shown: serde_json::Value = serde_json::from_slice(&stat().stdout).unwrap();
    assert_eq!(
        shown[0]["redundancy"],
        serde_json::json!({"replicas": 2, "in_sync": 2})
    );
    up.signal(0, Which::Backup, Signal::KILL);
    write(&file, 2, 0, LENGTH).await;
    let shown = text(&weft(&["--volume", up.path(), "stat", "/f"]));
    assert!(shown.contains("2 replicas, 1 in sync"), "{shown}");
    let found = text(&weft(&["fsck", up.path()]));
    assert!(found.contains("is not in sync"), "{found}");
    up.start();
    up.in_sync().await;
    let found = weft(&["fsck", up.path(), "--data", "--repair", "--json"]);
    assert!(found.status.success(), "{}", text(&found));
}
