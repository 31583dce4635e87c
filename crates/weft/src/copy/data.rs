//! The bytes of one file on their way: pieces of 4 MiB, several in flight, without holes. Within a
//! volume, its servers move large files.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use weft_client::File;
use weft_layout::FileOffset;

use super::context::{Copy, Job, PIECE, SMALL};
use super::sink::{Left, Sink};
use super::source::Source;
use crate::streams::panicked;
use crate::terminal::interrupt;

/// Pieces of one file in flight.
const DEPTH: usize = 8;
/// Bytes that servers are asked to move among themselves at a time, and how often at once.
const BY_SERVERS: u64 = 64 << 20;
const ASKED: usize = 2;

/// What was moved of a file.
#[derive(Clone, Copy, Default)]
struct Poured {
    /// Bytes that were read.
    bytes: u64,
    /// One past the last byte that was written.
    end: u64,
    /// The first byte that a read did not find.
    short: Option<u64>,
}

impl Poured {
    fn and(self, other: Poured) -> Poured {
        Poured {
            bytes: self.bytes + other.bytes,
            end: self.end.max(other.end),
            short: self.short.into_iter().chain(other.short).min(),
        }
    }
}

/// Copies the content of one regular file. False if it was left alone because its name is taken.
pub(super) async fn copy(copy: &Arc<Copy>, job: &Job) -> Result<bool> {
    let (mut source, size) = Source::open(&copy.from, &job.from).await?;
    let Some(sink) = Sink::create(copy, job, &source).await? else {
        return Ok(false);
    };
    let (from, to) = (copy.from.show(&job.from), copy.to.show(&job.to));
    let moved = move_all(&mut source, &sink, &to, size, copy).await;
    let (poured, length, cut) = match moved {
        Ok(moved) => moved,
        Err(error) => {
            let left = sink.discard(&copy.to, &job.to).await;
            let interrupted = interrupt::of(&error).is_some();
            let left = match left {
                Left::Nothing if interrupted => return Err(error),
                Left::Nothing => "nothing of it is left there",
                Left::Empty => "that was being replaced, and is empty now",
                Left::Part => "a part of it is left there: remove it, or copy it again",
            };
            if interrupted {
                copy.problems.remark(format_args!("{to}: {left}"));
            }
            return Err(error.context(format!("cannot copy {from} to {to} ({left})")));
        }
    };
    copy.bar.inc(size.saturating_sub(poured.bytes));
    if !sink.close(&job.to, copy.options.no_clobber).await? {
        return Ok(false);
    }
    source.close().await?;
    if cut {
        bail!(
            "{from} ended at byte {length} while it was copied, and had {size} bytes: somebody cut it, and {to} is not a \
             copy of either; copy it again"
        );
    }
    copy.tally.bytes(length);
    Ok(true)
}

