//! SetXattr: sets one attribute.

use weft_proto::limits::{XATTR_TOTAL_MAX, XATTR_VALUE_MAX};
use weft_proto::meta::{SetXattrRequest, XattrDone};

use super::acl_attributes::Acl;
use super::names::{Access, check_name, no_attribute, stored_bytes};
use crate::error::{MetaError, text};
use crate::paths::resolve;
use crate::records::keys::{self, XATTRS};
use crate::records::record::XattrRecord;
use crate::tx::Volume;

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
        check_name(&request.who, &node, &request.name, Access::Write, path)?;
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
