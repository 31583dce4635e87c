//! The person or program on the other side of the command: standard output and error, progress,
//! failures that do not end a command, names as they are shown, and signals.
//!
//! Invariant: text reaches a terminal only through [`output`], which escapes control characters.
//! Nothing here knows files of a volume, or commands.

pub(crate) mod interrupt;
pub(crate) mod name;
pub(crate) mod output;
mod problems;
pub(crate) mod progress;

pub(crate) use problems::{ProblemKind, Problems};
