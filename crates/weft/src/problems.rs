//! Failures that do not end a command: said as they come, counted for the exit code.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::ProgressBar;

use crate::output;

/// What went wrong so far.
pub(crate) struct Problems {
    count: AtomicU64,
    bar: ProgressBar,
}

impl Default for Problems {
    fn default() -> Self {
        Problems::beside(ProgressBar::hidden())
    }
}

impl Problems {
    /// Says problems above a progress bar.
    pub(crate) fn beside(bar: ProgressBar) -> Problems {
        Problems {
            count: AtomicU64::new(0),
            bar,
        }
    }

    /// Says one problem and goes on.
    pub(crate) fn say(&self, problem: impl Display) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bar
            .suspend(|| output::say(format_args!("weft: {problem}")));
    }

    /// Says what failed, if it failed.
    pub(crate) fn note<T, E: Into<anyhow::Error>>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|e| self.say(output::error(&e.into()))).ok()
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Success only if there was none.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.count() == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
