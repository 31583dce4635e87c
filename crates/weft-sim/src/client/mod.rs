//! A client of a run. It works on a file that all clients share, on a private file, on a private
//! directory and on names; when all faults are repaired it checks all of them.
//!
//! Owns what each client knows of its own files; what clients share is in `crate::state`.
//! Invariants: an operation that failed may or may not have taken effect, and the expected content
//! allows both; all randomness comes from the run's seed. Calls go through the public interface of
//! `weft-client`; faults come from `crate::faults`, except bad blocks (`shared_file/rot.rs`).

mod calls;
mod content;
mod copies;
mod crashing;
mod names;
mod ordered_file;
mod private_file;
mod run;
mod settle;
mod shared_file;
mod size;
mod tree;
mod upkeep;
mod volume;
mod worker;

pub(crate) use self::crashing::CrashingClient;
pub(crate) use self::volume::{RECOVERY_TIME, connect};
pub(crate) use self::worker::Client;
