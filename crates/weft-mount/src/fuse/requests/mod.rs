//! One request of the kernel becomes one call on the file system, and its result a reply.
//! Stateless.

mod dispatch;
mod locks;
mod names;
mod pack;
mod reply;
mod xattrs;

pub(super) use dispatch::carry_out;
pub(super) use reply::Reply;
