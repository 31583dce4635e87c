//! Reads: from dirty bytes, from bytes read ahead, from the servers.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;
use weft_client::File;
use weft_layout::ViewOffset;

use super::file_data::FileData;
use crate::data::buffer_chain::BufferChain;
use crate::data::error::DataError;
use crate::data::state::{Below, FetchedRange, Layers, PrefetchedRange};
use crate::limits::READ_TRIES_MAX;
use crate::outage::is_retryable;

/// Whether a read waits for unreachable servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutageWait {
    Yes,
    /// It reads ahead: no program has asked for it.
    No,
}

/// What one look for a range has found.
struct ReadBytes {
    bytes: BufferChain,
    /// The end of them, where nothing was found below the file's size.
    hole: Option<Range<u64>>,
    /// The size is of the same time as the bytes.
    same_time: bool,
}

impl ReadBytes {
    fn whole(bytes: BufferChain) -> ReadBytes {
        ReadBytes {
            bytes,
            hole: None,
            same_time: true,
        }
    }
}

impl FileData {
    /// Reads a range for an open; short at the file's end.
    ///
    /// Zeros where nothing was found are a hole, unless bytes were written there, or cut off, while
    /// they were looked for: then it looks again.
    pub(in crate::data) async fn read(
        self: &Arc<Self>,
        file: &File,
        open: u64,
        range: Range<u64>,
    ) -> Result<BufferChain, DataError> {
        let truncations = self.state().truncations();
        let mut last = None;
        for _ in 1..READ_TRIES_MAX {
            let before = self.state().changes();
            let read = self.read_once(file, open, range.clone()).await?;
            let Some(hole) = read.hole else {
                return Ok(read.bytes);
            };
            let at_rest = before.is_some() && before == self.state().changes();
            if at_rest && (read.same_time || last.as_ref() == Some(&hole)) {
                return Ok(read.bytes);
            }
            if !at_rest {
                // A truncation has its turn until what is known here agrees with the servers, and a
                // write through was possibly found by one of the two questions only.
                drop(self.turn().await);
                let begun = self.state().begun_through();
                self.wait_until(|state| state.have_ended_through(begun))
                    .await;
                last = None;
                continue;
            }
            last = Some(hole);
        }
        let mut read = self.read_once(file, open, range.clone()).await?;
        if let Some(hole) = read.hole
            && self.state().truncations() != truncations
        {
            // The file did end there for a moment.
            read.bytes.truncate((hole.start - range.start) as usize);
        }
        Ok(read.bytes)
    }

    async fn read_once(
        self: &Arc<Self>,
        file: &File,
        open: u64,
        mut range: Range<u64>,
    ) -> Result<ReadBytes, DataError> {
        self.refresh_content(file).await?;
        let fresh = self.fresh_size();
        if let Some(end) = fresh {
            range.end = range.end.min(end);
        }
        if range.is_empty() {
            return Ok(ReadBytes::whole(BufferChain::default()));
        }
        let ready = self.follow_stream(file, open, &range).await?;
        let mut whole = FetchedRange::default();
        let mut at = range.start;
        while at < range.end {
            let next = ready.iter().find(|prefetched| prefetched.end() > at);
            let fetched = match next {
                Some(prefetched) if prefetched.start() <= at => {
                    let wanted = at..range.end.min(prefetched.end());
                    match prefetched.get(&wanted).await {
                        Some(fetched) => fetched,
                        None => self.fetch(file, wanted).await?,
                    }
                }
                later => {
                    let end = later.map_or(range.end, |later| later.start().min(range.end));
                    self.fetch(file, at..end).await?
                }
            };
            at += fetched.len();
            whole.append(fetched);
        }
        let mut read = self.end_at_size(file, range, whole).await?;
        read.same_time |= fresh.is_some();
        Ok(read)
    }

