//! Extended attributes: get, set, list, remove.
//!
//! `user.` needs the file's own permissions and a file or directory; `trusted.` is root's;
//! `security.` is set by root and read by all; `system.` is the two ACLs, which lie in the inode.
//! The inode counts the bytes, so that a file without attributes costs nothing when it goes, and
//! the bound needs no scan.

use std::ops::ControlFlow;

use bytes::Bytes;
use weft_kv::scan_prefix;
use weft_proto::limits::{NAME_MAX, XATTR_TOTAL_MAX, XATTR_VALUE_MAX};
use weft_proto::meta::{
    Credentials, FileKind, GetXattrReply, GetXattrRequest, ListXattrReply, ListXattrRequest,
    RemoveXattrRequest, SetXattrRequest, XattrDone,
};

use crate::access::{READ, SETGID, STICKY, WRITE, acl, in_group, is_root, need, not_owner, owns};
use crate::error::{MetaError, text};
use crate::paths::resolve;
use crate::records::Node;
use crate::records::keys::{self, XATTRS};
use crate::records::record::{AclRecord, XattrRecord};
use crate::tx::{Tx, Volume};

pub(crate) fn get_xattr(
    volume: &Volume,
    request: &GetXattrRequest,
) -> Result<GetXattrReply, MetaError> {
    let path = &request.target.path;
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        if let Some(acl) = Acl::named(&request.name) {
            let value = acl.get(&node, path)?;
            return Ok(GetXattrReply { value });
        }
        check(&request.who, &node, &request.name, false, path)?;
        let value = reader.get(XATTRS, &keys::with_name(node.id, &request.name))?;
        let value = value.ok_or_else(|| no_attribute(path, &request.name))?;
        let record: XattrRecord = keys::decode("extended attribute of", node.id, &value)?;
        Ok(GetXattrReply {
            value: record.value.into(),
        })
    })
}

pub(crate) fn set_xattr(
    volume: &Volume,
    now: i64,
    request: &SetXattrRequest,
) -> Result<XattrDone, MetaError> {
    let path = &request.target.path;
    let length = request.value.len();
    if length > XATTR_VALUE_MAX {
        return Err(MetaError::AttributeTooLarge {
            path: text(path),
            length,
        });
    }
    volume.transact(|tx| {
        let node = resolve(tx.reader(), &request.who, &request.target)?;
        if let Some(acl) = Acl::named(&request.name) {
            acl.set(tx, &node, &request.who, Some(&request.value), path, now)?;
            return Ok(XattrDone {});
        }
        check(&request.who, &node, &request.name, true, path)?;
        let key = keys::with_name(node.id, &request.name);
        let old = tx.reader().get(XATTRS, &key)?;
        if old.is_some() && request.create {
            return Err(MetaError::AttributeExists {
                path: text(path),
                name: text(&request.name),
            });
        }
        if old.is_none() && request.replace {
            return Err(no_attribute(path, &request.name));
        }
        let before = stored_bytes(node.id, &request.name, old.as_deref())?;
        let bytes = node.inode.xattr_bytes.saturating_sub(before);
        let bytes = bytes + (request.name.len() + length) as u64;
        if bytes > XATTR_TOTAL_MAX as u64 {
            return Err(MetaError::AttributesFull {
                path: text(path),
                length: bytes,
            });
        }
        let record = XattrRecord {
            value: request.value.to_vec(),
        };
        tx.put(XATTRS, &key, &record);
        let inode = tx.change(node.id, &node.inode);
        inode.xattr_bytes = bytes;
        inode.changed = now;
        Ok(XattrDone {})
    })
}

pub(crate) fn list_xattr(
    volume: &Volume,
    request: &ListXattrRequest,
) -> Result<ListXattrReply, MetaError> {
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        let mut names = Vec::new();
        if node.inode.xattr_bytes > 0 {
            scan_prefix(reader, XATTRS, &node.id.to_be_bytes(), &mut |key, _| {
                let name = &key[8..];
                if is_root(&request.who) || !name.starts_with(b"trusted.") {
                    names.push(name.to_vec().into());
                }
                ControlFlow::Continue(())
            })?;
        }
        for acl in [Acl::Access, Acl::Default] {
            if acl.of(&node).is_some() {
                names.push(acl.name().into());
            }
        }
        names.sort();
        Ok(ListXattrReply { names })
    })
}

