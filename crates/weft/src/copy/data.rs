//! The bytes of one file, from where it is to where it goes: pieces of 4 MiB, several in flight, holes left out.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use weft_client::{Access, NewLayout, OpenView, Volume};
use weft_layout::{CellIndex, ViewOffset};

use super::local::{self, blocking};
use super::tree::{Node, Tree};
use super::{Copy, Job};
use crate::buffers::Buffer;
use crate::stream::{ZeroedReader, panicked};

/// Bytes of a piece; pieces end at multiples of it.
pub(super) const PIECE: usize = 4 << 20;
/// Files up to this are one piece in a small buffer.
pub(super) const SMALL: usize = 256 << 10;
/// Pieces of one file in flight.
const DEPTH: usize = 8;
/// What is looked at to find zeros.
const BLOCK: usize = 4096;
/// Zeros from this length on are left out of writes to a volume: a request costs about as much as its bytes.
const REMOTE_HOLE: usize = 64 << 10;
/// From this size on a file of a volume is asked where its data ends.
const ASK_FOR_END: u64 = 64 << 20;

/// An open file to read from.
enum Source {
    Local(Arc<File>),
    Weft {
        file: weft_client::File,
        reader: Arc<ZeroedReader>,
        data_end: u64,
    },
}

/// An open file to write to.
enum Sink {
    Local(Arc<File>),
    Weft {
        file: weft_client::File,
        view: Arc<OpenView>,
    },
}

/// What was moved of a file.
#[derive(Clone, Copy, Default)]
struct Poured {
    /// Bytes that were read.
    bytes: u64,
    /// One past the last byte that was written.
    end: u64,
}

impl Poured {
    fn and(self, other: Poured) -> Poured {
        Poured {
            bytes: self.bytes + other.bytes,
            end: self.end.max(other.end),
        }
    }
}

/// Copies the content of one regular file. False if it was left alone because its name is taken.
pub(super) async fn copy(copy: &Arc<Copy>, job: &Job) -> Result<bool> {
    let (source, size) = Source::open(&copy.from, &job.from).await?;
    let Some(sink) = Sink::create(copy, job, &source).await? else {
        return Ok(false);
    };
    let poured = source.pour(&sink, size, copy).await;
    let poured = poured.with_context(|| {
        format!(
            "cannot copy {} to {}",
            copy.from.show(&job.from),
            copy.to.show(&job.to)
        )
    })?;
    copy.bar.inc(size.saturating_sub(poured.bytes));
    sink.close(&copy.to.show(&job.to), size, poured.end).await?;
    source.close().await?;
    copy.tally.bytes(size);
    Ok(true)
}