    /// Ends a read at the file's end: where nothing was found up to the end of the range, only the
    /// size tells a hole from it.
    async fn end_at_size(
        &self,
        file: &File,
        range: Range<u64>,
        fetched: FetchedRange,
    ) -> Result<ReadBytes, DataError> {
        let found = fetched.found();
        if found >= range.end {
            return Ok(ReadBytes::whole(fetched.into_bytes()));
        }
        let same_time = fetched.size().is_some();
        let size = match fetched.size() {
            Some(size) => size,
            None => self.size(file).await?,
        };
        let end = size.max(found).clamp(range.start, range.end);
        let mut bytes = fetched.into_bytes();
        bytes.truncate((end - range.start) as usize);
        let hole = found.max(range.start)..end;
        Ok(ReadBytes {
            bytes,
            hole: (!hole.is_empty()).then_some(hole),
            same_time,
        })
    }

    /// Follows the open's streams and starts to read ahead. Returns what was read ahead of this
    /// range, ascending.
    async fn follow_stream(
        self: &Arc<Self>,
        file: &File,
        open: u64,
        range: &Range<u64>,
    ) -> Result<Vec<Arc<PrefetchedRange>>, DataError> {
        let Some((ready, advice)) = self.state().follow_read(open, range) else {
            return Ok(Vec::new());
        };
        if advice.fetch.is_empty() {
            return Ok(ready);
        }
        let exact = self.state().has_exact_size();
        if !exact {
            // Else a window beyond the end of every file would be requested.
            self.query_size(file).await?;
        }
        for range in advice.fetch {
            self.read_ahead(file, open, advice.stream, &range);
        }
        Ok(ready)
    }

    fn read_ahead(self: &Arc<Self>, file: &File, open: u64, stream: u64, range: &Range<u64>) {
        let mut state = self.state();
        let Some(range) = state.prefetchable(open, range) else {
            return;
        };
        let length = range.end - range.start;
        let Some(budget) = self.resources().reserve_read_ahead(length) else {
            return;
        };
        // Dirty pieces are taken under the lock under which a write drops what was read ahead.
        let layers = state.layers(range.clone());
        let (sender, fetched) = watch::channel(None);
        let (data, file, wanted) = (self.clone(), file.clone(), range.clone());
        let task = self.resources().runtime().spawn(async move {
            // On an error the reader finds nothing, asks the servers and sees the error.
            let found = data.fetch_layers(&file, wanted, layers, OutageWait::No);
            if let Ok(found) = found.await {
                let _ = sender.send(Some(found));
            }
        });
        let task = task.abort_handle();
        let prefetched = PrefetchedRange::new(range, stream, fetched, task, budget);
        state.add_prefetched(open, prefetched);
    }

    /// Reads a range: one request to each server that holds any of it, unless dirty bytes cover it.
    async fn fetch(&self, file: &File, range: Range<u64>) -> Result<FetchedRange, DataError> {
        let layers = self.state().layers(range.clone());
        self.fetch_layers(file, range, layers, OutageWait::Yes)
            .await
    }

    async fn fetch_layers(
        &self,
        file: &File,
        range: Range<u64>,
        layers: Layers,
        wait: OutageWait,
    ) -> Result<FetchedRange, DataError> {
        let mut fetched = match layers.below {
            Below::Covered => FetchedRange::new(&range, Vec::new(), None),
            Below::Content(bytes) => FetchedRange::new(&range, vec![(range.start, bytes)], None),
            Below::Cells => self.fetch_cells(file, &range, wait).await?,
        };
        fetched.overlay(range.start, layers.dirty);
        Ok(fetched)
    }

    async fn fetch_cells(
        &self,
        file: &File,
        range: &Range<u64>,
        wait: OutageWait,
    ) -> Result<FetchedRange, DataError> {
        self.require_cells(file).await?;
        let view = file.canonical()?;
        let length = (range.end - range.start) as usize;
        let query = self.begin_size_query();
        let retries = |error: &_| wait == OutageWait::Yes && is_retryable(error);
        let read = || view.read_parts(ViewOffset(range.start), length);
        let read = self.resources().outages().retry_if(retries, read).await;
        let size = read.as_ref().ok().and_then(|read| read.size);
        let end = query.answered(size);
        let pieces = read?.parts.into_iter();
        let pieces = pieces.map(|(at, bytes)| (range.start + at, bytes));
        Ok(FetchedRange::new(
            range,
            pieces.collect(),
            size.map(|_| end),
        ))
    }
}
