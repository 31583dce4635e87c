//! Servers that stop, start and refuse; wrong keys and garbage on the port.

use crate::common;

use std::time::{Duration, Instant};

use common::TestVolume;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_client::{Access, Error, File, NewLayout, OpenView, Volume};
use weft_layout::ViewOffset;
use weft_net::VolumeKey;
use weft_proto::Code;

/// A file with bytes in a cell on each of two servers.
async fn on_two_servers(volume: &Volume, path: &str) -> (File, OpenView) {
    let layout = NewLayout {
        cells: Some(2),
        bsu: Some(4096),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    let open = file.canonical().unwrap();
    open.write_at(ViewOffset(0), vec![5; 65_536].into())
        .await
        .unwrap();
    (file, open)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_a_lost_server_fail_promptly_and_succeed_after_its_return() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let (_file, open) = on_two_servers(&volume, "/file").await;

    test.stop_server(1).await;
    let started = Instant::now();
    let mut buffer = vec![0; 65_536];
    let error = open.read_at(ViewOffset(0), &mut buffer).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    let error = open
        .write_at(ViewOffset(0), vec![6; 65_536].into())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("server 1"), "{error}");
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "the calls took {:?}",
        started.elapsed()
    );

    test.start_server(1).await;
    let mut tries = 0;
    while let Err(error) = open.read_at(ViewOffset(0), &mut buffer).await {
        tries += 1;
        assert!(tries < 100, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(buffer.iter().all(|b| *b == 5 || *b == 6));
    open.write_at(ViewOffset(0), vec![7; 65_536].into())
        .await
        .unwrap();
    open.read_at(ViewOffset(0), &mut buffer).await.unwrap();
    assert_eq!(buffer, vec![7; 65_536]);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_files_survive_a_restart_of_the_metadata_service() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = volume
        .attach("/file", Access::read_write().create_new(0o644))
        .await
        .unwrap();
    let open = file.canonical().unwrap();
    open.write_at(ViewOffset(0), vec![1; 1000].into())
        .await
        .unwrap();
    volume.unlink("/file").await.unwrap();
    test.restart_meta().await;
    // Writes need no metadata service; namespace calls succeed after the restart.
    open.write_at(ViewOffset(1000), vec![2; 1000].into())
        .await
        .unwrap();
    volume.make_directory("/after", 0o755).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        file.size().await.unwrap(),
        2000,
        "an unlinked open file survives the restart"
    );
    file.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_refused_clearly_and_quickly() {
    let test = TestVolume::start(1).await;
    let mut options = test.options();
    options.key = VolumeKey([43; 32]);
    let error = Volume::connect(options).await.err().unwrap();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    assert!(error.to_string().contains("key"), "{error}");
    let mut options = test.options();
    options.volume = [2; 16];
    let error = Volume::connect(options).await.err().unwrap();
    assert_eq!(error.code(), Code::WrongVolume, "{error}");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_the_port_closes_its_connection_and_harms_no_other() {
    let test = TestVolume::start(1).await;
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0xFF; 4096],
        b"WEFT",
    ] {
        let mut stream = tokio::net::TcpStream::connect(&test.addresses[0])
            .await
            .unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer));
        let _ = closed.await.expect("the server closes the connection");
    }
    let volume = test.client().await;
    volume.make_directory("/still-here", 0o755).await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_paths_are_refused_with_their_own_codes() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let long_name = "n".repeat(256);
    let long_path = "/d".repeat(2100);
    for (path, code) in [
        ("", Code::NotFound),
        ("/a\0b", Code::Invalid),
        (long_name.as_str(), Code::NameTooLong),
        (long_path.as_str(), Code::NameTooLong),
        ("/missing/file", Code::NotFound),
    ] {
        let error = volume
            .attach(path, Access::write().create(0o644))
            .await
            .err()
            .unwrap();
        assert_eq!(error.code(), code, "{error}");
    }
    assert_eq!(
        volume.stat("/../..").await.unwrap().id,
        weft_proto::meta::ROOT
    );
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_cannot_learn_the_size_still_ends_the_attachment() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let (file, _) = on_two_servers(&volume, "/gone").await;
    // Another process may have written: the close must ask the servers for the size.
    file.note_written();
    volume.unlink("/gone").await.unwrap();
    test.stop_server(1).await;
    assert!(file.close().await.is_err());
    test.start_server(1).await;
    let id = weft_layout::FileId(file.id());
    let began = Instant::now();
    for server in 0..2 {
        let store = test.servers[server].as_ref().unwrap().store().unwrap();
        while store.forks(id).await.is_ok_and(|forks| !forks.is_empty()) {
            assert!(
                began.elapsed() < Duration::from_secs(15),
                "the cells of the deleted file remain"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    test.stop().await;
}
