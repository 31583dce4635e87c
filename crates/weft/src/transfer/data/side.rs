//! The two sides of a transfer: a local file and a view. Offsets count from the transfer's first
//! byte.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustix::fs::Advice;
use weft_client::{DataRanges, OpenView};
use weft_layout::{FileOffset, Location, ViewOffset};

use super::hole::{gaps, punch};
use crate::copy::local;
use crate::copy::zeros::{BLOCK, runs};
use crate::limits::{CLEAR_BYTES_MAX, REMOTE_HOLE_MIN, REMOTE_ZEROS_MIN};
use crate::remote::RemotePath;
use crate::streams::{Buffer, ZeroedReader, blocking};
use crate::transfer::args::TransferArgs;

/// A local file or a view. Cheap to clone.
#[derive(Clone)]
pub(in crate::transfer) enum Side {
    Local(Local),
    View(View),
}

/// A local file.
#[derive(Clone)]
pub(in crate::transfer) struct Local {
    pub(in crate::transfer) file: Arc<File>,
    pub(in crate::transfer) name: Arc<str>,
}

/// A view from some offset on.
#[derive(Clone)]
pub(in crate::transfer) struct View {
    open: Arc<OpenView>,
    reader: Arc<ZeroedReader>,
    start: u64,
    /// The view is the whole file in canonical order, so its holes are known.
    canonical: bool,
    /// All of it is one access.
    whole: bool,
    name: Arc<str>,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::transfer) struct Written {
    /// Bytes that were written.
    pub(in crate::transfer) bytes: u64,
    /// Bytes that fell on ghosts.
    pub(in crate::transfer) ghosts: u64,
}

/// Where a side may hold data.
pub(in crate::transfer) enum Ranges {
    Local(Local),
    View(Box<DataRanges>, u64),
    Everything,
}

impl View {
    /// The view that these options choose of a file of this path.
    pub(in crate::transfer) fn new(
        view: Arc<OpenView>,
        args: &TransferArgs,
        path: &RemotePath,
    ) -> View {
        View {
            reader: Arc::new(ZeroedReader::new(view.clone())),
            open: view,
            start: args.view.start(),
            canonical: args.view.is_canonical(),
            whole: args.view.one_access(),
            name: path.to_string().into(),
        }
    }
}

impl Side {
    /// For messages.
    pub(in crate::transfer) fn name(&self) -> &str {
        match self {
            Side::Local(local) => &local.name,
            Side::View(view) => &view.name,
        }
    }

    /// The ranges that may hold data, at or after `at`.
    pub(in crate::transfer) fn ranges(&self, at: u64) -> Ranges {
        match self {
            Side::Local(local) => Ranges::Local(local.clone()),
            Side::View(view) if view.canonical => {
                let from = FileOffset(view.start + at);
                let ranges = view.open.file().data_ranges(from, REMOTE_HOLE_MIN);
                Ranges::View(Box::new(ranges), view.start)
            }
            Side::View(_) => Ranges::Everything,
        }
    }

    /// Fills the buffer from `at` on; ranges without data are zeros.
    pub(in crate::transfer) async fn read(&self, at: u64, mut buffer: Buffer) -> Result<Buffer> {
        match self {
            Side::Local(local) => {
                let (file, length) = (local.file.clone(), buffer.len());
                let read = blocking(move || {
                    let got = local::read(&file, at, &mut buffer)?;
                    Ok((buffer, got))
                });
                let (buffer, got) = read
                    .await
                    .with_context(|| format!("cannot read {}", local.name))?;
                if got < length {
                    bail!(
                        "{} was truncated to {} bytes while it was read: copy it again",
                        local.name,
                        at + got as u64
                    );
                }
                Ok(buffer)
            }
            Side::View(view) => {
                view.reader.fill(view.start + at, &mut buffer).await?;
                Ok(buffer)
            }
        }
    }

