//! The messages: bodies of requests and replies, one file for each family of calls.

pub mod checkpoint;
pub mod collective;
pub mod coord;
pub mod delegation;
pub mod fsck;
pub mod inline;
pub mod io;
pub mod meta;
pub mod quota;
pub mod session;
pub mod stamp;
pub mod upkeep;
