//! Lines of the log that strangers cause, and so must not be as many as strangers like.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lines of one sort in each [`PERIOD`]: an administrator sees what goes on, and a flood writes a
/// few KiB a minute.
const LINES: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// Lets a few lines of one sort pass and counts the others.
#[derive(Default)]
pub struct Quiet(Mutex<State>);

#[derive(Default)]
struct State {
    since: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

/// How many lines were left out since the last one; part of the next.
#[derive(Debug, PartialEq, Eq)]
pub struct LeftOut(u64);

impl Quiet {
    /// Whether a line may be written now, and what it says of those that were not.
    pub fn pass(&self) -> Option<LeftOut> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if state.since.is_none_or(|since| now - since >= PERIOD) {
            (state.since, state.lines) = (Some(now), 0);
        }
        if state.lines == LINES {
            state.suppressed += 1;
            return None;
        }
        state.lines += 1;
        Some(LeftOut(std::mem::take(&mut state.suppressed)))
    }
}

impl LeftOut {
    /// As a field of the line; absent when nothing was left out.
    pub fn field(&self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_lines_is_counted_and_the_next_line_says_so() {
        let quiet = Quiet::default();
        let passed = (0..100_000).filter_map(|_| quiet.pass()).count();
        assert_eq!(passed, LINES as usize);
        tokio::time::advance(PERIOD).await;
        assert_eq!(quiet.pass().unwrap().field(), Some(99_990));
        assert_eq!(quiet.pass().unwrap().field(), None);
    }
}
