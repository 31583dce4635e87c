//! Reads: from what is on its way, from what was read ahead, from the servers.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::AbortHandle;
use weft_client::File;
use weft_layout::ViewOffset;

use super::DataError;
use super::file::FileData;
use super::rope::Rope;
use super::state::{Home, State};
use crate::outage::may_pass;

/// A range that is read ahead.
pub(super) struct Ahead {
    pub(super) start: u64,
    pub(super) end: u64,
    stream: u64,
    fetched: watch::Receiver<Option<Fetched>>,
    task: AbortHandle,
    _room: OwnedSemaphorePermit,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Nobody waits for it any more: the servers need not go on.
        self.task.abort();
    }
}

/// The bytes of a range.
#[derive(Clone, Default)]
pub(super) struct Fetched {
    /// All of the range, zeros where nothing was found.
    rope: Rope,
    /// One past the last byte that was found.
    found: u64,
    /// The file's size, if the read told.
    size: Option<u64>,
}

impl FileData {
    /// Reads a range for an open; short at the file's end.
    pub(super) async fn read(
        self: &Arc<Self>,
        file: &File,
        open: u64,
        mut range: Range<u64>,
    ) -> Result<Rope, DataError> {
        self.ask_again(file).await?;
        let fresh = self.fresh_end(&self.state.lock());
        if let Some(end) = fresh {
            range.end = range.end.min(end);
        }
        if range.is_empty() {
            return Ok(Rope::default());
        }
        let ready = self.advance(file, open, &range).await?;
        let mut whole = Fetched::default();
        let mut at = range.start;
        while at < range.end {
            let ahead = ready.iter().find(|ahead| ahead.end > at);
            let fetched = match ahead {
                Some(ahead) if ahead.start <= at => {
                    let wanted = at..range.end.min(ahead.end);
                    match ahead.take(&wanted).await {
                        Some(fetched) => fetched,
                        None => self.fetch(file, wanted).await?,
                    }
                }
                other => {
                    let end = other.map_or(range.end, |ahead| ahead.start.min(range.end));
                    self.fetch(file, at..end).await?
                }
            };
            at += fetched.rope.len() as u64;
            whole.rope.append(fetched.rope);
            whole.found = whole.found.max(fetched.found);
            whole.size = fetched.size;
        }
        self.cut_at_end(file, range, whole).await
    }

    /// Short at the file's end: where nothing was found up to the end of the range, only the size
    /// tells a hole from it.
    async fn cut_at_end(
        &self,
        file: &File,
        range: Range<u64>,
        mut whole: Fetched,
    ) -> Result<Rope, DataError> {
        if whole.found < range.end {
            let end = match whole.size {
                Some(size) => size,
                None => self.size(file).await?,
            };
            let end = end.max(whole.found).clamp(range.start, range.end);
            whole.rope.truncate((end - range.start) as usize);
        }
        Ok(whole.rope)
    }

    /// Follows the open's streams; starts to read ahead. Returns what was read ahead of this range,
    /// ascending.
    async fn advance(
        self: &Arc<Self>,
        file: &File,
        open: u64,
        range: &Range<u64>,
    ) -> Result<Vec<Arc<Ahead>>, DataError> {
        let (ready, advice) = {
            let mut state = self.state.lock();
            let cells = matches!(state.home, Home::Cells);
            let Some(open) = state.opens.get_mut(&open).filter(|_| cells) else {
                return Ok(Vec::new());
            };
            let ready = open
                .ahead
                .values()
                .filter(|a| a.start < range.end && a.end > range.start);
            let ready: Vec<_> = ready.cloned().collect();
            let advice = open.streams.read(range);
            open.ahead.retain(|_, ahead| {
                Some(ahead.stream) != advice.forgotten
                    && (ahead.stream != advice.stream || ahead.end > advice.read_to)
            });
            (ready, advice)
        };
        if advice.fetch.is_empty() {
            return Ok(ready);
        }
        let known = self.state.lock().ends.known.is_some();
        if !known {
            // Else a window would be asked for behind the end of every file.
            self.ask_size(file).await?;
        }
        for range in advice.fetch {
            self.read_ahead(file, open, advice.stream, range);
        }
        Ok(ready)
    }

