//! Creates, stats and removes per second, beside what the engine can make durable.

use std::time::Instant;

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use weft_client::{Access, Error, Volume};
use weft_kv::{FjallKv, FjallOptions, OrderedKv, Space};

use crate::show;
use crate::volume::{Setting, block_on};

pub(crate) fn run(setting: &Setting, files: usize) -> Result<()> {
    for depth in [1, 16, 64] {
        let mut results: Vec<(&str, Vec<f64>)> = ["create", "stat", "remove", "engine"]
            .map(|name| (name, Vec::new()))
            .into();
        let running = setting.volume(4, "64 MiB")?;
        block_on(async {
            let volume = running.connect().await?;
            for run in 0..setting.runs {
                let folder = format!("/{run}");
                volume.make_directory(&folder, 0o755).await?;
                let path = |i: usize| format!("{folder}/{i}");
                let create = |volume: Volume, path: String| async move {
                    volume
                        .attach(path, Access::read().create_new(0o644))
                        .await?
                        .close()
                        .await
                };
                let stat = |volume: Volume, path: String| async move {
                    volume.stat(path).await.map(|_| ())
                };
                let remove = |volume: Volume, path: String| async move {
                    volume.unlink(path).await.map(|_| ())
                };
                results[0]
                    .1
                    .push(each(&volume, files, depth, &path, create).await?);
                results[1]
                    .1
                    .push(each(&volume, files, depth, &path, stat).await?);
                results[2]
                    .1
                    .push(each(&volume, files, depth, &path, remove).await?);
                results[3].1.push(engine(setting, files, depth)?);
            }
            anyhow::Ok(())
        })?;
        println!("{depth} calls in flight:");
        show("create and close, durable", "/s", &results[0].1);
        show("stat", "/s", &results[1].1);
        show("remove, durable", "/s", &results[2].1);
        show(
            &format!("engine: one put per commit, sync per {depth}"),
            "/s",
            &results[3].1,
        );
    }
    Ok(())
}

async fn each<F>(
    volume: &Volume,
    files: usize,
    depth: usize,
    path: &impl Fn(usize) -> String,
    operation: impl Fn(Volume, String) -> F,
) -> Result<f64>
where
    F: Future<Output = Result<(), Error>>,
{
    let started = Instant::now();
    stream::iter(0..files)
        .map(|i| operation(volume.clone(), path(i)))
        .buffer_unordered(depth)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(files as f64 / started.elapsed().as_secs_f64())
}

/// Durable commits per second of the engine alone, `depth` sharing a sync.
fn engine(setting: &Setting, files: usize, depth: usize) -> Result<f64> {
    let folder = tempfile::Builder::new()
        .prefix("weft-bench-")
        .tempdir_in(&setting.folder)?;
    let kv = FjallKv::open(folder.path().join("kv"), FjallOptions::default())?;
    let space = Space("bench");
    let started = Instant::now();
    for i in 0..files {
        kv.transact(&mut |txn| {
            txn.put(space, &i.to_be_bytes(), &[1; 100]);
            Ok(())
        })?;
        if i % depth == depth - 1 {
            kv.sync()?;
        }
    }
    kv.sync()?;
    Ok(files as f64 / started.elapsed().as_secs_f64())
}
