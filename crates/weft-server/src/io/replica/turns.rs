//! The order of changes of the same bytes: a change waits for earlier ones that touch its bytes, on
//! the primary, so that every replica applies them in this order.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weft_layout::FileId;
use weft_store::{ForkKey, Scattered};

/// What a change touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// Anything of a file.
    File(FileId),
    /// Bytes of a fork.
    Bytes(ForkKey, Range<u64>),
}

impl Span {
    /// All of a fork, also what it does not have yet.
    pub(super) fn fork(key: &ForkKey) -> Span {
        Span::Bytes(key.clone(), 0..u64::MAX)
    }

    /// What writes touch, from the first byte in each fork to the last.
    pub(super) fn of_writes(writes: &[Scattered]) -> Vec<Span> {
        let hull = |write: &Scattered| {
            let start = write.runs.iter().map(|r| r.offset.0).min().unwrap_or(0);
            let end = write.runs.iter().map(|r| {
                let last = r.count.saturating_sub(1).saturating_mul(r.stride);
                r.offset.0.saturating_add(last).saturating_add(r.length)
            });
            Span::Bytes(write.key.clone(), start..end.max().unwrap_or(start))
        };
        writes.iter().map(hull).collect()
    }

    pub(super) fn file(&self) -> FileId {
        match self {
            Span::File(file) => *file,
            Span::Bytes(key, _) => key.file,
        }
    }

    fn meets(&self, other: &Span) -> bool {
        match (self, other) {
            (Span::Bytes(a, x), Span::Bytes(b, y)) => a == b && x.start < y.end && y.start < x.end,
            _ => self.file() == other.file(),
        }
    }
}

struct Entry {
    id: u64,
    began: Instant,
    span: Span,
    /// Closed at the end of the turn.
    ended: Arc<Semaphore>,
}

#[derive(Default)]
struct Table {
    last: u64,
    by_file: HashMap<FileId, Vec<Entry>>,
}

/// The turns that are taken or waited for.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<Table>>);

/// Ends when it is dropped.
pub(super) struct Turn {
    turns: Turns,
    id: u64,
    files: Vec<FileId>,
    ended: Arc<Semaphore>,
}

impl Turns {
    /// Waits for all earlier turns that touch the same.
    ///
    /// # Cancellation
    /// Safe: the turn ends, and later ones wait for it no more.
    pub(super) async fn take(&self, spans: Vec<Span>) -> Turn {
        let ended = Arc::new(Semaphore::new(0));
        let (turn, earlier) = {
            let mut table = self.0.lock();
            table.last += 1;
            let id = table.last;
            let mut earlier = Vec::new();
            for span in &spans {
                for entry in table.by_file.get(&span.file()).into_iter().flatten() {
                    if entry.span.meets(span) {
                        earlier.push(entry.ended.clone());
                    }
                }
            }
            let mut files: Vec<FileId> = spans.iter().map(Span::file).collect();
            files.sort_unstable();
            files.dedup();
            for span in spans {
                let entry = Entry {
                    id,
                    began: Instant::now(),
                    ended: ended.clone(),
                    span,
                };
                let file = entry.span.file();
                table.by_file.entry(file).or_default().push(entry);
            }
            let turn = Turn {
                turns: self.clone(),
                id,
                files,
                ended,
            };
            (turn, earlier)
        };
        for other in earlier {
            // Only ever closed: there are no permits.
            let _ = other.acquire().await;
        }
        turn
    }

    /// How long the oldest turn has been taken or waited for.
    pub(super) fn oldest(&self) -> Duration {
        let table = self.0.lock();
        let entries = table.by_file.values().flatten();
        let oldest = entries.map(|entry| entry.began).min();
        oldest.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Waits until all turns that are taken or waited for now have ended.
    pub(super) async fn pass(&self) {
        let all: Vec<Arc<Semaphore>> = {
            let table = self.0.lock();
            let entries = table.by_file.values().flatten();
            entries.map(|entry| entry.ended.clone()).collect()
        };
        Turns::end_of(all).await;
    }

    /// The same for those that touch a file.
    pub(super) async fn pass_of(&self, file: FileId) {
        let all: Vec<Arc<Semaphore>> = {
            let table = self.0.lock();
            let entries = table.by_file.get(&file).into_iter().flatten();
            entries.map(|entry| entry.ended.clone()).collect()
        };
        Turns::end_of(all).await;
    }

    async fn end_of(turns: Vec<Arc<Semaphore>>) {
        for turn in turns {
            let _ = turn.acquire().await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut table = self.turns.0.lock();
        for file in &self.files {
            if let Some(entries) = table.by_file.get_mut(file) {
                entries.retain(|entry| entry.id != self.id);
                if entries.is_empty() {
                    table.by_file.remove(file);
                }
            }
        }
        self.ended.close();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::timeout;
    use weft_layout::CellIndex;
    use weft_store::ForkName;

    use super::*;

    fn bytes(range: Range<u64>) -> Vec<Span> {
        let key = ForkKey {
            file: FileId(7),
            cell: CellIndex(0),
            fork: ForkName::data(),
        };
        vec![Span::Bytes(key, range)]
    }

    #[tokio::test(start_paused = true)]
    async fn turns_that_touch_the_same_bytes_follow_each_other_and_others_do_not_wait() {
        let turns = Turns::default();
        let first = turns.take(bytes(0..10)).await;
        let beside = turns.take(bytes(10..20)).now_or_never();
        assert!(beside.is_some(), "it touches other bytes");
        let mut second = Box::pin(turns.take(bytes(5..15)));
        assert!(second.as_mut().now_or_never().is_none());
        let mut file = Box::pin(turns.take(vec![Span::File(FileId(7))]));
        assert!(file.as_mut().now_or_never().is_none());
        let other = turns.take(vec![Span::File(FileId(8))]).now_or_never();
        assert!(other.is_some());
        drop(beside);
        drop(first);
        let second = timeout(Duration::from_secs(1), second).await.unwrap();
        assert!(
            file.as_mut().now_or_never().is_none(),
            "it waits for the second"
        );
        drop(second);
        timeout(Duration::from_secs(1), file).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_given_up_stops_nobody() {
        let turns = Turns::default();
        let first = turns.take(bytes(0..10)).await;
        let mut second = Box::pin(turns.take(bytes(0..10)));
        assert!(second.as_mut().now_or_never().is_none());
        drop(second);
        let mut pass = Box::pin(turns.pass());
        assert!(pass.as_mut().now_or_never().is_none());
        drop(first);
        timeout(Duration::from_secs(1), pass).await.unwrap();
        assert!(turns.0.lock().by_file.is_empty());
    }
}
