//! Checkpoints of a short file and of one with many chunks, across servers.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use weft_client::{Access, NewLayout, Transfer, Volume};
use weft_layout::{Pattern, ViewOffset};

use super::{CACHE, share, show};
use crate::volume::{Setting, block_on};

const SERVERS: u32 = 4;
const LENGTH: u64 = 1 << 40;
/// Pieces of one call.
const AT_ONCE: u64 = 4096;

pub(super) fn run(setting: &Setting, chunks: u64) -> Result<()> {
    let running = setting.volume(SERVERS, CACHE)?;
    let (mut short, mut long) = (Vec::new(), Vec::new());
    block_on(async {
        let volume = running.connect().await?;
        fill(&volume, "/short", 16, 1 << 20).await?;
        fill(&volume, "/long", chunks, LENGTH).await?;
        for round in 0..=setting.runs.max(4) {
            for (path, times) in [("/short", &mut short), ("/long", &mut long)] {
                let (name, started) = (round.to_string(), Instant::now());
                volume.make_checkpoint(path, &name).await?;
                if round > 0 {
                    times.push(started.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        anyhow::Ok(())
    })?;
    show("checkpoint of 1 MiB, 4 servers (aim < 50 ms)", "us", &short);
    let what = format!("checkpoint of 1 TiB, {chunks} chunks (aim < 50 ms)");
    show(&what, "us", &long);
    share("the long file against the short (aim 200 %)", &long, &short);
    Ok(())
}

/// A byte in each of as many chunks of 64 KiB.
async fn fill(volume: &Volume, path: &str, chunks: u64, length: u64) -> Result<()> {
    let layout = NewLayout {
        chunk: Some(65_536),
        bsu: Some(65_536),
        cells: Some(SERVERS),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach(path, access).await?;
    let view = file.canonical()?;
    let stride = length / chunks;
    let mut at = 0;
    while at < chunks {
        let now = AT_ONCE.min(chunks - at);
        let pattern = Pattern::bytes(1).every(stride.cast_signed()).times(now);
        let transfer = Transfer::of(pattern).at(ViewOffset(at * stride));
        view.write_with(&transfer, Bytes::from(vec![1; now as usize]))
            .await?;
        at += now;
    }
    file.sync().await?;
    file.close().await?;
    Ok(())
}
