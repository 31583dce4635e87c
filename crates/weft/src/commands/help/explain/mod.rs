//! `weft explain`: what a read or write would do. `explanation` is the arithmetic, without a
//! volume; `chunks` is what servers say of the chunks of a write.

mod chunks;
mod command;
mod explanation;

pub(crate) use command::Explain;
