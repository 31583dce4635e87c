//! Failures that do not end a command: said as they come, counted for the exit code.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::ProgressBar;

use crate::terminal::output;

/// Failures of one kind that are named; the others are counted.
const NAMED: u64 = 10;

/// A failure that many things can have alike, and of which one advice holds for all.
#[derive(Default)]
pub(crate) struct Alike(AtomicU64);

impl Alike {
    /// How many things had it.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What went wrong so far.
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
    /// Problems that nobody hears of: of a look at things that are about to be worked on.
    pub(crate) fn unheard() -> Problems {
        Problems {
            heard: false,
            ..Problems::default()
        }
    }

    /// Says problems above a progress bar.
    pub(crate) fn beside(bar: ProgressBar) -> Problems {
        Problems {
            count: Arc::default(),
            heard: true,
            bar,
        }
    }

    /// The same problems, said above a progress bar that is there for a while.
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

    /// Counts one of many problems that are alike, and says it if it is one of the first.
    pub(crate) fn say_alike(&self, alike: &Alike, problem: impl Display) {
        if alike.0.fetch_add(1, Ordering::Relaxed) < NAMED {
            self.say(problem);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Says how many problems were alike, and what is to be done about them; nothing if there was none. `what`: such as "files that are there".
    pub(crate) fn sum_up(&self, alike: &Alike, what: &str, advice: &str) {
        let count = alike.count();
        let named = match count {
            0 => return,
            1..=NAMED => String::new(),
            _ => format!(" (the first {NAMED} are named above)"),
        };
        self.remark(format_args!("{what}: {count}{named}; {advice}"));
    }

    /// Says something that is no problem of its own.
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
