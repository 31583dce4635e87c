//! Permissions: mode bits and POSIX access control lists.
//!
//! Pure functions over credentials and inodes: nothing here reads the engine.

pub(crate) mod acl;
mod permission;

pub(crate) use permission::{
    GROUP_EXEC, MODE, READ, SEARCH, SETGID, STICKY, WRITE, check_caller, in_group, is_root, may,
    need, need_removable, not_owner, owns, without_privilege, without_set_id,
};