pub(crate) fn remove_xattr(
    volume: &Volume,
    now: i64,
    request: &RemoveXattrRequest,
) -> Result<XattrDone, MetaError> {
    let path = &request.target.path;
    volume.transact(|tx| {
        let node = resolve(tx.reader(), &request.who, &request.target)?;
        if let Some(acl) = Acl::named(&request.name) {
            acl.set(tx, &node, &request.who, None, path, now)?;
            return Ok(XattrDone {});
        }
        check(&request.who, &node, &request.name, true, path)?;
        let key = keys::with_name(node.id, &request.name);
        let old = tx.reader().get(XATTRS, &key)?;
        if old.is_none() {
            return Err(no_attribute(path, &request.name));
        }
        let bytes = stored_bytes(node.id, &request.name, old.as_deref())?;
        tx.delete(XATTRS, &key);
        let inode = tx.change(node.id, &node.inode);
        inode.xattr_bytes = inode.xattr_bytes.saturating_sub(bytes);
        inode.changed = now;
        Ok(XattrDone {})
    })
}

/// One of the two ACLs, which are extended attributes from outside.
#[derive(Clone, Copy)]
enum Acl {
    Access,
    Default,
}

impl Acl {
    fn named(name: &[u8]) -> Option<Acl> {
        match name {
            acl::ACCESS => Some(Acl::Access),
            acl::DEFAULT => Some(Acl::Default),
            _ => None,
        }
    }

    fn name(self) -> &'static [u8] {
        match self {
            Acl::Access => acl::ACCESS,
            Acl::Default => acl::DEFAULT,
        }
    }

    fn of(self, node: &Node) -> Option<AclRecord> {
        match self {
            Acl::Access => node.inode.access_acl(),
            Acl::Default => node.inode.default_acl.clone(),
        }
    }

    fn get(self, node: &Node, path: &[u8]) -> Result<Bytes, MetaError> {
        no_symlink(node, path)?;
        let acl = self
            .of(node)
            .ok_or_else(|| no_attribute(path, self.name()))?;
        Ok(acl.encode().into())
    }

    /// Sets the ACL that `value` holds; without one, or with an empty one, takes it away.
    fn set(
        self,
        tx: &mut Tx<'_, '_>,
        node: &Node,
        who: &Credentials,
        value: Option<&[u8]>,
        path: &[u8],
        now: i64,
    ) -> Result<(), MetaError> {
        no_symlink(node, path)?;
        let acl = value.map_or(Ok(None), AclRecord::parse);
        let acl = acl.map_err(|reason| MetaError::Invalid {
            path: text(path),
            reason,
        })?;
        if matches!(self, Acl::Default) && !node.inode.is_directory() {
            return match acl {
                Some(_) => Err(MetaError::Denied {
                    path: text(path),
                    uid: who.uid,
                    need: "default ACL (only directories have one):",
                }),
                None => Ok(()),
            };
        }
        if !owns(who, &node.inode) {
            return Err(not_owner(who, path, "set the ACL of another's file"));
        }
        let inode = tx.change(node.id, &node.inode);
        inode.changed = now;
        match (self, acl) {
            (Acl::Default, acl) => inode.default_acl = acl,
            (Acl::Access, None) => inode.acl = None,
            (Acl::Access, Some(acl)) => {
                inode.set_access_acl(acl);
                // As chmod.
                if !is_root(who) && !in_group(who, inode.gid) {
                    inode.mode &= !SETGID;
                }
            }
        }
        Ok(())
    }
}

fn no_symlink(node: &Node, path: &[u8]) -> Result<(), MetaError> {
    if !node.inode.is(FileKind::Symlink) {
        return Ok(());
    }
    Err(MetaError::Unsupported {
        path: text(path),
        reason: "a symbolic link has no ACL",
    })
}

/// What a stored attribute counts for.
fn stored_bytes(id: u64, name: &[u8], stored: Option<&[u8]>) -> Result<u64, MetaError> {
    let Some(stored) = stored else {
        return Ok(0);
    };
    let record: XattrRecord = keys::decode("extended attribute of", id, stored)?;
    Ok((name.len() + record.value.len()) as u64)
}

fn check(
    who: &Credentials,
    node: &Node,
    name: &[u8],
    write: bool,
    path: &[u8],
) -> Result<(), MetaError> {
    if name.len() > NAME_MAX {
        return Err(MetaError::NameTooLong { length: name.len() });
    }
    if name.contains(&0) {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "an extended attribute's name holds no zero byte",
        });
    }
    let known: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    if known.contains(&name) {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "an extended attribute has a name after the point",
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

fn no_attribute(path: &[u8], name: &[u8]) -> MetaError {
    MetaError::NoAttribute {
        path: text(path),
        name: text(name),
    }
}
