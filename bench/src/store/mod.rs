//! One server on one disk beside direct I/O to that disk, in interleaved rounds: what the store
//! costs.

mod checkpoint;
mod large;
mod rewrite;
mod small;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Result;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use weft_client::{Access, File, NewLayout, OpenView, Volume};
use weft_layout::ViewOffset;

use crate::volume::{Running, Setting, block_on};
use crate::{share, show};

/// The server's memory for data: little, so that what is read is not in it.
const CACHE: &str = "64 MiB";
const MIB: u64 = 1 << 20;

/// What to measure, and how much.
pub(crate) struct Amount {
    /// MiB of a file.
    pub(crate) mib: u64,
    /// Small accesses of each kind.
    pub(crate) small: u64,
    /// MiB of large accesses that are in flight.
    pub(crate) in_flight: u64,
    /// Chunks of the long file that a checkpoint is made of; 0: none.
    pub(crate) chunks: u64,
}

impl Amount {
    /// Requests of so many bytes that are in flight together.
    fn depth(&self, size: u64) -> usize {
        (self.in_flight * MIB / size).clamp(1, 1024) as usize
    }
}

/// One of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Whole files in order
    Large,
    /// 4 KiB here and there
    Small,
    /// What is there, written again
    Rewrite,
    /// Checkpoints of a short and of a long file
    Checkpoint,
}

pub(crate) fn run(setting: &Setting, amount: &Amount, only: &[Part]) -> Result<()> {
    let wanted = |part| only.is_empty() || only.contains(&part);
    let folder = tempfile::Builder::new()
        .prefix("weft-bench-")
        .tempdir_in(&setting.folder)?;
    let bench = Bench {
        running: setting.volume(1, CACHE)?,
        folder: folder.path().to_owned(),
        runs: setting.runs,
        names: AtomicU64::new(0),
    };
    block_on(async {
        let volume = bench.running.connect().await?;
        if wanted(Part::Large) {
            large::run(&bench, &volume, amount).await?;
        }
        if wanted(Part::Small) {
            small::run(&bench, &volume, amount).await?;
        }
        if wanted(Part::Rewrite) {
            rewrite::run(&bench, &volume, amount).await?;
        }
        anyhow::Ok(())
    })?;
    drop(bench);
    if amount.chunks > 0 && wanted(Part::Checkpoint) {
        checkpoint::run(setting, amount.chunks)?;
    }
    Ok(())
}

/// A server, and a folder on the same disk.
struct Bench {
    running: Running,
    folder: PathBuf,
    runs: usize,
    names: AtomicU64,
}

impl Bench {
    /// A name that nothing has yet.
    fn name(&self) -> String {
        format!("file-{}", self.names.fetch_add(1, Relaxed))
    }

    /// A new file on the server.
    async fn file(&self, volume: &Volume, chunk: Option<u32>) -> Result<File> {
        let layout = NewLayout {
            cells: Some(1),
            chunk,
            ..NewLayout::default()
        };
        let access = Access::read_write().create_new(0o644).layout(&layout);
        Ok(volume.attach(format!("/{}", self.name()), access).await?)
    }
}

/// Writes pieces of `size` bytes in order, `depth` at a time, and syncs; MiB per second.
async fn write_all(file: &File, bytes: u64, size: u64, depth: usize) -> Result<f64> {
    let (view, data) = (&file.canonical()?, &Bytes::from(vec![9; size as usize]));
    let started = std::time::Instant::now();
    stream::iter(0..bytes / size)
        .map(|i| async move { view.write_at(ViewOffset(i * size), data.clone()).await })
        .buffer_unordered(depth)
        .try_collect::<Vec<u64>>()
        .await?;
    file.sync().await?;
    Ok(bytes as f64 / MIB as f64 / started.elapsed().as_secs_f64())
}

/// Reads `size` bytes at each of some places, `depth` at a time; seconds.
async fn read_places(view: &OpenView, places: &[u64], size: usize, depth: usize) -> Result<f64> {
    let started = std::time::Instant::now();
    // Each lane has one buffer.
    let lanes = stream::iter(0..depth).map(|lane| async move {
        let mut buffer = vec![1; size];
        for at in places.iter().skip(lane).step_by(depth) {
            let reading = view.post_read_at(ViewOffset(*at), std::mem::take(&mut buffer));
            let read = reading.wait().await?;
            anyhow::ensure!(read.bytes == size as u64, "{} bytes at {at}", read.bytes);
            buffer = read.buffer;
        }
        anyhow::Ok(())
    });
    lanes
        .buffer_unordered(depth)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(started.elapsed().as_secs_f64())
}
