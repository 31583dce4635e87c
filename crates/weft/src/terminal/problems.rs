//! Failures that do not end a command: reported as they occur, counted for the exit code.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::ProgressBar;

use crate::terminal::output;

/// Failures of one kind that are named; further ones are only counted.
const NAMED: u64 = 10;

/// A kind of failure that many files may share, with one advice for all of them.
#[derive(Default)]
pub(crate) struct Alike(AtomicU64);

impl Alike {
    /// How many files failed in this way.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The failures so far.
pub(crate) struct Problems {
    count: Arc<AtomicU64>,
    heard: bool,
    bar: ProgressBar,
}

impl Default for Problems {
    fn default() -> Self {
        Problems::beside(ProgressBar::hidden())
    }
}

impl Problems {
    /// Problems that are counted but not reported: of a first look before the work itself.
    pub(crate) fn unheard() -> Problems {
        Problems {
            heard: false,
            ..Problems::default()
        }
    }

    /// Problems that are reported above a progress bar.
    pub(crate) fn beside(bar: ProgressBar) -> Problems {
        Problems {
            count: Arc::default(),
            heard: true,
            bar,
        }
    }

    /// The same problems, reported above a progress bar.
    pub(crate) fn above(&self, bar: &ProgressBar) -> Problems {
        Problems {
            count: self.count.clone(),
            heard: self.heard,
            bar: bar.clone(),
        }
    }

    /// Says one problem and goes on.
    pub(crate) fn say(&self, problem: impl Display) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.remark(problem);
    }

    /// Counts a problem of a kind, and reports it if it is among the first of its kind.
    pub(crate) fn say_alike(&self, alike: &Alike, problem: impl Display) {
        if alike.0.fetch_add(1, Ordering::Relaxed) < NAMED {
            self.say(problem);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reports how many problems were of a kind, and the advice for them; nothing if there were
    /// none. `what` names them, such as "files that are there".
    pub(crate) fn sum_up(&self, alike: &Alike, what: &str, advice: &str) {
        let count = alike.count();
        let named = match count {
            0 => return,
            1..=NAMED => String::new(),
            _ => format!(" (the first {NAMED} are named above)"),
        };
        self.remark(format_args!("{what}: {count}{named}; {advice}"));
    }

    /// Prints a remark that does not count as a problem.
    pub(crate) fn remark(&self, text: impl Display) {
        if self.heard {
            self.bar
                .suspend(|| output::say(format_args!("weft: {text}")));
        }
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
