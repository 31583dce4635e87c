//! Copies trees between the local file system and a volume, and within a volume.
//!
//! One owner of all state (`engine::Engine`): it holds what is still to do, keeps a bounded number
//! of tasks under way and takes in what they found. Files go before directories, so that what waits
//! stays little; a directory is taken in a page at a time.
//!
//! Invariants:
//! 1. A directory is there before what it holds; its times and bits are set after everything in it
//!    is done, deepest first.
//! 2. Of several names of one file, one is copied and the others become hard links to the copy.
//! 3. What fails is said, with its path and its server, and the copy goes on; it stops when servers
//!    are lost again and again.
//! 4. Into a volume, a copy ends with one sync of each server that got data: what was reported
//!    survives power loss.
//! 5. No copy ends in zeros that its source does not have: a file that is cut while it is copied is
//!    a failure, and one that states no size, as in /proc, or a wrong one, as in /sys, is copied to
//!    its end. What of a file cannot be ended is taken away.
//! 6. A signal ends a copy in order: what is under way is taken away or ended, and what is whole
//!    stays.
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
