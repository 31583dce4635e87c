//! What is known of a file's size: the end of what this cache has seen and written, and answers of
//! the servers.
//!
//! A query may or may not cover bytes that are sent while it runs. So a query remembers how far
//! such bytes reach, and its answer counts only if no truncation and no loss came in between.

use tokio::time::Instant;

use crate::limits::SIZE_VALID;

#[derive(Debug, Default)]
pub(super) struct KnownSize {
    /// One past the last byte known of.
    end: u64,
    /// When that was exactly the size, but for what this cache has written since.
    exact_at: Option<Instant>,
    /// Queries in flight.
    queries: usize,
    /// One past the last byte that their answers may not cover.
    uncovered_end: u64,
    /// Answers to queries from before a truncation do not count.
    truncations: u64,
    /// Nor do those from before written data was lost.
    losses: u64,
    /// Counts writes and truncations.
    changes: u64,
    /// Writes that go through to the servers: how many began, and how many have ended.
    through: (u64, u64),
    /// The number of the latest query, and of the latest whose answer counted.
    asked: u64,
    answered: u64,
}

/// A query in flight, as of its beginning.
#[derive(Clone, Copy, Debug)]
pub(in crate::data) struct SizeQueryTicket {
    truncations: u64,
    losses: u64,
    number: u64,
}

impl KnownSize {
    /// With the size, if it is exact.
    pub(super) fn new(exact: Option<u64>) -> KnownSize {
        KnownSize {
            end: exact.unwrap_or_default(),
            exact_at: exact.map(|_| Instant::now()),
            ..KnownSize::default()
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Whether the end was ever exact and nothing has made it doubtful since.
    pub(super) fn is_exact(&self) -> bool {
        self.exact_at.is_some()
    }

    /// Whether it was exact a moment ago.
    pub(super) fn is_fresh(&self) -> bool {
        self.exact_at.is_some_and(|at| at.elapsed() < SIZE_VALID)
    }

    pub(super) fn truncations(&self) -> u64 {
        self.truncations
    }

    /// A write goes through to the servers.
    pub(super) fn begin_through(&mut self) {
        self.through.0 += 1;
    }

    /// A write through has ended, whatever came of it.
    pub(super) fn end_through(&mut self) {
        self.through.1 += 1;
        self.changes += 1;
    }

    /// Writes through that began, and those that have ended.
    pub(super) fn through(&self) -> (u64, u64) {
        self.through
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// The end is not exact any more.
    pub(super) fn forget(&mut self) {
        self.exact_at = None;
    }

    /// The end is not exact any more, nor is the answer of any query that is in flight.
    pub(super) fn forget_answers(&mut self) {
        self.exact_at = None;
        self.answered = self.asked + 1;
    }

    /// A write ended here.
    pub(super) fn grow_to(&mut self, end: u64) {
        self.changes += 1;
        self.end = self.end.max(end);
        self.uncovered_end = self.uncovered_end.max(end);
    }

    pub(super) fn truncated(&mut self, size: u64) {
        self.truncations += 1;
        self.changes += 1;
        self.end = size;
        self.uncovered_end = self.uncovered_end.min(size);
        self.exact_at = Some(Instant::now());
    }

    /// A truncation failed: it may have happened or not.
    pub(super) fn truncation_failed(&mut self) {
        self.truncations += 1;
        self.changes += 1;
        self.exact_at = None;
    }

    /// Written bytes were lost; those that are not sent yet reach up to `unsent_end`.
    pub(super) fn lost(&mut self, unsent_end: u64) {
        self.exact_at = None;
        self.losses += 1;
        self.uncovered_end = unsent_end;
    }

    pub(super) fn begin_query(&mut self, unsent_end: u64) -> SizeQueryTicket {
        if self.queries == 0 {
            self.uncovered_end = 0;
        }
        self.uncovered_end = self.uncovered_end.max(unsent_end);
        self.queries += 1;
        self.asked += 1;
        SizeQueryTicket {
            truncations: self.truncations,
            losses: self.losses,
            number: self.asked,
        }
    }

    pub(super) fn cancel_query(&mut self) {
        self.queries -= 1;
    }

    /// Takes the answer of a query, `None` if there was none. Returns the end as known now. Of two
    /// answers that arrive out of order the later query's stays: the size of a growing file never
    /// goes back for a program.
    pub(super) fn end_query(&mut self, query: SizeQueryTicket, size: Option<u64>) -> u64 {
        if let Some(size) = size
            && self.truncations == query.truncations
            && self.losses == query.losses
            && self.answered <= query.number
        {
            self.answered = query.number;
            self.end = size.max(self.uncovered_end);
            self.exact_at = Some(Instant::now());
        }
        self.queries -= 1;
        // An invalidation may have made the end doubtful since. The caller asked before that and
        // gets this answer all the same.
        match size {
            Some(size) if self.exact_at.is_none() && self.truncations == query.truncations => {
                size.max(self.uncovered_end)
            }
            _ => self.end,
        }
    }
}

impl SizeQueryTicket {
    pub(in crate::data) fn losses(self) -> u64 {
        self.losses
    }
}
