//! A client of a run. It works on a file that all clients share, on a private file, on a private
//! directory and on names; when all faults are repaired it checks all of them.

mod calls;
mod content;
mod copies;
mod crashing;
mod names;
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
pub(crate) use self::worker::Client;
