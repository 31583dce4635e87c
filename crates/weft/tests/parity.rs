//! Files with parity: what they cost when they are coded, and what lost servers cost them.

mod replicas_support;

use std::time::{Duration, Instant};

use replicas_support::{Replicated, Which, content, expect, text, weft, write};
use rustix::process::Signal;
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::{FileId, ViewOffset};

const LENGTH: usize = 7_654_321;

/// A volume of three servers with two replicas each, where files are coded after a second.
fn up() -> Replicated {
    let up = Replicated::of(3, 2);
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
    let layout = NewLayout {
        bsu: Some(100_000),
        parity: Some(Some("2+1".parse().unwrap())),
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
        if let Some(coded) = &state.coded
            && state.same
        {
            return coded.checkpoint;
        }
        let waited = began.elapsed();
        assert!(waited < Duration::from_mins(1), "not coded: {state:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
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
        expect(&file, 1, 0, LENGTH).await;
        expect(&file, 1, 1_234_567, 1000).await;
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
