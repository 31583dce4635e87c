//! A file that one client has for itself. The client writes and reads it, truncates, renames,
//! removes and recreates it, removes its second fork (`forks`) and checkpoints it (`checkpoints`).
//!
//! An operation on the file as a whole is repeated until it is known to be done, and nothing else
//! runs meanwhile: a server that is away performs its share when it returns, and until then the
//! file's content is not determined.

mod checkpoints;
mod forks;
mod operations;
mod state;

pub(super) use self::state::PrivateFile;
