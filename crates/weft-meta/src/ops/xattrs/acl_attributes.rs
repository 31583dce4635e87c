//! The two ACLs: extended attributes to clients, but fields of the inode in the engine.

use bytes::Bytes;
use weft_proto::meta::{Credentials, FileKind};

use super::names::no_attribute;
use crate::access::{SETGID, acl, in_group, is_root, not_owner, owns};
use crate::error::{MetaError, text};
use crate::records::Node;
use crate::records::record::AclRecord;
use crate::tx::Tx;

/// One of the two ACLs.
#[derive(Clone, Copy)]
pub(super) enum Acl {
    Access,
    Default,
}

impl Acl {
    pub(super) fn named(name: &[u8]) -> Option<Acl> {
        match name {
            acl::ACCESS => Some(Acl::Access),
            acl::DEFAULT => Some(Acl::Default),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Acl::Access => acl::ACCESS,
            Acl::Default => acl::DEFAULT,
        }
    }

    pub(super) fn of(self, node: &Node) -> Option<AclRecord> {
        match self {
            Acl::Access => node.inode.access_acl(),
            Acl::Default => node.inode.default_acl.clone(),
        }
    }

    pub(super) fn get(self, node: &Node, path: &[u8]) -> Result<Bytes, MetaError> {
        no_symlink(node, path)?;
        let acl = self
            .of(node)
            .ok_or_else(|| no_attribute(path, self.name()))?;
        Ok(acl.encode().into())
    }

    /// Sets the ACL in `value`; removes it without a value, or with an empty one.
    pub(super) fn set(
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
