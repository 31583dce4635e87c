//! Extended attributes: get, set, list, remove.
//!
//! `user.` needs the file's permissions and a file or directory; `trusted.` is for root;
//! `security.` is set by root and read by all; `system.` is the two ACLs, which are stored in the
//! inode.
//!
//! The inode counts the bytes of its attributes, so removing a file without any costs nothing, and
//! the bound needs no scan.

mod acl_attributes;
mod get;
mod list;
mod names;
mod remove;
mod set;

pub(crate) use get::get_xattr;
pub(crate) use list::list_xattr;
pub(crate) use remove::remove_xattr;
pub(crate) use set::set_xattr;
