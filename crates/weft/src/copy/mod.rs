//! Copies trees between the local file system and a volume, and within a volume.
//!
//! One owner of all state (`engine::Engine`): it holds what is still to do, keeps a bounded number
//! of tasks running and takes in what they found. Files go before directories, so that few entries
//! wait; a directory is read a page at a time.
//!
//! Invariants:
//! 1. A directory exists before its entries; its times and mode are set after everything in it is
//!    done, deepest first.
//! 2. Of several names of one file, one is copied and the others become hard links to the copy.
//! 3. A failure is reported with its path and its server, and the copy goes on; it stops when
//!    servers are lost repeatedly.
//! 4. Into a volume, a copy ends with one sync of each server that got data: what was reported
//!    survives power loss.
//! 5. No copy ends in zeros that its source does not have: a file that is truncated while it is
//!    copied is a failure, and a file that states no size, as in /proc, or a wrong one, as in /sys,
//!    is copied to its end. An unfinished copy of a file is removed.
//! 6. A signal ends a copy in order: files in progress are removed or finished, and finished files
//!    stay.
//!
//! Deliberately absent: forks other than `data`; a file that is written to while it is copied is
//! copied as it is read.

mod context;
mod data;
mod engine;
mod entry;
pub(crate) mod local;
mod node;
mod options;
mod part;
mod report;
mod sink;
mod source;
mod tree;
pub(crate) mod zeros;

pub(crate) use engine::run;
pub(crate) use node::Node;
pub(crate) use options::{Options, Side};
pub(crate) use part::Part;
pub(crate) use report::Summary;
pub(crate) use tree::Tree;
