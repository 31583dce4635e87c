//! `weft create`: makes files, and lets the members of a group share one attachment.

mod command;
mod meeting;

pub(crate) use command::Create;
