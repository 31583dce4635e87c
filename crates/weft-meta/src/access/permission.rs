//! Permissions: the mode bits, and access ACLs where there are any.

use weft_proto::limits::GROUPS_MAX;
use weft_proto::meta::Credentials;

use crate::error::{MetaError, text};
use crate::records::record::InodeRecord;

pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const SEARCH: u32 = 1;

pub(crate) const SETUID: u32 = 0o4000;
pub(crate) const SETGID: u32 = 0o2000;
pub(crate) const STICKY: u32 = 0o1000;
pub(crate) const GROUP_EXEC: u32 = 0o010;
/// All bits of a mode.
pub(crate) const MODE: u32 = 0o7777;

/// Refuses credentials that no legal client sends.
pub(crate) fn check_caller(who: &Credentials) -> Result<(), MetaError> {
    if who.groups.len() > GROUPS_MAX {
        return Err(MetaError::TooManyGroups {
            count: who.groups.len(),
        });
    }
    Ok(())
}

pub(crate) fn is_root(who: &Credentials) -> bool {
    who.uid == 0
}

pub(crate) fn in_group(who: &Credentials, gid: u32) -> bool {
    who.gid == gid || who.groups.contains(&gid)
}

pub(crate) fn owns(who: &Credentials, inode: &InodeRecord) -> bool {
    is_root(who) || who.uid == inode.uid
}

/// Whether the caller's class, or the caller's ACL entries, have all bits of `mask`.
pub(crate) fn may(who: &Credentials, inode: &InodeRecord, mask: u32) -> bool {
    if is_root(who) {
        return true;
    }
    let bits = if who.uid == inode.uid {
        inode.mode >> 6
    } else if let Some(acl) = &inode.acl {
        let (group_bits, other) = (inode.mode >> 3 & 7, inode.mode & 7);
        return acl.allows(who, inode.gid, group_bits, other, mask);
    } else if in_group(who, inode.gid) {
        inode.mode >> 3
    } else {
        inode.mode
    };
    bits & mask == mask
}

/// [`may`], or the error that names what is missing.
pub(crate) fn need(
    who: &Credentials,
    inode: &InodeRecord,
    mask: u32,
    path: &[u8],
) -> Result<(), MetaError> {
    if may(who, inode, mask) {
        return Ok(());
    }
    let need = match mask {
        READ => "read",
        WRITE => "write",
        SEARCH => "search",
        _ => "read and write",
    };
    Err(MetaError::Denied {
        path: text(path),
        uid: who.uid,
        need,
    })
}

/// Checks that the caller may remove a name: in a sticky directory only the owner of the file or of
/// the directory may.
pub(crate) fn need_removable(
    who: &Credentials,
    directory: &InodeRecord,
    inode: &InodeRecord,
    path: &[u8],
) -> Result<(), MetaError> {
    if directory.mode & STICKY == 0 || owns(who, inode) || who.uid == directory.uid {
        return Ok(());
    }
    Err(not_owner(
        who,
        path,
        "remove another's file from a sticky directory",
    ))
}

pub(crate) fn not_owner(who: &Credentials, path: &[u8], action: &'static str) -> MetaError {
    MetaError::NotOwner {
        path: text(path),
        uid: who.uid,
        action,
    }
}

/// The mode after a write by an unknown caller that is not privileged.
pub(crate) fn without_privilege(inode: &InodeRecord) -> u32 {
    let mut mode = inode.mode & !SETUID;
    if mode & GROUP_EXEC != 0 {
        mode &= !SETGID;
    }
    mode
}

/// The mode after a write by a caller other than root, or after a change of owner: a caller must
/// not gain rights by a set-id file that another caller has filled.
pub(crate) fn without_set_id(who: &Credentials, inode: &InodeRecord) -> u32 {
    let mut mode = inode.mode & !SETUID;
    if mode & GROUP_EXEC != 0 || !(is_root(who) || in_group(who, inode.gid)) {
        mode &= !SETGID;
    }
    mode
}
