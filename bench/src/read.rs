//! One client reading from the servers' memory.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use weft_client::{Access, NewLayout, OpenView};
use weft_layout::ViewOffset;

use crate::volume::{Setting, block_on};
use crate::{plain, share, show};

const REQUEST: u64 = 1 << 20;

pub(crate) fn run(setting: &Setting, mib: u64, depth: usize) -> Result<()> {
    let running = setting.volume(4, "640 MiB")?;
    let (mut weft, mut tcp) = (Vec::new(), Vec::new());
    block_on(async {
        let volume = running.connect().await?;
        let layout = NewLayout {
            cells: Some(4),
            bsu: Some(256 << 10),
            ..NewLayout::default()
        };
        let access = Access::read_write().create_new(0o644).layout(&layout);
        let file = volume.attach("/file", access).await?;
        let view = file.canonical()?;
        let data = Bytes::from(vec![3; REQUEST as usize]);
        for i in 0..mib {
            view.write_at(ViewOffset(i * REQUEST), data.clone()).await?;
        }
        file.sync().await?;
        // Once for the servers' caches and the client's buffers.
        read_all(&view, mib, depth).await?;
        for _ in 0..setting.runs {
            weft.push(read_all(&view, mib, depth).await?);
            tcp.push(plain::receive(mib)?);
        }
        anyhow::Ok(())
    })?;
    show("plain TCP stream, two processes", "MiB/s", &tcp);
    show(
        &format!("weft, 1 MiB requests, {depth} in flight"),
        "MiB/s",
        &weft,
    );
    share("share (aim 60 %)", &weft, &tcp);
    Ok(())
}

/// Reads the file once; MiB per second.
async fn read_all(view: &OpenView, mib: u64, depth: usize) -> Result<f64> {
    let started = Instant::now();
    // Each lane has one buffer and reads every `depth`-th MiB into it.
    let lanes = stream::iter(0..depth as u64).map(|lane| async move {
        let mut buffer = vec![1; REQUEST as usize];
        for i in (lane..mib).step_by(depth) {
            let moved = view.read_at(ViewOffset(i * REQUEST), &mut buffer).await?;
            anyhow::ensure!(moved == REQUEST, "{moved} bytes at {i} MiB");
        }
        anyhow::Ok(())
    });
    lanes
        .buffer_unordered(depth)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(mib as f64 / started.elapsed().as_secs_f64())
}
