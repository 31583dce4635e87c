//! A rate limit for log lines that strangers can cause, so that a flood of connections does not
//! become a flood of lines.

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::{LOG_INTERVAL, LOG_LINES_MAX};

/// Lets a few lines of one kind pass per interval and counts the others.
#[derive(Default)]
pub struct LogLimit(Mutex<LineCount>);

#[derive(Default)]
struct LineCount {
    since: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

/// How many lines were suppressed since the last one; a field of the next line.
#[derive(Debug, PartialEq, Eq)]
pub struct SuppressedLines(u64);

impl LogLimit {
    /// Whether a line may be written now, and how many were not since the last one.
    pub fn pass(&self) -> Option<SuppressedLines> {
        let mut count = self.0.lock();
        let now = Instant::now();
        if count.since.is_none_or(|since| now - since >= LOG_INTERVAL) {
            (count.since, count.lines) = (Some(now), 0);
        }
        if count.lines == LOG_LINES_MAX {
            count.suppressed += 1;
            return None;
        }
        count.lines += 1;
        Some(SuppressedLines(std::mem::take(&mut count.suppressed)))
    }
}

impl SuppressedLines {
    /// As a field of the line; absent when none were suppressed.
    pub fn field(&self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_line_after_a_flood_counts_the_suppressed_ones() {
        let limit = LogLimit::default();
        let passed = (0..100_000).filter_map(|_| limit.pass()).count();
        assert_eq!(passed, LOG_LINES_MAX as usize);
        tokio::time::advance(LOG_INTERVAL).await;
        assert_eq!(limit.pass().unwrap().field(), Some(99_990));
        assert_eq!(limit.pass().unwrap().field(), None);
    }
}
