//! `weft status`: whether a volume runs, and how its servers are.
//!
//! `answers` asks the servers, `rows` is the report with the keys of the JSON, `print` shows it.
//!
//! Owns no state. Invariants: a server that does not answer delays the report by at most a timeout;
//! the JSON and the printed report come from the same rows. Nothing here changes the volume.

mod answers;
mod command;
mod print;
mod rows;

pub(crate) use command::Status;
