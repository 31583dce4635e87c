//! The Rust examples of `docs/requests.md` compile and do the same as its commands.

use crate::common;

use std::path::Path;

use bytes::Bytes;
use common::TestVolume;
use futures_util::future::try_join_all;
use weft_client::{Access, Error, Group, NewLayout, OpenView, Transfer};
use weft_layout::{Pattern, ViewOffset};

/// The page without white space.
fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/requests.md");
    plain(&std::fs::read_to_string(page).unwrap())
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Evaluates an expression that the page must contain literally.
macro_rules! shown {
    ($expression:expr) => {{
        let text = plain(stringify!($expression));
        assert!(page().contains(&text), "the page does not have {text}");
        $expression
    }};
}

async fn read(view: &OpenView, transfer: Transfer, length: usize) -> String {
    let mut memory = vec![b'.'; length];
    view.read_with(&transfer, &mut memory).await.unwrap();
    String::from_utf8(memory).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_patterns_of_requests_md_match_its_commands() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let layout = NewLayout {
        cells: Some(3),
        bsu: Some(4),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach("/letters", access).await.unwrap();
    let view = file.canonical().unwrap();
    let letters = Bytes::from_static(b"abcdefghijklmnopqrstuvwxyz");
    view.write_at(ViewOffset(0), letters).await.unwrap();

    let patterns = [
        (shown!(Pattern::bytes(5)), "abcde"),
        (shown!(Pattern::bytes(2).every(5).times(5)), "abfgklpquv"),
        (
            shown!(Pattern::bytes(1).every(2).times(3).every(8).times(3)),
            "aceikmqsu",
        ),
        (
            shown!(
                Pattern::bytes(2)
                    .then(4, Pattern::bytes(1))
                    .every(8)
                    .times(3)
            ),
            "abeijmqru",
        ),
        (shown!(Pattern::list([(20, 3), (0, 2), (7, 1)])), "uvwabh"),
    ];
    for (pattern, expected) in patterns {
        assert!(
            page().contains(expected),
            "the page does not print {expected}"
        );
        let found = read(&view, Transfer::of(pattern), expected.len()).await;
        assert_eq!(found, expected);
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_transfer_and_collective_of_requests_md_work_as_described() -> Result<(), Error> {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let access = Access::read_write().create_new(0o644);
    let file = volume.attach("/records", access).await?;
    let view = file.canonical()?;
    let content: Vec<u8> = (0..256_000_u32).map(|i| (i / 64) as u8).collect();
    view.write_at(ViewOffset(0), content.clone().into()).await?;

    let records = shown!(
        Transfer::of(Pattern::bytes(64).every(256).times(1000))
            .at(ViewOffset(128))
            .in_memory(Pattern::bytes(64).every(80).times(1000))
    );
    let mut memory = vec![255; 80 * 1000];
    shown!(view.read_with(&records, &mut memory).await?);
    for (i, place) in memory.chunks(80).enumerate() {
        let from = 128 + 256 * i;
        assert_eq!(place[..64], content[from..from + 64], "record {i}");
        assert!(place[64..].iter().all(|byte| *byte == 255));
    }

    let woven = volume
        .attach("/woven", Access::read_write().create_new(0o644))
        .await?;
    let weave = |k: u32| {
        let woven = &woven;
        async move {
            let view = woven.canonical()?;
            let data = Bytes::from(vec![b'0' + k as u8; 4]);
            let group = shown!(Group::new("weave", 3, k));
            let k = u64::from(k);
            shown!(
                view.collective(&group)
                    .write(
                        &Transfer::of(Pattern::bytes(1).every(3).times(4)).at(ViewOffset(k)),
                        data
                    )
                    .await?
            );
            Ok::<_, Error>(())
        }
    };
    try_join_all((0..3).map(weave)).await?;
    let whole = read(&woven.canonical()?, Transfer::of(Pattern::bytes(12)), 12).await;
    assert_eq!(whole, "012012012012");
    test.stop().await;
    Ok(())
}
