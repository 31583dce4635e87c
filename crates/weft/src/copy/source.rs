//! A file that is copied from.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};
use weft_client::Access;
use weft_layout::CellIndex;

use super::data::SMALL;
use super::local::{self, blocking};
use super::tree::Tree;
use crate::buffers::Buffer;
use crate::stream::ZeroedReader;

/// From this size on a file of a volume is asked where its data ends.
const ASK_FOR_END: u64 = 64 << 20;

/// An open file to read from.
pub(super) enum Source {
    Local(Arc<File>),
    Weft {
        file: weft_client::File,
        reader: Arc<ZeroedReader>,
        data_end: u64,
    },
}

impl Source {
    pub(super) async fn open(tree: &Tree, path: &[u8]) -> Result<(Source, u64)> {
        match tree {
            Tree::Local => {
                let place = local::path(path);
                let opened = blocking(move || {
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
                let file = volume.attach(path, Access::read()).await?;
                let attributes = file.attributes();
                let size = if attributes.size_exact {
                    attributes.size
                } else {
                    file.size().await?
                };
                let data_end = if size < ASK_FOR_END {
                    size
                } else {
                    data_end(&file).await?.min(size)
                };
                let reader = Arc::new(ZeroedReader::new(Arc::new(file.canonical()?)));
                Ok((
                    Source::Weft {
                        file,
                        reader,
                        data_end,
                    },
                    size,
                ))
            }
        }
    }

    pub(super) async fn next_data(&self, at: u64, size: u64) -> Result<Option<Range<u64>>> {
        match self {
            // Holes cannot matter in a file of one small piece.
            Source::Local(_) if size <= SMALL as u64 => Ok((at < size).then_some(at..size)),
            Source::Local(file) => {
                let file = file.clone();
                Ok(blocking(move || local::next_data(&file, at, size)).await?)
            }
            Source::Weft { data_end, .. } => Ok((at < *data_end).then_some(at..*data_end)),
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

/// One past the last canonical byte that a server keeps on disk: all behind it is a hole.
async fn data_end(file: &weft_client::File) -> Result<u64> {
    let grid = file.layout().grid();
    let forks = file.forks().await?;
    let stored = forks.iter().filter(|f| f.fork == "data" && f.stored > 0);
    Ok(stored
        .map(|f| grid.file_size(CellIndex(f.cell), f.length))
        .max()
        .unwrap_or(0))
}

/// Fetches pieces.
pub(super) enum Fetch {
    Local(Arc<File>),
    Weft(Arc<ZeroedReader>),
}

impl Fetch {
    /// Fills the buffer; says how much there was.
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
