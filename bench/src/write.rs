//! One client writing a new file, and a sync.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use weft_client::{Access, NewLayout, Volume};
use weft_layout::ViewOffset;

use crate::volume::{Setting, block_on};
use crate::{disk, share, show};

const REQUEST: u64 = 1 << 20;

pub(crate) fn run(setting: &Setting, mib: u64, depth: usize) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("weft-bench-")
        .tempdir_in(&setting.folder)?;
    let (mut weft, mut direct, mut buffered) = (Vec::new(), Vec::new(), Vec::new());
    for servers in [4, 1] {
        let running = setting.volume(servers, "256 MiB")?;
        block_on(async {
            let volume = running.connect().await?;
            // Once for the memory of caches and buffers: the first touch of a page is not what is
            // measured.
            write_all(&volume, servers, "/warm-up", mib, depth).await?;
            for run in 0..setting.runs {
                // Nothing is removed in between: a file system that discards would charge it to
                // the next sync.
                let name = format!("{servers}-{run}");
                direct.push(disk::direct_write(
                    &folder.path().join(format!("direct-{name}")),
                    mib,
                    depth,
                )?);
                weft.push(write_all(&volume, servers, &format!("/{run}"), mib, depth).await?);
                buffered.push(disk::buffered_write(&folder.path().join(name), mib)?);
            }
            anyhow::Ok(())
        })?;
        println!("{servers} servers on one disk:");
        show(
            &format!("direct I/O, 1 MiB, {depth} in flight, sync"),
            "MiB/s",
            &direct,
        );
        show("local file system, page cache, sync", "MiB/s", &buffered);
        show(
            &format!("weft, 1 MiB requests, {depth} in flight, sync"),
            "MiB/s",
            &weft,
        );
        share("share of direct I/O (aim 70 %)", &weft, &direct);
        share(
            "against the local file system (aim 100 %)",
            &weft,
            &buffered,
        );
        for values in [&mut weft, &mut direct, &mut buffered] {
            values.clear();
        }
    }
    Ok(())
}

async fn write_all(
    volume: &Volume,
    servers: u32,
    path: &str,
    mib: u64,
    depth: usize,
) -> Result<f64> {
    let layout = NewLayout {
        cells: Some(servers),
        bsu: Some(256 << 10),
        ..NewLayout::default()
    };
    let access = Access::write().create_new(0o644).layout(&layout);
    let file = volume.attach(path, access).await?;
    let view = &file.canonical()?;
    let data = &Bytes::from(vec![9; REQUEST as usize]);
    let started = Instant::now();
    stream::iter(0..mib)
        .map(|i| async move { view.write_at(ViewOffset(i * REQUEST), data.clone()).await })
        .buffer_unordered(depth)
        .try_collect::<Vec<u64>>()
        .await?;
    file.sync().await?;
    let rate = mib as f64 / started.elapsed().as_secs_f64();
    file.close().await?;
    Ok(rate)
}
