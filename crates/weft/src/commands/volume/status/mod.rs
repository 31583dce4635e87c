//! `weft status`: whether a volume runs, and how its servers are.
//!
//! `answers` asks the servers, `rows` is the report with the keys of the JSON, `print` shows it.

mod answers;
mod command;
mod print;
mod rows;

pub(crate) use command::Status;
