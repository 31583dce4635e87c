//! Failures that do not end a command: reported as they occur, counted for the exit code.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::ProgressBar;

use crate::limits::PROBLEMS_NAMED_MAX;
use crate::terminal::output;

/// A kind of failure that many files may share, summarized with one piece of advice.
#[derive(Default)]
pub(crate) struct ProblemKind(AtomicU64);

impl ProblemKind {
    /// How many files failed in this way.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The failures so far, and where they are reported.
pub(crate) struct Problems {
    count: Arc<AtomicU64>,
    reported: bool,
    bar: ProgressBar,
}

impl Default for Problems {
    fn default() -> Self {
        Problems::beside(ProgressBar::hidden())
    }
}

impl Problems {
    /// Problems that are counted but not reported, for a survey before the work itself.
    pub(crate) fn silent() -> Problems {
        Problems {
            reported: false,
            ..Problems::default()
        }
    }

    /// Problems that are reported above a progress bar.
    pub(crate) fn beside(bar: ProgressBar) -> Problems {
        Problems {
            count: Arc::default(),
            reported: true,
            bar,
        }
    }

    /// The same problems, reported above a progress bar.
    pub(crate) fn above(&self, bar: &ProgressBar) -> Problems {
        Problems {
            count: self.count.clone(),
            reported: self.reported,
            bar: bar.clone(),
        }
    }

    /// Reports a problem.
    pub(crate) fn say(&self, problem: impl Display) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.remark(problem);
    }

    /// Counts a problem of a kind, and reports it if it is among the first of its kind.
    pub(crate) fn say_of_kind(&self, kind: &ProblemKind, problem: impl Display) {
        if kind.0.fetch_add(1, Ordering::Relaxed) < PROBLEMS_NAMED_MAX {
            self.say(problem);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reports how many problems of a kind there were, with advice; nothing if there were none.
    /// `what` names them, such as "files that already exist".
    pub(crate) fn summarize(&self, kind: &ProblemKind, what: &str, advice: &str) {
        let count = kind.count();
        let named = match count {
            0 => return,
            1..=PROBLEMS_NAMED_MAX => String::new(),
            _ => format!(" (the first {PROBLEMS_NAMED_MAX} are named above)"),
        };
        self.remark(format_args!("{what}: {count}{named}; {advice}"));
    }

    /// Prints a remark that does not count as a problem.
    pub(crate) fn remark(&self, text: impl Display) {
        if self.reported {
            self.bar
                .suspend(|| output::say(format_args!("weft: {text}")));
        }
    }

    /// Reports the error, if there is one.
    pub(crate) fn note<T, E: Into<anyhow::Error>>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|e| self.say(output::error(&e.into()))).ok()
    }

    /// How many problems there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Success only if there were no problems.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.count() == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
