//! Servers with replicas: what a lost, stopped or emptied replica costs.

mod replicas_support;

use std::time::{Duration, Instant};

use replicas_support::{DETECTION, Replicated, Which, content, expect, text, weft, write};
use rustix::process::{Signal, kill_process};
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::{CellIndex, View, ViewOffset};

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
    let refused = create("/addressed", &["--addressed"]);
    assert!(
        text(&refused).contains("addressed files cannot be on servers with replicas"),
        "{}",
        text(&refused)
    );
}
