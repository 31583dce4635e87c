//! `weft status`: whether a volume runs, and how its servers are.
//!
//! `asked` asks the servers, `rows` is what is known, with the keys of the JSON, `print` shows it.

mod asked;
mod command;
mod print;
mod rows;

pub(crate) use command::Status;
