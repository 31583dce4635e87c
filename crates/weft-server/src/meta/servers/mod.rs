//! The calls of the metadata service to I/O servers: deletes, truncates, checkpoints, and the bytes
//! of small files.
//!
//! Every intent is on stable storage before the first server gets a call for it, every step may be
//! repeated, and the intent is removed when all servers have done it. So the death of a client, a
//! server or this service at any step leaves work to be repeated, never work half done. When each
//! intent runs is decided in `intents`.

mod checkpoint;
mod refusal;
mod requests;
mod spill;

pub(super) use checkpoint::by_server;
#[cfg(test)]
pub(super) use refusal::RefusalKind;
pub(super) use refusal::{NOTHING_DONE, Refusal, all_of, not_rolled_back, rollback_refused};
pub(super) use requests::{FileLengths, IoServers};
pub(super) use spill::SpillLocks;
