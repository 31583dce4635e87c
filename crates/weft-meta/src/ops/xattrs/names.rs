//! Names of extended attributes: which are legal, and which permissions each class needs.

use weft_proto::limits::NAME_MAX;
use weft_proto::meta::{Credentials, FileKind};

use crate::access::{READ, STICKY, WRITE, is_root, need, not_owner, owns};
use crate::error::{MetaError, text};
use crate::records::record::XattrRecord;
use crate::records::{Node, keys};

/// The bytes that a stored attribute is counted with.
pub(super) fn stored_bytes(id: u64, name: &[u8], stored: Option<&[u8]>) -> Result<u64, MetaError> {
    let Some(stored) = stored else {
        return Ok(0);
    };
    let record: XattrRecord = keys::decode("extended attribute of", id, stored)?;
    Ok((name.len() + record.value.len()) as u64)
}

/// What a call does with an attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Checks that the caller may do this with an attribute of this name.
pub(super) fn check_name(
    who: &Credentials,
    node: &Node,
    name: &[u8],
    access: Access,
    path: &[u8],
) -> Result<(), MetaError> {
    let write = access == Access::Write;
    if name.len() > NAME_MAX {
        return Err(MetaError::NameTooLong { length: name.len() });
    }
    if name.contains(&0) {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "an extended attribute's name cannot contain a zero byte",
        });
    }
    let known: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    if known.contains(&name) {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "an extended attribute needs a name after its prefix",
        });
    }
    let inode = &node.inode;
    let is_in = |prefix: &[u8]| name.len() > prefix.len() && name.starts_with(prefix);
    if is_in(b"user.") {
        if !inode.is_directory() && !inode.is(FileKind::Regular) {
            return Err(if write {
                not_owner(
                    who,
                    path,
                    "set user attributes of what is neither file nor directory",
                )
            } else {
                no_attribute(path, name)
            });
        }
        if write && inode.is_directory() && inode.mode & STICKY != 0 && !owns(who, inode) {
            return Err(not_owner(
                who,
                path,
                "set attributes of another's sticky directory",
            ));
        }
        return need(who, inode, if write { WRITE } else { READ }, path);
    }
    if is_in(b"trusted.") && !is_root(who) {
        return Err(if write {
            not_owner(who, path, "set trusted attributes")
        } else {
            no_attribute(path, name)
        });
    }
    if is_in(b"security.") && write && !is_root(who) {
        return Err(not_owner(who, path, "set security attributes"));
    }
    if is_in(b"trusted.") || is_in(b"security.") {
        return Ok(());
    }
    Err(MetaError::Unsupported {
        path: text(path),
        reason: "extended attributes are named user.…, trusted.…, security.… or system.posix_acl_…",
    })
}

pub(super) fn no_attribute(path: &[u8], name: &[u8]) -> MetaError {
    MetaError::NoAttribute {
        path: text(path),
        name: text(name),
    }
}