/// Reads a file again on both sides, and compares.
pub(super) async fn compare(copy: &Arc<Copy>, job: &Job) -> Result<()> {
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
        let length = (size - at).min(PIECE as u64) as usize;
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

/// Moves all there is, and ends the copy. Returns what [`pour_all`] does.
async fn move_all(
    source: &mut Source,
    sink: &Sink,
    to: &str,
    size: u64,
    copy: &Arc<Copy>,
) -> Result<(Poured, u64, bool)> {
    let (poured, length, cut) = pour_all(source, sink, size, copy).await?;
    sink.end(to, length, poured.end).await?;
    Ok((poured, length, cut))
}

/// Moves all there is. Returns what was moved, how long the source turned out to be, and whether it
/// was truncated meanwhile.
async fn pour_all(
    source: &mut Source,
    sink: &Sink,
    size: u64,
    copy: &Arc<Copy>,
) -> Result<(Poured, u64, bool)> {
    if !source.states_size(size) {
        let poured = pour_to_end(source, sink, copy).await?;
        return Ok((poured, poured.bytes, false));
    }
    let poured = pour(source, sink, size, copy).await?;
    let (length, cut) = source.end(size, poured.short).await?;
    Ok((poured, length, cut))
}

/// Moves the data of a file that states no size, one read after the other.
async fn pour_to_end(source: &Source, sink: &Sink, copy: &Copy) -> Result<Poured> {
    let mut poured = Poured::default();
    loop {
        interrupt::check()?;
        let at = poured.bytes;
        let buffer = copy.small.take(SMALL).await;
        let (mut buffer, got) = source.fetch().run(at, buffer).await?;
        if got == 0 {
            return Ok(poured);
        }
        buffer.truncate(got);
        copy.far.found(got as u64);
        copy.bar.inc(got as u64);
        let moved = Poured {
            bytes: got as u64,
            end: sink.store().run(at, buffer).await?,
            short: None,
        };
        poured = poured.and(moved);
    }
}

/// Moves all data of a file of this size. However it ends, no piece is in flight any more.
async fn pour(source: &mut Source, sink: &Sink, size: u64, copy: &Arc<Copy>) -> Result<Poured> {
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
    let mut moving = Moving::new();
    let files = match (&*source, sink) {
        (Source::Weft { file: from, .. }, Sink::Weft { file: to, .. }) if size > SMALL as u64 => {
            Some((from.clone(), to.clone()))
        }
        _ => None,
    };
    let mut poured = match files {
        Some(files) => pour_by_servers(source, files, size, copy, &mut moving).await,
        None => pour_pieces(source, sink, size, copy, &mut moving).await,
    };
    while let Some(done) = moving.next().await {
        poured = both(poured, done);
    }
    poured
}

/// Pieces under way.
type Moving = FuturesUnordered<BoxFuture<'static, Result<Poured>>>;

/// The first failure counts.
fn both(one: Result<Poured>, other: Result<Poured>) -> Result<Poured> {
    Ok(one?.and(other?))
}

/// As [`pour`]; pieces in `moving` may still be in flight at the end.
async fn pour_pieces(
    source: &mut Source,
    sink: &Sink,
    size: u64,
    copy: &Arc<Copy>,
    moving: &mut Moving,
) -> Result<Poured> {
    let buffers = if size <= SMALL as u64 {
        &copy.small
    } else {
        &copy.large
    };
    let (mut at, mut poured) = (0, Poured::default());
    while let Some(range) = source.next_data(at, size).await? {
        at = range.start;
        while at < range.end {
            interrupt::check()?;
            let piece = PIECE as u64;
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
                Ok::<_, anyhow::Error>(Poured {
                    bytes: got as u64,
                    end,
                    short: (got < wanted).then_some(start + got as u64),
                })
            };
            if size <= SMALL as u64 {
                poured = poured.and(work.await?);
            } else {
                let task = tokio::spawn(work);
                moving.push(Box::pin(
                    async move { task.await.map_err(|e| panicked(&e))? },
                ));
            }
            at = end;
            if moving.len() >= DEPTH
                && let Some(done) = moving.next().await
            {
                poured = poured.and(done?);
            }
        }
    }
    Ok(poured)
}

/// As [`pour_pieces`], between files of one volume.
async fn pour_by_servers(
    source: &mut Source,
    (from, to): (File, File),
    size: u64,
    copy: &Copy,
    moving: &mut Moving,
) -> Result<Poured> {
    // A truncation meanwhile is not reported here: the file's size is compared at the end.
    let mut poured = Poured {
        short: Some(size),
        ..Poured::default()
    };
    let mut at = 0;
    while let Some(range) = source.next_data(at, size).await? {
        at = range.start;
        while at < range.end {
            interrupt::check()?;
            let (start, end) = (at, range.end.min((at / BY_SERVERS + 1) * BY_SERVERS));
            let (from, to, bar) = (from.clone(), to.clone(), copy.bar.clone());
            moving.push(Box::pin(async move {
                let place = FileOffset(start);
                let bytes = to.copy_range(&from, place, place, end - start).await?;
                bar.inc(bytes);
                Ok(Poured {
                    bytes,
                    end: if bytes == 0 { 0 } else { start + bytes },
                    short: None,
                })
            }));
            at = end;
            if moving.len() >= ASKED
                && let Some(done) = moving.next().await
            {
                poured = poured.and(done?);
            }
        }
    }
    Ok(poured)
}
