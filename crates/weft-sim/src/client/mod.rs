//! A client of a run: operations one after the other on a file of all clients, a file and a
//! directory of its own, and names; then, when nothing fails any more, a look at everything.

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
