//! Extended attributes: get, set, list, remove.
//!
//! `user.` needs the file's own permissions and a file or directory; `trusted.` is root's;
//! `security.` is set by root and read by all; `system.` is the two ACLs, which the inode holds.
//!
//! The inode counts the bytes of its attributes, so a file without any costs nothing when it is
//! removed, and the bound needs no scan.

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
