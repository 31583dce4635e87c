//! The person or program on the other side of the command: standard output and error, progress,
//! failures that do not end a command, names as they are shown, and signals.
//!
//! Invariant: text reaches a terminal through [`output`] only, which escapes whatever could command
//! it. Nothing here knows a volume's files or a command.

pub(crate) mod interrupt;
pub(crate) mod name;
pub(crate) mod output;
mod problems;
pub(crate) mod progress;

pub(crate) use problems::{Alike, Problems};
