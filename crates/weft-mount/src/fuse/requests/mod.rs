//! One request of the kernel becomes one call on the file system, and its result a reply.
//!
//! Owns no state. Invariants: a malformed request is refused with an errno and reaches nothing
//! else; a reply has the layout of `device/abi.rs`. Nothing here reads or writes `/dev/fuse`,
//! spawns a task or retries: `session/` does, and answers each request once.

mod dispatch;
mod locks;
mod names;
mod pack;
mod reply;
mod xattrs;

pub(super) use dispatch::carry_out;
pub(super) use reply::Reply;