impl Source {
    async fn open(tree: &Tree, path: &[u8]) -> Result<(Source, u64)> {
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

    /// Moves all data.
    async fn pour(&self, sink: &Sink, size: u64, copy: &Arc<Copy>) -> Result<Poured> {
        let buffers = if size <= SMALL as u64 {
            &copy.small
        } else {
            &copy.large
        };
        let _stream = if size <= SMALL as u64 {
            None
        } else {
            Some(
                copy.streams
                    .acquire()
                    .await
                    .expect("the semaphore is never closed"),
            )
        };
        let (mut at, mut poured) = (0, Poured::default());
        let mut moving = FuturesUnordered::new();
        while let Some(range) = self.next_data(at, size).await? {
            at = range.start;
            while at < range.end {
                let piece = PIECE as u64;
                let end = range.end.min((at / piece + 1) * piece);
                let mut buffer = buffers.take((end - at) as usize).await;
                let (fetch, store, bar) = (self.fetch(), sink.store(), copy.bar.clone());
                let start = at;
                let work = async move {
                    let got;
                    (buffer, got) = fetch.run(start, buffer).await?;
                    buffer.truncate(got);
                    let end = store.run(start, buffer).await?;
                    bar.inc(got as u64);
                    Ok::<_, anyhow::Error>(Poured {
                        bytes: got as u64,
                        end,
                    })
                };
                if size <= SMALL as u64 {
                    poured = poured.and(work.await?);
                } else {
                    moving.push(tokio::spawn(work));
                }
                at = end;
                if moving.len() >= DEPTH
                    && let Some(done) = moving.next().await
                {
                    poured = poured.and(done.map_err(|e| panicked(&e))??);
                }
            }
        }
        while let Some(done) = moving.next().await {
            poured = poured.and(done.map_err(|e| panicked(&e))??);
        }
        Ok(poured)
    }

    async fn next_data(&self, at: u64, size: u64) -> Result<Option<Range<u64>>> {
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

    fn fetch(&self) -> Fetch {
        match self {
            Source::Local(file) => Fetch::Local(file.clone()),
            Source::Weft { reader, .. } => Fetch::Weft(reader.clone()),
        }
    }

    async fn close(self) -> Result<()> {
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
enum Fetch {
    Local(Arc<File>),
    Weft(Arc<ZeroedReader>),
}

impl Fetch {
    /// Fills the buffer; says how much there was.
    async fn run(&self, offset: u64, mut buffer: Buffer) -> Result<(Buffer, usize)> {
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

/// Stores pieces.
enum Store {
    Local(Arc<File>),
    Weft(Arc<OpenView>),
}

impl Store {
    /// Writes what is not zeros; returns one past the last byte written, 0 if nothing was.
    async fn run(&self, offset: u64, buffer: Buffer) -> Result<u64> {
        let hole = match self {
            Store::Local(_) => BLOCK,
            Store::Weft(_) => REMOTE_HOLE,
        };
        let runs = runs(&buffer, hole);
        let end = runs.last().map_or(0, |run| offset + run.end as u64);
        match self {
            Store::Local(file) => {
                let file = file.clone();
                let write = blocking(move || {
                    runs.into_iter().try_for_each(|run| {
                        file.write_all_at(&buffer[run.clone()], offset + run.start as u64)
                    })
                });
                write.await?;
            }
            Store::Weft(view) => {
                let data = buffer.freeze();
                for run in runs {
                    let at = ViewOffset(offset + run.start as u64);
                    view.write_at(at, data.slice(run)).await?;
                }
            }
        }
        Ok(end)
    }
}

impl Sink {
    /// Creates the file, or empties the one that is there; `None` if that is to be kept.
    async fn create(copy: &Copy, job: &Job, source: &Source) -> Result<Option<Sink>> {
        match &copy.to {
            Tree::Local => {
                let (place, keep) = (local::path(&job.to), copy.options.no_clobber);
                match blocking(move || local::create(&place, keep)).await {
                    Ok(file) => Ok(Some(Sink::Local(Arc::new(file)))),
                    Err(e) if keep && e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
                    Err(e) => {
                        Err(e).with_context(|| format!("cannot write {}", copy.to.show(&job.to)))
                    }
                }
            }
            Tree::Weft(volume) => Sink::create_in(volume, copy, job, source).await,
        }
    }

    async fn create_in(
        volume: &Volume,
        copy: &Copy,
        job: &Job,
        source: &Source,
    ) -> Result<Option<Sink>> {
        let mode = (job.node.mode | 0o200) & 0o777;
        let mut access = if copy.options.no_clobber {
            Access::write().create_new(mode)
        } else {
            Access::write().create(mode)
        };
        if copy.options.preserve {
            access = access.layout(&layout_of(&job.node));
        }
        let file = match volume.attach(&job.to, access).await {
            Ok(file) => file,
            Err(e) if copy.options.no_clobber && e.code() == weft_proto::Code::Exists => {
                return Ok(None);
            }
            Err(e) => return Err(e.into()),
        };
        if let Source::Weft { file: from, .. } = source
            && from.id() == file.id()
        {
            bail!(
                "{} and {} are the same file",
                copy.from.show(&job.from),
                copy.to.show(&job.to)
            );
        }
        let empty = file.attributes().size_exact && file.attributes().size == 0;
        if !file.created() && !empty {
            file.truncate(0).await?;
        }
        copy.note_servers(file.layout());
        let view = Arc::new(file.canonical()?);
        Ok(Some(Sink::Weft { file, view }))
    }

    fn store(&self) -> Store {
        match self {
            Sink::Local(file) => Store::Local(file.clone()),
            Sink::Weft { view, .. } => Store::Weft(view.clone()),
        }
    }

    /// Ends the file at `size`, also where it ends in a hole.
    async fn close(self, path: &str, size: u64, reached: u64) -> Result<()> {
        match self {
            Sink::Local(file) if reached < size => {
                let sized = blocking(move || file.set_len(size));
                sized
                    .await
                    .with_context(|| format!("cannot set the size of {path}"))
            }
            Sink::Local(_) => Ok(()),
            Sink::Weft { file, .. } => {
                if reached < size {
                    file.truncate(size).await?;
                }
                Ok(file.close().await?)
            }
        }
    }
}

/// What a copy of this file asks for to lie like it.
fn layout_of(node: &Node) -> NewLayout {
    node.layout
        .as_ref()
        .map_or_else(NewLayout::default, |layout| NewLayout {
            cells: Some(layout.cells),
            bsu: Some(layout.bsu),
            chunk: Some(layout.chunk),
            ..NewLayout::default()
        })
}

/// The ranges of `data` without zeros of `hole` bytes or more; what is left out is made of whole blocks.
fn runs(data: &[u8], hole: usize) -> Vec<Range<usize>> {
    if data.len() <= hole {
        return std::iter::once(0..data.len()).collect();
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (i, block) in data.chunks(BLOCK).enumerate() {
        if is_zero(block) {
            continue;
        }
        let (start, end) = (i * BLOCK, i * BLOCK + block.len());
        match runs.last_mut() {
            Some(run) if start - run.end < hole => run.end = end,
            _ => runs.push(if start < hole { 0..end } else { start..end }),
        }
    }
    if let Some(run) = runs.last_mut()
        && data.len() - run.end < hole
    {
        run.end = data.len();
    }
    runs
}

/// Whether all bytes are zero: a comparison with itself one byte on, which ends at the first that is not.
fn is_zero(block: &[u8]) -> bool {
    match block {
        [] => true,
        [first, rest @ ..] => *first == 0 && block[..rest.len()] == *rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_told_from_data_at_every_place() {
        assert!(is_zero(&[]) && is_zero(&[0]) && is_zero(&[0; 4096]));
        for at in [0, 1, 2047, 4095] {
            let mut block = [0; 4096];
            block[at] = 1;
            assert!(!is_zero(&block), "{at}");
        }
    }

    #[test]
    fn runs_leave_out_long_zeros_only() {
        let mut data = vec![0; 16 * BLOCK];
        assert!(runs(&data, BLOCK).is_empty());
        data[5 * BLOCK + 7] = 1;
        data[7 * BLOCK] = 1;
        let block = |a: usize, b: usize| a * BLOCK..b * BLOCK;
        assert_eq!(runs(&data, BLOCK), [block(5, 6), block(7, 8)]);
        let one = |hole| {
            let runs = runs(&data, hole);
            assert_eq!(runs.len(), 1);
            runs[0].clone()
        };
        assert_eq!(one(2 * BLOCK), block(5, 8));
        assert_eq!(one(6 * BLOCK), block(0, 8));
        assert_eq!(one(9 * BLOCK), block(0, 16));
        // What is no longer than a hole is always written.
        assert_eq!(runs(&[0; 100], BLOCK)[0], 0..100);
    }
}