    fn read_ahead(self: &Arc<Self>, file: &File, open: u64, stream: u64, range: Range<u64>) {
        let mut state = self.state.lock();
        let (start, end) = (range.start, range.end.min(state.ends.end));
        if start >= end || !state.opens.contains_key(&open) {
            return;
        }
        let Ok(room) = self
            .cache
            .ahead
            .clone()
            .try_acquire_many_owned((end - start) as u32)
        else {
            return;
        };
        // What is on its way is taken under the same lock under which a write drops what was read
        // ahead.
        let over = Over::of(&state, start..end);
        let (tell, fetched) = watch::channel(None);
        let (data, file) = (self.clone(), file.clone());
        let task = self.cache.runtime.spawn(async move {
            // A reader that finds nothing asks itself, and sees the error.
            if let Ok(found) = data.fetch_under(&file, start..end, over, Wait::No).await {
                let _ = tell.send(Some(found));
            }
        });
        let ahead = Arc::new(Ahead {
            start,
            end,
            stream,
            fetched,
            task: task.abort_handle(),
            _room: room,
        });
        if let Some(open) = state.opens.get_mut(&open) {
            open.ahead.insert(start, ahead);
        }
    }

    /// Reads a range: one request to each server that holds any of it, unless all of it is on its
    /// way.
    async fn fetch(&self, file: &File, range: Range<u64>) -> Result<Fetched, DataError> {
        let over = Over::of(&self.state.lock(), range.clone());
        self.fetch_under(file, range, over, Wait::Yes).await
    }

    async fn fetch_under(
        &self,
        file: &File,
        range: Range<u64>,
        over: Over,
        wait: Wait,
    ) -> Result<Fetched, DataError> {
        let mut fetched = match over.below {
            Below::Nothing => Fetched::of(&range, Vec::new()),
            Below::Content(bytes) => Fetched::of(&range, vec![(range.start, bytes)]),
            Below::Cells => self.ask(file, &range, wait).await?,
        };
        if let Some((at, bytes)) = over.pieces.last() {
            fetched.found = fetched.found.max(at + bytes.len() as u64);
        }
        fetched.rope.overlay(range.start, over.pieces);
        Ok(fetched)
    }

    async fn ask(&self, file: &File, range: &Range<u64>, wait: Wait) -> Result<Fetched, DataError> {
        self.to_cells(file).await?;
        let view = file.canonical()?;
        let length = (range.end - range.start) as usize;
        let asking = self.begin_asking();
        let may_pass = |error: &_| wait == Wait::Yes && may_pass(error);
        let read = || view.read_parts(ViewOffset(range.start), length);
        let read = self.cache.outages.wait_out_if(may_pass, read).await;
        let size = read.as_ref().ok().and_then(|read| read.size);
        let end = asking.answered(size);
        let parts = read?.parts.into_iter();
        let parts = parts.map(|(at, bytes)| (range.start + at, bytes)).collect();
        Ok(Fetched {
            size: size.map(|_| end),
            ..Fetched::of(range, parts)
        })
    }
}

/// Whether a read waits for servers that are away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Yes,
    /// It is ahead of what anybody has asked for.
    No,
}

/// What lies over the servers' bytes of a range, as of one moment.
struct Over {
    pieces: Vec<(u64, Bytes)>,
    below: Below,
}

enum Below {
    /// It does not matter.
    Nothing,
    /// The content of an inline file from the range's start on, no more than the range.
    Content(Bytes),
    Cells,
}

impl Over {
    fn of(state: &State, range: Range<u64>) -> Over {
        let pieces = state.extents.overlay(range.clone());
        let covered: u64 = pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let below = match &state.home {
            _ if covered == range.end - range.start => Below::Nothing,
            Home::Inline(content) | Home::Moving(content) => {
                let within = |at: u64| at.min(content.len() as u64) as usize;
                Below::Content(content.slice(within(range.start)..within(range.end)))
            }
            Home::Cells => Below::Cells,
        };
        Over { pieces, below }
    }
}

impl Fetched {
    fn of(range: &Range<u64>, parts: Vec<(u64, Bytes)>) -> Fetched {
        let found = parts
            .last()
            .map_or(0, |(at, bytes)| at + bytes.len() as u64);
        Fetched {
            rope: Rope::from_pieces(range.start, (range.end - range.start) as usize, parts),
            found,
            size: None,
        }
    }
}

impl Ahead {
    /// Waits for a part of it; `None` when it could not be read.
    async fn take(&self, wanted: &Range<u64>) -> Option<Fetched> {
        let mut fetched = self.fetched.clone();
        let fetched = fetched.wait_for(Option::is_some).await.ok()?.clone()?;
        let mut rope = fetched.rope;
        rope.split_to((wanted.start - self.start) as usize);
        rope.truncate((wanted.end - wanted.start) as usize);
        Some(Fetched {
            rope,
            found: fetched.found.min(wanted.end),
            // It may be long ago that it was true.
            size: None,
        })
    }
}
