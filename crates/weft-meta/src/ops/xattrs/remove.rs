//! RemoveXattr: removes one attribute.

use weft_proto::meta::{RemoveXattrRequest, XattrDone};

use super::acl_attributes::Acl;
use super::names::{Access, check_name, no_attribute, stored_bytes};
use crate::error::MetaError;
use crate::paths::resolve;
use crate::records::keys::{self, XATTRS};
use crate::tx::Volume;

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
        check_name(&request.who, &node, &request.name, Access::Write, path)?;
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
