//! `weft fsck`: checks a volume, running or stopped, and says what was found and repaired.
//!
//! The checks are in the libraries. `offline` runs a stopped volume inside this process, `replicas`
//! compares those of each server, `words` says findings in words, `rows` is the report.

mod command;
mod offline;
mod replicas;
mod rows;
mod words;

pub(crate) use command::Fsck;
