//! Copies the data of one file: pieces of 4 MiB, several in flight, without holes. Within a volume,
//! the servers copy large files among themselves.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use weft_client::File;
use weft_layout::FileOffset;

use super::context::{Copy, CopyJob};
use super::sink::{Left, Sink};
use super::source::Source;
use crate::limits::{
    COPY_PIECE_BYTES, COPY_PIECES_MAX, SERVER_COPIES_MAX, SERVER_COPY_BYTES, SMALL_FILE_BYTES,
};
use crate::streams::panicked;
use crate::terminal::interrupt;

/// How much of a file was copied.
#[derive(Clone, Copy, Default)]
struct CopiedData {
    /// Bytes that were read.
    bytes: u64,
    /// One past the last byte that was written.
    end: u64,
    /// The first byte that a read did not find, if one was short.
    short: Option<u64>,
}

impl CopiedData {
    fn and(self, other: CopiedData) -> CopiedData {
        CopiedData {
            bytes: self.bytes + other.bytes,
            end: self.end.max(other.end),
            short: self.short.into_iter().chain(other.short).min(),
        }
    }
}

/// Copies the content of one regular file. Returns false if an existing file was kept instead.
pub(super) async fn copy(copy: &Arc<Copy>, job: &CopyJob) -> Result<bool> {
    let (mut source, size) = Source::open(&copy.from, &job.from).await?;
    let Some(sink) = Sink::create(copy, job, &source).await? else {
        return Ok(false);
    };
    let (from, to) = (copy.from.show(&job.from), copy.to.show(&job.to));
    let moved = copy_and_end(&mut source, &sink, &to, size, copy).await;
    let (copied, length, truncated) = match moved {
        Ok(moved) => moved,
        Err(error) => {
            let left = sink.discard(&copy.to, &job.to).await;
            let interrupted = interrupt::of(&error).is_some();
            let left = match left {
                Left::Nothing if interrupted => return Err(error),
                Left::Nothing => "no partial file is left",
                Left::Empty => "the file that was being replaced is empty now",
                Left::Partial => "a partial file is left: remove it, or copy it again",
            };
            if interrupted {
                copy.problems.remark(format_args!("{to}: {left}"));
            }
            return Err(error.context(format!("cannot copy {from} to {to} ({left})")));
        }
    };
    copy.bar.inc(size.saturating_sub(copied.bytes));
    if !sink.close(&job.to, copy.options.no_clobber).await? {
        return Ok(false);
    }
    source.close().await?;
    if truncated {
        bail!(
            "{from} was truncated from {size} to {length} bytes while it was copied, so {to} matches neither state: copy it again"
        );
    }
    copy.digest.bytes(length);
    Ok(true)
}

/// Reads a file again on both sides and compares it.
pub(super) async fn compare(copy: &Arc<Copy>, job: &CopyJob) -> Result<()> {
    let (here, size) = Source::open(&copy.from, &job.from).await?;
    let (there, copied) = Source::open(&copy.to, &job.to).await?;
    let names = || (copy.from.show(&job.from), copy.to.show(&job.to));
    if size != copied {
        let (from, to) = names();
        bail!("{from} has {size} bytes and its copy {to} has {copied}");
    }
    let mut at = 0;
    while at < size {
        interrupt::check()?;
        let length = (size - at).min(COPY_PIECE_BYTES as u64) as usize;
        let first = copy.large.take(length).await;
        let second = copy.second.take(length).await;
        let (first, got) = here.fetch().run(at, first).await?;
        let (second, got_there) = there.fetch().run(at, second).await?;
        if got != got_there || first[..got] != second[..got] {
            let same = first.iter().zip(second.iter()).take_while(|(a, b)| a == b);
            let (from, to) = names();
            bail!(
                "{from} and its copy {to} differ at byte {}",
                at + same.count() as u64
            );
        }
        at += length as u64;
    }
    here.close().await?;
    there.close().await
}

/// Moves all there is, and ends the copy. Returns what [`copy_all`] does.
async fn copy_and_end(
    source: &mut Source,
    sink: &Sink,
    to: &str,
    size: u64,
    copy: &Arc<Copy>,
) -> Result<(CopiedData, u64, bool)> {
    let (copied, length, truncated) = copy_all(source, sink, size, copy).await?;
    sink.end(to, length, copied.end).await?;
    Ok((copied, length, truncated))
}

/// Copies everything. Returns what was copied, how long the source turned out to be, and whether it
/// was truncated meanwhile.
async fn copy_all(
    source: &mut Source,
    sink: &Sink,
    size: u64,
    copy: &Arc<Copy>,
) -> Result<(CopiedData, u64, bool)> {
    if !source.states_size(size) {
        let copied = copy_to_eof(source, sink, copy).await?;
        return Ok((copied, copied.bytes, false));
    }
    let copied = copy_data(source, sink, size, copy).await?;
    let (length, truncated) = source.end(size, copied.short).await?;
    Ok((copied, length, truncated))
}

