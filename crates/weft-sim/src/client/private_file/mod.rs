//! A file that one client has for itself: besides being written and read it is cut, renamed,
//! removed and made anew; its second fork is in `fork`, its checkpoints are in `kept`.
//!
//! What changes the file as a whole is repeated until it is known to be done, with nothing else
//! going on: what is owed to a server that is away happens when it is back, and until then nobody
//! can say what the file holds.

mod checkpoints;
mod forks;
mod operations;
mod state;

pub(super) use self::state::PrivateFile;
