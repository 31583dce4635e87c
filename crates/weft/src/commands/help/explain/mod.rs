//! `weft explain`: what a read or write would do. `explanation` is the arithmetic, without a
//! volume.

mod command;
mod explanation;

pub(crate) use command::Explain;
