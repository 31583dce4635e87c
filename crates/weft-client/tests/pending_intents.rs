//! Intents pending for one server do not delay the others.

use crate::common;

use std::time::{Duration, Instant};

use common::TestVolume;
use weft_client::{Access, NewLayout, Volume};
use weft_layout::ViewOffset;

/// A file with cells on one server.
async fn on(volume: &Volume, path: &str, server: u32) {
    let layout = NewLayout {
        cells: Some(1),
        servers: vec![server],
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    let view = file.canonical().unwrap();
    let bytes = vec![7; 20_000];
    view.write_at(ViewOffset(0), bytes.into()).await.unwrap();
    file.close().await.unwrap();
}

async fn pending_intents(volume: &Volume) -> u64 {
    volume.server_map().await.unwrap().intents
}

async fn until_none_is_pending(volume: &Volume) {
    for _ in 0..400 {
        if pending_intents(volume).await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!(
        "{} intents are still pending",
        pending_intents(volume).await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_deletes_pending_for_a_lost_server_do_not_delay_the_others() {
    const FILES: usize = 1100;
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    on(&volume, "/here", 0).await;
    on(&volume, "/there", 1).await;
    let creates = (0..FILES).map(|n| {
        let volume = &volume;
        async move { on(volume, &format!("/f{n}"), 1).await }
    });
    let mut creates: Vec<_> = creates.collect();
    while !creates.is_empty() {
        let some = creates.split_off(creates.len().saturating_sub(32));
        futures_util::future::join_all(some).await;
    }
    test.stop_server(1).await;
    for n in 0..FILES {
        volume.unlink(&format!("/f{n}")).await.unwrap();
    }
    volume.truncate("/here", 10).await.unwrap();
    assert_eq!(volume.stat("/here").await.unwrap().size, 10);
    volume.make_checkpoint("/here", "c").await.unwrap();
    on(&volume, "/more", 0).await;
    volume.unlink("/more").await.unwrap();
    let error = volume.truncate("/there", 10).await.unwrap_err();
    assert!(error.to_string().contains("server 1"), "{error}");
    assert!(pending_intents(&volume).await > FILES as u64);
    test.start_server(1).await;
    until_none_is_pending(&volume).await;
    assert_eq!(volume.stat("/there").await.unwrap().size, 10);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_accepts_connections_and_never_answers_delays_only_its_intents() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    for n in 0..4 {
        on(&volume, &format!("/here{n}"), 0).await;
    }
    on(&volume, "/there", 1).await;
    test.stop_server(1).await;
    let mute = tokio::net::TcpListener::bind(&test.addresses[1])
        .await
        .unwrap();
    volume.unlink("/there").await.unwrap();
    // The metadata service has connected to the mute server.
    let (asked, _) = mute.accept().await.unwrap();
    for n in 0..4 {
        let began = Instant::now();
        volume.truncate(&format!("/here{n}"), 10).await.unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(pending_intents(&volume).await, 1);
    drop((asked, mute));
    test.start_server(1).await;
    until_none_is_pending(&volume).await;
    test.stop().await;
}
