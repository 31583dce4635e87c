//! Names: making, linking, removing, renaming and listing them; leases and delegations of the
//! directories that hold them.
//!
//! Owns no state: `leases/` has the tables. Invariants: checks come first, then changes through
//! `Tx`, which counts entries, charges quotas, notifies watchers, and records the intent to delete
//! the cells of a file that has neither a name nor an attachment left. No cell is deleted here.

mod change_names;
mod delegate;
mod lease;
mod link;
mod list;
mod make_directory;
mod make_link;
mod make_node;
mod new_inode;
mod read_link;
mod remove_directory;
mod rename;
mod unlink;

pub(crate) use change_names::change_names;
pub(crate) use delegate::delegate;
pub(crate) use lease::lease;
pub(crate) use link::link;
pub(crate) use list::list;
pub(crate) use make_directory::make_directory;
pub(crate) use make_link::make_link;
pub(crate) use make_node::make_node;
pub(crate) use new_inode::{new_inode, place, writable};
pub(crate) use read_link::read_link;
pub(crate) use remove_directory::remove_directory;
pub(crate) use rename::rename;
pub(crate) use unlink::unlink;
