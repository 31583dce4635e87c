//! Copies trees between the local file system and a volume, and within a volume.
//!
//! One owner of all state (`engine::Engine`): it holds the queues of work, keeps a bounded number
//! of tasks running, and queues the entries that they find. Files go before directories, so that
//! few entries wait; a directory is read a page at a time.
//!
//! Invariants:
//! 1. A directory exists before its entries; its times and mode are set after everything in it is
//!    done, deepest first.
//! 2. If a file has several names, one is copied and the others become hard links to the copy.
//! 3. A failure is reported with its path and server, and the copy continues; it stops when servers
//!    are unavailable repeatedly.
//! 4. Into a volume, a copy ends with one sync of each server that got data: files that were
//!    reported as copied survive power loss.
//! 5. No copy ends in zeros that its source does not have: a file that is truncated while it is
//!    copied is a failure, and a file that states no size, as in /proc, or a wrong one, as in /sys,
//!    is copied to its end. An unfinished copy of a file is removed.
//! 6. A signal ends a copy in order: files in progress are removed or finished, and finished files
//!    stay.
//!
//! Deliberately absent: forks other than `data`; a consistent state of files that are written to
//! during the copy.

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
pub(crate) use options::{Options, TreePath};
pub(crate) use part::TransferPart;
pub(crate) use report::CopySummary;
pub(crate) use tree::Tree;
