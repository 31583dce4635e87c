//! The bytes of one file, from where it is to where it goes: pieces of 4 MiB, several in flight, holes left out.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::sink::Sink;
use super::source::Source;
use super::{Copy, Job};
use crate::stream::panicked;

/// Bytes of a piece; pieces end at multiples of it.
pub(super) const PIECE: usize = 4 << 20;
/// Files up to this are one piece in a small buffer.
pub(super) const SMALL: usize = 256 << 10;
/// Pieces of one file in flight.
const DEPTH: usize = 8;

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
    let (mut source, size) = Source::open(&copy.from, &job.from).await?;
    let Some(sink) = Sink::create(copy, job, &source).await? else {
        return Ok(false);
    };
    let poured = pour(&mut source, &sink, size, copy).await;
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

/// Moves all data.
async fn pour(source: &mut Source, sink: &Sink, size: u64, copy: &Arc<Copy>) -> Result<Poured> {
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
    while let Some(range) = source.next_data(at, size).await? {
        at = range.start;
        while at < range.end {
            let piece = PIECE as u64;
            let end = range.end.min((at / piece + 1) * piece);
            let mut buffer = buffers.take((end - at) as usize).await;
            let (fetch, store, bar) = (source.fetch(), sink.store(), copy.bar.clone());
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