/// Copies a file that states no size, one read after the other.
async fn copy_to_eof(source: &Source, sink: &Sink, copy: &Copy) -> Result<CopiedData> {
    let mut copied = CopiedData::default();
    loop {
        interrupt::check()?;
        let at = copied.bytes;
        let buffer = copy.small.take(SMALL_FILE_BYTES).await;
        let (mut buffer, got) = source.fetch().run(at, buffer).await?;
        if got == 0 {
            return Ok(copied);
        }
        buffer.truncate(got);
        copy.progress.found(got as u64);
        copy.bar.inc(got as u64);
        let moved = CopiedData {
            bytes: got as u64,
            end: sink.store().run(at, buffer).await?,
            short: None,
        };
        copied = copied.and(moved);
    }
}

/// Copies all data of a file of this size. On return, also with an error, no piece is in flight.
async fn copy_data(
    source: &mut Source,
    sink: &Sink,
    size: u64,
    copy: &Arc<Copy>,
) -> Result<CopiedData> {
    let _stream = if size <= SMALL_FILE_BYTES as u64 {
        None
    } else {
        Some(
            copy.streams
                .acquire()
                .await
                .expect("the semaphore is never closed"),
        )
    };
    let mut pieces = PiecesInFlight::new();
    let files = match (&*source, sink) {
        (Source::Weft { file: from, .. }, Sink::Weft { file: to, .. })
            if size > SMALL_FILE_BYTES as u64 =>
        {
            Some((from.clone(), to.clone()))
        }
        _ => None,
    };
    let mut copied = match files {
        Some(files) => copy_by_servers(source, files, size, copy, &mut pieces).await,
        None => copy_pieces(source, sink, size, copy, &mut pieces).await,
    };
    while let Some(done) = pieces.next().await {
        copied = both(copied, done);
    }
    copied
}

/// Pieces in flight.
type PiecesInFlight = FuturesUnordered<BoxFuture<'static, Result<CopiedData>>>;

/// Combines two results; the first failure counts.
fn both(one: Result<CopiedData>, other: Result<CopiedData>) -> Result<CopiedData> {
    Ok(one?.and(other?))
}

/// As [`copy_data`]; pieces in `pieces` may still be in flight at the end.
async fn copy_pieces(
    source: &mut Source,
    sink: &Sink,
    size: u64,
    copy: &Arc<Copy>,
    pieces: &mut PiecesInFlight,
) -> Result<CopiedData> {
    let buffers = if size <= SMALL_FILE_BYTES as u64 {
        &copy.small
    } else {
        &copy.large
    };
    let (mut at, mut copied) = (0, CopiedData::default());
    while let Some(range) = source.next_data(at, size).await? {
        at = range.start;
        while at < range.end {
            interrupt::check()?;
            let piece = COPY_PIECE_BYTES as u64;
            let end = range.end.min((at / piece + 1) * piece);
            let mut buffer = buffers.take((end - at) as usize).await;
            let (fetch, store, bar) = (source.fetch(), sink.store(), copy.bar.clone());
            let start = at;
            let work = async move {
                let wanted = buffer.len();
                let got;
                (buffer, got) = fetch.run(start, buffer).await?;
                buffer.truncate(got);
                let end = if got == 0 {
                    0
                } else {
                    store.run(start, buffer).await?
                };
                bar.inc(got as u64);
                Ok::<_, anyhow::Error>(CopiedData {
                    bytes: got as u64,
                    end,
                    short: (got < wanted).then_some(start + got as u64),
                })
            };
            if size <= SMALL_FILE_BYTES as u64 {
                copied = copied.and(work.await?);
            } else {
                let task = tokio::spawn(work);
                pieces.push(Box::pin(
                    async move { task.await.map_err(|e| panicked(&e))? },
                ));
            }
            at = end;
            if pieces.len() >= COPY_PIECES_MAX
                && let Some(done) = pieces.next().await
            {
                copied = copied.and(done?);
            }
        }
    }
    Ok(copied)
}

/// As [`copy_pieces`], between files of one volume.
async fn copy_by_servers(
    source: &mut Source,
    (from, to): (File, File),
    size: u64,
    copy: &Copy,
    pieces: &mut PiecesInFlight,
) -> Result<CopiedData> {
    // A truncation meanwhile is not reported here: the file's size is compared at the end.
    let mut copied = CopiedData {
        short: Some(size),
        ..CopiedData::default()
    };
    let mut at = 0;
    while let Some(range) = source.next_data(at, size).await? {
        at = range.start;
        while at < range.end {
            interrupt::check()?;
            let (start, end) = (
                at,
                range
                    .end
                    .min((at / SERVER_COPY_BYTES + 1) * SERVER_COPY_BYTES),
            );
            let (from, to, bar) = (from.clone(), to.clone(), copy.bar.clone());
            pieces.push(Box::pin(async move {
                let place = FileOffset(start);
                let bytes = to.copy_range(&from, place, place, end - start).await?;
                bar.inc(bytes);
                Ok(CopiedData {
                    bytes,
                    end: if bytes == 0 { 0 } else { start + bytes },
                    short: None,
                })
            }));
            at = end;
            if pieces.len() >= SERVER_COPIES_MAX
                && let Some(done) = pieces.next().await
            {
                copied = copied.and(done?);
            }
        }
    }
    Ok(copied)
}