    /// Writes all but long runs of zeros. `old`: these are cleared, as old data may lie there.
    /// `last`: the last byte is always written.
    pub(in crate::transfer) async fn write(
        &self,
        at: u64,
        buffer: Buffer,
        old: bool,
        last: bool,
    ) -> Result<Written> {
        let hole = match self {
            Side::Local(_) => BLOCK,
            Side::View(view) if view.whole => usize::MAX,
            Side::View(_) => REMOTE_ZEROS_MIN,
        };
        let length = buffer.len();
        let mut runs = runs(&buffer, hole);
        if last && runs.last().is_none_or(|run| run.end < length) {
            runs.push(length - 1..length);
        }
        let mut written = Written {
            bytes: runs.iter().map(|run| run.len() as u64).sum(),
            ghosts: 0,
        };
        let gaps = if old { gaps(&runs, length) } else { Vec::new() };
        match self {
            Side::Local(local) => {
                let file = local.file.clone();
                let write = blocking(move || {
                    for run in runs {
                        file.write_all_at(&buffer[run.clone()], at + run.start as u64)?;
                    }
                    for gap in gaps {
                        punch(&file, at + gap.start as u64, gap.len() as u64)?;
                    }
                    Ok(())
                });
                write
                    .await
                    .with_context(|| format!("cannot write {}", local.name))?;
            }
            Side::View(view) => {
                let data = buffer.freeze();
                let place = |offset: usize| ViewOffset(view.start + at + offset as u64);
                for run in runs {
                    let bytes = data.slice(run.clone());
                    let moved = view.open.write_at(place(run.start), bytes).await?;
                    let ghosts = (run.len() as u64).saturating_sub(moved);
                    written.bytes -= ghosts;
                    written.ghosts += ghosts;
                }
                for gap in gaps {
                    view.open.clear(place(gap.start), gap.len() as u64).await?;
                }
            }
        }
        Ok(written)
    }

    /// Whether a byte falls on a ghost. In an order that exists only within one access, this is not
    /// known.
    pub(in crate::transfer) fn is_ghost(&self, at: u64) -> bool {
        let Side::View(view) = self else {
            return false;
        };
        let map = view.open.map();
        !map.rearranges() && matches!(map.locate(ViewOffset(view.start + at)), Ok(Location::Ghost))
    }

    /// Clears a range where old data may lie.
    pub(in crate::transfer) async fn clear(&self, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let now = (range.end - at).min(CLEAR_BYTES_MAX);
            match self {
                Side::Local(local) => {
                    let file = local.file.clone();
                    blocking(move || punch(&file, at, now))
                        .await
                        .with_context(|| format!("cannot clear a range of {}", local.name))?;
                }
                Side::View(view) => view.open.clear(ViewOffset(view.start + at), now).await?,
            }
            at += now;
        }
        Ok(())
    }

    /// Syncs what was written, so that it survives power loss.
    pub(in crate::transfer) async fn sync(&self) -> Result<()> {
        match self {
            Side::Local(local) => {
                let file = local.file.clone();
                blocking(move || file.sync_data())
                    .await
                    .with_context(|| format!("cannot sync {}", local.name))
            }
            Side::View(view) => Ok(view.open.file().sync().await?),
        }
    }

    /// Drops a synced range from the page cache, so that reading it again reads the disk.
    pub(in crate::transfer) async fn forget(&self, range: Range<u64>) -> Result<()> {
        if let Side::Local(local) = self
            && let Some(length) = std::num::NonZero::new(range.end - range.start)
        {
            let file = local.file.clone();
            let advise = move || {
                // Only advice: a file system may ignore it.
                let _ = rustix::fs::fadvise(&file, range.start, Some(length), Advice::DontNeed);
                Ok(())
            };
            blocking(advise).await?;
        }
        Ok(())
    }
}

impl Ranges {
    /// The first range at or after `at`, below `end`, that may hold data.
    pub(in crate::transfer) async fn next(
        &mut self,
        at: u64,
        end: u64,
    ) -> Result<Option<Range<u64>>> {
        if at >= end {
            return Ok(None);
        }
        match self {
            Ranges::Everything => Ok(Some(at..end)),
            Ranges::Local(local) => {
                let file = local.file.clone();
                blocking(move || local::next_data(&file, at, end))
                    .await
                    .with_context(|| format!("cannot find the holes of {}", local.name))
            }
            Ranges::View(ranges, start) => {
                while let Some(range) = ranges.next().await? {
                    let from = range.start.saturating_sub(*start).max(at);
                    let to = range.end.saturating_sub(*start).min(end);
                    if from >= end {
                        break;
                    }
                    if from < to {
                        return Ok(Some(from..to));
                    }
                }
                Ok(None)
            }
        }
    }
}
