//! Reading and changing attributes, extended attributes, access times, and free space.
//!
//! - `space_cache`, `acl_support`: earlier answers of the volume.
//! - `answers`: completes the service's answers with what this mount knows. `access_times`: which
//!   reads count.
//! - `stat`, `change`, `space`, `xattr`, `layout`: the operations.

mod access_times;
mod acl_support;
mod answers;
mod change;
mod layout;
mod policy;
mod space;
mod space_cache;
mod stat;
mod xattr;

pub use change::Changed;
pub use space_cache::Space;
pub use xattr::{OPTIONS_XATTR, PROCESS_XATTR, SetMode, VOLUME_XATTR};

pub(super) use acl_support::AclSupport;
pub(super) use space_cache::SpaceCache;
