//! The source file of a copy.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};
use weft_client::{Access, DataRanges};
use weft_layout::FileOffset;

use super::tree::Tree;
use crate::copy::local;
use crate::limits::{DATA_RANGES_FILE_MIN, REMOTE_HOLE_MIN, SMALL_FILE_BYTES};
use crate::remote::reach;
use crate::streams::{Buffer, ZeroedReader, blocking};

/// An open file to read from.
pub(super) enum Source {
    Local(Arc<File>),
    Weft {
        file: weft_client::File,
        reader: Arc<ZeroedReader>,
        /// `None`: the whole file counts as data.
        data: Option<DataRanges>,
    },
}

impl Source {
    pub(super) async fn open(tree: &Tree, path: &[u8]) -> Result<(Source, u64)> {
        match tree {
            Tree::Local => {
                let opened = local::at(path, |place| {
                    let file = File::open(place)?;
                    let size = file.metadata()?.len();
                    Ok((file, size))
                });
                let (file, size) = opened
                    .await
                    .with_context(|| format!("cannot read {}", tree.show(path)))?;
                Ok((Source::Local(Arc::new(file)), size))
            }
            Tree::Weft(volume) => {
                let place = reach(volume, path).await?;
                let file = volume.attach(place, Access::read()).await?;
                let attributes = file.attributes();
                let size = if attributes.size_exact {
                    attributes.size
                } else {
                    file.size().await?
                };
                let data = (size >= DATA_RANGES_FILE_MIN)
                    .then(|| file.data_ranges(FileOffset(0), REMOTE_HOLE_MIN));
                let reader = Arc::new(ZeroedReader::new(Arc::new(file.canonical()?)));
                Ok((Source::Weft { file, reader, data }, size))
            }
        }
    }

    /// The first range at or after `at` that may hold data; `at` is 0, then where the last range
    /// ended.
    pub(super) async fn next_data(&mut self, at: u64, size: u64) -> Result<Option<Range<u64>>> {
        match self {
            // Holes do not matter in a file of one small piece.
            Source::Local(_) if size <= SMALL_FILE_BYTES as u64 => {
                Ok((at < size).then_some(at..size))
            }
            Source::Local(file) => {
                let file = file.clone();
                Ok(blocking(move || local::next_data(&file, at, size)).await?)
            }
            Source::Weft { data: None, .. } => Ok((at < size).then_some(at..size)),
            Source::Weft {
                data: Some(data), ..
            } => {
                let range = data.next().await?;
                Ok(range
                    .map(|r| r.start..r.end.min(size))
                    .filter(|r| !r.is_empty()))
            }
        }
    }

    /// Whether the size says how much there is to read: a local file of size 0 may be generated as
    /// it is read.
    pub(super) fn states_size(&self, size: u64) -> bool {
        size > 0 || matches!(self, Source::Weft { .. })
    }

    /// How long a file of `size` bytes turned out to be when all of it was read, and whether that
    /// is because it was truncated. `short`: the first byte that a read did not find.
    pub(super) async fn end(&self, size: u64, short: Option<u64>) -> Result<(u64, bool)> {
        match self {
            // One read, which found everything.
            Source::Local(_) if short.is_none() && size <= SMALL_FILE_BYTES as u64 => {
                Ok((size, false))
            }
            Source::Local(file) => {
                let file = file.clone();
                Ok(blocking(move || local::end(&file, size, short)).await?)
            }
            // Every range was read, and no read was short.
            Source::Weft { data, reader, .. }
                if data.is_none() && short.is_none() && !reader.came_short() =>
            {
                Ok((size, false))
            }
            Source::Weft { file, .. } => {
                let now = file.stat().await?.size;
                Ok((now.min(size), now < size))
            }
        }
    }

    pub(super) fn fetch(&self) -> Fetch {
        match self {
            Source::Local(file) => Fetch::Local(file.clone()),
            Source::Weft { reader, .. } => Fetch::Weft(reader.clone()),
        }
    }

    pub(super) async fn close(self) -> Result<()> {
        if let Source::Weft { file, .. } = self {
            file.close().await?;
        }
        Ok(())
    }
}

/// Fetches pieces.
pub(super) enum Fetch {
    Local(Arc<File>),
    Weft(Arc<ZeroedReader>),
}

impl Fetch {
    /// Fills the buffer. Returns it with the number of bytes read.
    pub(super) async fn run(&self, offset: u64, mut buffer: Buffer) -> Result<(Buffer, usize)> {
        match self {
            Fetch::Local(file) => {
                let file = file.clone();
                let read = blocking(move || {
                    let got = local::read(&file, offset, &mut buffer)?;
                    Ok((buffer, got))
                });
                Ok(read.await?)
            }
            Fetch::Weft(reader) => {
                reader.fill(offset, &mut buffer).await?;
                let got = buffer.len();
                Ok((buffer, got))
            }
        }
    }
}
